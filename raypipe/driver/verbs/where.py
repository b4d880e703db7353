"""Where a command of one stage runs: in this process if its work is small, otherwise on Ray."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from raypipe.config.recipe import Recipe
from raypipe.errors import InputError
from raypipe.models.folder.model_folder import packaged_folder
from raypipe.storage.compression import COMPRESSED_SUFFIXES, open_binary
from raypipe.uris import in_bucket

INLINE_SECONDS = 60
"""In less, Ray's actors on several cores gain no more than what they take to start."""
PREPARED, TOKENIZED, MAPPED = 5e6, 1e6, 2e8
"""Bytes a second: of text prepared, of text split or indexed, and of vectors searched."""
UNPACKED, TOKEN_BYTES, VECTOR_BYTES, LINE_BYTES = 4, 3, 1536, 30
"""Bytes of text in one of a compressed file; bytes of a token, a vector and a run's line."""
QUERY_SECONDS, MAPPED_QUERIES = 0.02, 100
"""Time of a query, and how many a search takes through the vectors in the time of reading."""
WEIGHTS_A_SECOND = 3e11
"""Bytes of weights times tokens: half of what one core does of all-MiniLM-L6-v2."""
OTHER_WEIGHTS = 500_000_000
"""Bytes of a model whose files are not here yet: a hub's, if it has BERT-base's size."""


def where(recipe: Recipe, *, inline: bool, ray: bool) -> tuple[bool, str]:
    """Whether a recipe of single stages runs in this process, and why, in a few words.

    Raises:
        InputError: both are asked for.
    """
    if inline and ray:
        raise InputError("--inline, --ray: expected at most one of them, found both; remove one")
    if inline or ray:
        return inline, "--inline" if inline else "--ray"
    if os.environ.get("RAY_ADDRESS"):
        return False, "RAY_ADDRESS is set"
    seconds = seconds_of(recipe)
    if seconds is None:
        return False, "an input is no file of this machine"
    return seconds < INLINE_SECONDS, f"about {max(1, round(seconds)):,} s of work or less"


def seconds_of(recipe: Recipe) -> float | None:
    """The time of the last stage on one core, rather too long; None if an input is not a file.

    Work before the last stage counts too, unless a workspace's stores hold its results.
    """
    files = [file for path in recipe.collection.input for file in _files(path)]
    queries = [Path(each.file) for each in recipe.queries.values() if each.file is not None]
    if not files or not all(file.is_file() for file in [*files, *queries]):
        return None
    text, passages = sum(map(_size, files)), _records(files)
    num_queries = _records(queries)
    seconds = 0.0 if recipe.stores else text / PREPARED
    if not recipe.stages:  # `tokenize` has a model, `prepare` has none
        return seconds + (text / TOKENIZED if recipe.models else 0)
    *before, last = recipe.stages.values()
    seconds += num_queries * QUERY_SECONDS
    if last.do == "search":
        return seconds + passages * VECTOR_BYTES / MAPPED * (1 + num_queries / MAPPED_QUERIES)
    if last.do not in ("index", "encode", "score"):
        return seconds
    seconds += text / TOKENIZED
    model = getattr(last, "model", None)
    if model is not None:
        tokens = text / TOKEN_BYTES
        if last.do == "score":
            length = min(512.0, 2 * text / passages / TOKEN_BYTES + 32)
            tokens = length * _inputs(last, before, num_queries, passages)
        seconds += tokens * _weights(recipe.models[model].path) / WEIGHTS_A_SECOND
    return seconds


def _inputs(stage: Any, before: Sequence[Any], num_queries: float, passages: float) -> float:
    """Candidates of a monoBERT model, or ordered pairs of a duoBERT model."""
    runs = [Path(run) for each in before for run in getattr(each, "runs", {}).values()]
    lines = sum(_size(run) for run in runs if run.is_file()) / LINE_BYTES
    mono = getattr(stage, "k0", None) is not None
    most = min(stage.k0 if mono else stage.k1, passages, 1 + lines / num_queries)
    return float(num_queries * most * (1 if mono else most))


def _files(path: str) -> list[Path]:
    """The files of an input, which are none of this machine if it is in a bucket or a data set."""
    place = Path(path)
    inside = place.is_dir() and not in_bucket(path)
    return [file for file in place.iterdir() if file.is_file()] if inside else [place]


def _size(file: Path) -> int:
    return file.stat().st_size * (UNPACKED if file.suffix in COMPRESSED_SUFFIXES else 1)


def _records(files: Sequence[Path]) -> float:
    """About how many records there are, by the first bytes of the first file; one at least."""
    if not files:
        return 1.0
    with open_binary(files[0]) as stream:
        head = stream.read(1 << 16)
    return 1 + sum(map(_size, files)) / min(1000, 1 + len(head) / (1 + head.count(b"\n")))


def _weights(path: str) -> int:
    """Bytes of a model's weights; packaged rerankers are all-MiniLM-L6-v2 with an adapter."""
    folder = Path(path) if "/" in path else packaged_folder()
    file = folder / "model.safetensors"
    return file.stat().st_size if file.is_file() else OTHER_WEIGHTS
