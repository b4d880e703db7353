"""What a model folder's own files say: its settings, each with its source, and its config.json.

The family that config.json names checks it.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from raypipe.errors import InputError
from raypipe.models.family import family_of
from raypipe.models.tensors import Shape
from raypipe.models.tokenizer import read_tokenizer
from raypipe.models.whole.files import OWN_CODE
from raypipe.regular import check_regular
from raypipe.text.inputs import Layout
from raypipe.text.prompts import sliced
from raypipe.text.tokenize import encoded

MAX_JSON_BYTES = 64_000_000
"""A multilingual model's tokenizer.json has about 35 million."""

STATED = " prompts."
"""In the source of a prefix that the folder's own files state, if only as empty text."""
LARGEST_LENGTH = 1e300
"""transformers writes 1e30 for a tokenizer without a limit; an infinite number is none either."""


@dataclass(slots=True)
class Evidence:
    """The settings read so far; each open field is a problem."""

    values: dict[str, Any] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)
    """Field -> why it is open; raypipe.json can give the field."""
    refusals: list[str] = field(default_factory=list)
    """Problems that no setting can solve."""
    notes: list[str] = field(default_factory=list)

    def add(self, source: str, **values: Any) -> None:
        """Add values from one source."""
        self.values |= values
        self.sources |= dict.fromkeys(values, source)


def read_json(path: Path) -> Any:
    """The file's content; None if there is no such file.

    Raises:
        InputError: it is not a file, larger than `MAX_JSON_BYTES`, or not JSON.
    """
    if not path.exists():
        return None
    check_regular(path, "a JSON file")
    try:
        num_bytes = path.stat().st_size
        if num_bytes > MAX_JSON_BYTES:
            raise InputError(
                f"{path}: expected JSON of at most {MAX_JSON_BYTES:,} bytes, found {num_bytes:,}"
            )
        return json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: expected JSON, found: {error}; correct the file") from error
    except OSError as error:
        raise InputError(f"{path}: expected a JSON file, found: {error.strerror}") from error


def read_object(path: Path) -> dict[str, Any]:
    """The JSON object in a file; empty if there is no such file.

    Raises:
        InputError: it is not a JSON object.
    """
    body = read_json(path)
    if body is None:
        return {}
    if not isinstance(body, dict):
        raise InputError(f"{path}: expected a JSON object, found {type(body).__name__}")
    return body


def part_of(body: Mapping[str, Any], name: str, path: Path) -> dict[str, Any]:
    """The object at a key of a file's object; empty if there is none.

    Raises:
        InputError: it is something else.
    """
    found = body.get(name)
    if not isinstance(found, dict | None):
        raise InputError(f"{path}: {name}: expected an object, found {type(found).__name__}")
    return found or {}


def token_limit(folder: Path, config: Mapping[str, Any]) -> tuple[int | None, str]:
    """(tokens of an input with special tokens, source), as sentence-transformers reads it.

    It is max_seq_length, or the tokenizer's model_max_length up to the model's positions.
    """
    stated = read_object(folder / "sentence_bert_config.json").get("max_seq_length")
    if stated is not None:
        return stated, "sentence_bert_config.json max_seq_length, specials included"
    positions = _positions(config)
    longest = read_object(folder / "tokenizer_config.json").get("model_max_length")
    if (
        isinstance(longest, int | float)
        and abs(longest) < LARGEST_LENGTH
        and (positions is None or longest < positions)
    ):
        return int(longest), "tokenizer_config.json model_max_length, specials included"
    return positions, "config.json max_position_embeddings, specials included"


def _positions(config: Mapping[str, Any]) -> int | None:
    """Tokens of the longest input; of a family that is unknown, its positions."""
    stated = config.get("max_position_embeddings")
    try:
        return family_of(config).files.num_positions(config) if type(stated) is int else stated
    except InputError:
        return stated


