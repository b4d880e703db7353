"""The inputs of a rehearsal, written once."""

import json
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path

from raypipe.data.files import parsed_lines
from raypipe.data.formats.fields import id_and_text
from raypipe.data.queries import read_queries
from raypipe.data.records import Problems
from raypipe.errors import InputError
from raypipe.storage.files import replace_file
from raypipe.storage.records import hash_file
from rehearsal.recipe import write_recipe
from rehearsal.texts import (
    made_up_queries,
    write_judgements,
    write_passages,
    write_queries,
)
from rehearsal.weights import write_models
from rehearsal.words import words_like

SAMPLED = 1_000
"""Passages of which the encoder's vectors have a mean of zero."""


@dataclass(frozen=True)
class Size:
    """What a rehearsal is of."""

    passages: int = 8_841_823
    queries: int = 6_980
    """The first of the given ones, at most."""
    eval_queries: int = 0
    seed: int = 1


def make_inputs(folder: Path, like: Path, queries: Path, size: Size) -> Path:
    """The recipe; writes it with passages, queries, judgements and models, if they are missing.

    Raises:
        InputError: a file cannot be read, or the folder holds a rehearsal of other inputs.
    """
    missing = [
        f"{flag} {file}: no such file"
        for flag, file in (("--like", like), ("--queries", queries))
        if not file.is_file()
    ]
    if missing:
        raise InputError(missing)
    recipe, note = folder / "rehearsal.yaml", folder / "rehearsal.json"
    told = asdict(size) | {"like": hash_file(like), "queries_file": hash_file(queries)}
    if note.exists():
        found = json.loads(note.read_bytes())
        other = [key for key in told if found.get(key) != told[key]]
        if other:
            values = "; ".join(f"{key}: found {found.get(key)}, given {told[key]}" for key in other)
            raise InputError(f"{folder}: holds another rehearsal ({values}); name another --out")
        return recipe
    problems = Problems()
    words = words_like(text for _, (_, text) in parsed_lines(like, id_and_text, problems))
    problems.raise_if_any()
    data = folder / "msmarco"
    asked = read_queries(queries)[: size.queries]
    write_queries(data / "queries.dev.small.tsv", asked)
    write_judgements(data / "qrels.dev.small.tsv", asked, size.passages, size.seed)
    if size.eval_queries:
        made_up = made_up_queries(words, size.eval_queries, size.seed)
        write_queries(data / "queries.eval.small.tsv", made_up)
    write_passages(data / "collection.tsv", words, size.passages, size.seed)
    written = parsed_lines(data / "collection.tsv", id_and_text, problems)
    sample = [text for _, (_, text) in islice(written, SAMPLED)]
    write_models(folder / "models", sample, size.seed)
    write_recipe(recipe, more=size.eval_queries > 0)
    replace_file(note, (json.dumps(told, indent=2) + "\n").encode())
    return recipe