def read_prompts(folder: Path, found: Evidence) -> None:
    """Read the prefixes that encode_query and encode_document use."""
    file = "config_sentence_transformers.json"
    body = read_object(folder / file)
    prompts = body.get("prompts") or {}
    if not isinstance(prompts, dict):
        raise InputError(f"{folder / file}: prompts: expected an object, found {prompts!r}")
    for side, names in (("query", ("query",)), ("passage", ("document", "passage", "corpus"))):
        name = next((name for name in names if name in prompts), None)
        where = f"{file}{STATED}{name}" if name else f"{file}: no prompt for a {side}"
        found.add(where, **{f"{side}_prefix": prompts[name] if name else ""})
    default = body.get("default_prompt_name")
    if not isinstance(default, str | None):
        raise InputError(f"{folder / file}: default_prompt_name: expected text, found {default!r}")
    if prompts.get(default) and default not in ("query", "document", "passage", "corpus"):
        for side in ("query", "passage"):
            found.problems[f"{side}_prefix"] = (
                f"{file} default_prompt_name {default!r} does not say which side it is for"
            )


def check_tokenizer(folder: Path, found: Evidence, *, pair: bool) -> Layout | None:
    """Refuse a tokenizer whose inputs, of one text or a pair, do not have the model's layout.

    Returns the layout, or None if it is BERT's or refused.
    """
    path = folder / "tokenizer.json"
    if not path.exists():
        return None  # a vocab.txt is BERT's, and so are its inputs
    try:
        tokenizer = read_tokenizer(folder)
    except InputError as error:
        found.refusals += error.problems
        return None
    if tokenizer.post_processor is None:
        return None  # the class that opens it adds them
    try:
        family = family_of(read_object(folder / "config.json"))
        layout = family.layout(tokenizer, (0, 1) if pair else (0,))
    except InputError as error:
        found.refusals += [f"{path}: {problem}" for problem in error.problems]
        return None
    own = encoded(tokenizer, [("a", "b") if pair else "a"], specials=True)[0]
    expected = sliced(tokenizer, [["a"], ["b"]] if pair else [["a"]], layout)
    ids, segments = expected.ids.tolist(), expected.segments.tolist()
    if own.ids != ids or (layout.has_segments and own.type_ids != segments):
        wanted, made = (" ".join(map(str, map(tokenizer.id_to_token, n))) for n in (ids, own.ids))
        found.refusals.append(
            f"{path}: expected inputs {wanted} in segments {segments}, found {made} in "
            f"{own.type_ids}"
        )
    return layout


INITIALIZER_RANGE = 0.02
"""BERT's own value, used if config.json does not state one."""


def read_config(folder: Path) -> dict[str, Any]:
    """The content of config.json, if raypipe can compute the model.

    Raises:
        InputError: not a JSON object, another architecture, or values that its family does not
            allow; all problems together.
    """
    file = folder / "config.json"
    config = read_object(file)
    problems = config_problems(config)
    if problems:
        raise InputError([f"{file}: {problem}" for problem in problems])
    return config


def config_problems(config: Mapping[str, Any]) -> list[str]:
    """Why raypipe cannot compute the model of a folder's config.json; empty if it can."""
    # A body of its own code may have the tensors of a family and compute something else.
    own_code = [OWN_CODE] if "auto_map" in config else []
    try:
        problems = family_of(config).files.own_problems(config)
    except InputError as error:
        problems = list(error.problems)
    return list(dict.fromkeys(own_code + problems))


def initializer_range(config: Mapping[str, Any]) -> float:
    """The standard deviation of weights that a training initialises."""
    return float(config.get("initializer_range", INITIALIZER_RANGE))


def tensor_shapes(file: Path) -> dict[str, Shape]:
    """Shapes by saved name; does not read the tensors.

    Raises:
        InputError: not a safetensors file.
    """
    check_regular(file, "a safetensors file")
    try:
        with safe_open(file, framework="numpy") as opened:
            return {n: tuple(opened.get_slice(n).get_shape()) for n in opened.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise InputError(f"{file}: not a safetensors file: {error}") from error
