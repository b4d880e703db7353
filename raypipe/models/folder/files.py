"""A model folder's files: JSON, config.json, and whether its tensors are those of its settings."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from raypipe.errors import InputError, shown, some
from raypipe.models.family import family_of, plain_names
from raypipe.models.folder.settings import (
    AnyConventions,
    Conventions,
    PairConventions,
    PretrainedConventions,
    predicts_words,
    units_of,
)
from raypipe.models.tensors import PICKLES, UNREAD, Config, Shape, third_segment_problems
from raypipe.regular import check_fetched, check_regular
from raypipe.text.inputs import Layouts

MAX_JSON_BYTES = 64_000_000
"""A multilingual model's tokenizer.json has about 35 million."""
OWN_CODE = (
    "auto_map: expected none, found code of the model's own, which raypipe does not run; name a "
    "model that transformers computes by itself"
)
ONE_UNIT = "one (relevant_label null)"
NO_WORDS = (
    ": it has no head that predicts masked words; a pre-training with model.draw_missing: true "
    "draws it"
)
LOWER = "lower the limits in raypipe.json or under models.NAME.settings of a recipe"
"""The remedy for settings that allow more tokens than a model reads."""
FLOATS = ("F64", "F32", "F16", "BF16", "I64", "BOOL")
"""dtypes of tensors that are numbers themselves, or counts such as positions."""
MOST_LABELS = 100_000
"""transformers makes a name for each label, in memory, before it reads a weight."""
INITIALIZER_RANGE = 0.02
"""BERT's own value, used if config.json does not state one."""
MOST_NAMED = 5
"""Tensors that an error names."""
SPECIALS = 2
"""Tokens around a text, where no tokenizer is there to say."""


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
    part = body.get(name)
    if not isinstance(part, dict | None):
        raise InputError(f"{path}: {name}: expected an object, found {type(part).__name__}")
    return part or {}


def config_problems(config: Config) -> list[str]:
    """Why raypipe cannot compute the model of a folder's config.json; empty if it can."""
    try:
        problems = family_of(config).files.own_problems(config)
    except InputError as error:
        problems = list(error.problems)
    return list(dict.fromkeys(stranger_problems(config) + problems))


def stranger_problems(config: Config) -> list[str]:
    """Why no library is to open the model of a config.json; empty if one may."""
    # A body of its own code may have the tensors of a family and compute something else.
    problems, labels = [OWN_CODE] if "auto_map" in config else [], config.get("num_labels")
    if labels is not None and (type(labels) is not int or not 1 <= labels <= MOST_LABELS):
        problems.append(
            f"num_labels: expected a count of units, found {shown(labels)}; set it to the number "
            "of rows of the head"
        )
    return problems


def initializer_range(config: Config) -> float:
    """The standard deviation of weights that a training initialises."""
    return float(config.get("initializer_range", INITIALIZER_RANGE))


def no_weights(folder: Path) -> str:
    """The problem of a folder without model.safetensors: what it has in its place, and the way."""
    pickles = sorted(p.name for p in folder.iterdir() if p.suffix in PICKLES)
    if not pickles and (problem := unread_weights(folder)):
        return problem
    found = f"found {', '.join(pickles)}, pickles, which can run code" if pickles else "none"
    if (folder / "model.safetensors").is_symlink():
        return f"{folder}: model.safetensors is a link to no file; fetch the model again"
    remedy = f"convert it: raypipe model convert {folder} --out DIR"
    return f"{folder}: expected model.safetensors, {found}; {remedy}"


def unread_weights(folder: Path) -> str:
    """The problem of a folder whose weights are in files that nobody reads; empty if it has none,
    or safetensors beside them."""
    others = sorted(str(p.relative_to(folder)) for end in UNREAD for p in folder.rglob(f"*{end}"))
    if not others or any(folder.glob("*.safetensors")):
        return ""
    return (
        f"{folder}: expected model.safetensors, found {some(others)}, which raypipe does not read; "
        "put the model's weights of PyTorch there"
    )


def tensor_shapes(file: Path) -> dict[str, Shape]:
    """Shapes by saved name, as `plain_names` gives it; does not read the tensors.

    Raises:
        InputError: not a safetensors file.
    """
    check_fetched(file, "a safetensors file")
    try:
        with safe_open(file, framework="numpy") as opened:
            plain = plain_names(opened.keys())
            return {plain[n]: tuple(opened.get_slice(n).get_shape()) for n in plain}
    except (SafetensorError, OSError) as error:
        raise InputError(f"{file}: not a safetensors file: {error}") from error


@dataclass(frozen=True, slots=True)
class Compared:
    """A checkpoint's tensors beside those of a model."""

    names: dict[str, str]
    """Names in the checkpoint by canonical name."""
    missing: list[str]
    """Names of tensors that the checkpoint lacks."""
    unused: list[str]
    """Names in the checkpoint of tensors that the model does not have, or does not read."""
    problems: list[str]
    """Why the tensors are not those of the model; empty if they are."""


def compare(
    shapes: Mapping[str, Shape],
    config: Config,
    conventions: AnyConventions | None = None,
    *,
    head: bool = True,
) -> Compared:
    """A checkpoint's tensors beside those of the model that these settings and config.json state.

    Args:
        shapes: by name in the checkpoint.
        config: config.json, which is valid.
        conventions: the settings; without them the model is a body alone.
        head: whether there must be the head that scores or predicts masked words, if they have one.
    """
    family, files = family_of(config), family_of(config).files
    names = files.canonical_names(shapes)
    units = None if conventions is None or not head else units_of(conventions)
    is_duo = conventions is not None and conventions.kind == "duo"
    if is_duo and files.SEGMENTS in names:  # config.json often does not mention the third row
        config = {**config, "type_vocab_size": shapes[names[files.SEGMENTS]][0]}
    expected = dict(files.expected_shapes(config, num_labels=units))
    why = dict.fromkeys((*files.POOLER, *files.HEADS), ": it has no head that scores pairs")
    heads: dict[str, Shape] = {}
    optional: dict[str, Shape] = {}
    if conventions is not None and head and predicts_words(conventions):
        names |= family.pretraining.canonical_names(shapes)
        heads = family.pretraining.shapes(config, next_sentence=False)
        expected |= heads
        optional = family.pretraining.shapes(config, next_sentence=True)
        why |= dict.fromkeys(heads, NO_WORDS)
        if not isinstance(conventions, Conventions):  # it reads the pooler
            optional |= dict.fromkeys(files.POOLER, ())
    prefix = next((n.removesuffix(at) for at, n in names.items() if at not in why), "")
    missing = {
        place: place if place in heads else files.saved_name(place, head=bool(prefix))
        for place in sorted(expected.keys() - names.keys())
    }
    problems = [
        f"the checkpoint lacks the tensor {name}{why.get(at, '')}" for at, name in missing.items()
    ]
    for place, name in sorted(names.items()):
        own, shape = expected.get(place, optional.get(place)), shapes[name]
        if own is None and not files.may_have(place):
            problems.append(f"{name}: no such tensor in a model of the sizes in config.json")
        elif own and place == files.HEADS[0] and shape[:1] != own[:1]:
            label = "two units (relevant_label 0 or 1)" if units == 2 else ONE_UNIT
            problems.append(f"{name}: the head has {shape[0]} units, the settings expect {label}")
        elif own and own != shape:
            problems.append(f"{name}: expected shape {[*own]} from config.json, found {[*shape]}")
    used = {names[place] for place in names.keys() & (expected.keys() | optional.keys())}
    unused = sorted(shapes.keys() - used)
    return Compared(names, [*missing.values()], unused, first_of(problems))


def longest_input(conventions: AnyConventions, layouts: Layouts | None = None) -> int:
    """The largest number of tokens of an input that the model computes; a table's are not."""
    if not isinstance(conventions, Conventions):
        return conventions.total_limit
    return max(
        conventions.limit(side) + (SPECIALS if layouts is None else layouts[side].num_specials)
        for side in ("query", "passage")
        if not conventions.by_table(side)
    )


def fit_problems(
    shapes: Mapping[str, Shape],
    config: Config,
    conventions: AnyConventions,
    layouts: Layouts | None = None,
) -> list[str]:
    """Why a model of these shapes does not compute with the settings; empty if it does."""
    files = family_of(config).files
    compared = compare(shapes, config, conventions)
    problems = compared.problems
    if isinstance(conventions, PretrainedConventions):
        return problems
    table = compared.names.get(files.SEGMENTS)
    rows = 0 if table is None else shapes[table][0]
    longest, positions = longest_input(conventions, layouts), files.num_positions(config)
    highest = 1
    if isinstance(conventions, Conventions):
        highest = max(conventions.query_segment, conventions.passage_segment)
    if longest > positions:
        beyond = f"the settings allow {longest} tokens, the model has {positions} positions"
        problems.append(f"{beyond}; {LOWER}")
    if files.has_segments and 0 < rows <= highest:
        problems.append(f"the settings use segment {highest}, the model has {rows} segment rows")
    if isinstance(conventions, PairConventions) and conventions.three_segments:
        problems += third_segment_problems(rows, conventions.segment_row)
    return problems


def first_of(problems: list[str]) -> list[str]:
    """The first problems, and the number of the others."""
    more = len(problems) - MOST_NAMED
    others = f"and {more} more {'tensor' if more == 1 else 'tensors'}"
    return problems[:MOST_NAMED] + [others] * (more > 0)


def quantised_problems(folder: Path, config: Config) -> list[str]:
    """The problem of weights that are codes of a quantisation, not numbers; none of others.

    Raises:
        InputError: a file is not a safetensors file.
    """
    method = part_of(config, "quantization_config", folder / "config.json").get("quant_method")
    quantised = [] if method is None else [f"config.json: quantization_config of {method}"]
    for file in sorted(folder.glob("*.safetensors")):
        tensor_shapes(file)  # or an error
        with safe_open(file, framework="numpy") as opened:
            for name in opened.keys():  # noqa: SIM118
                dtype = str(opened.get_slice(name).get_dtype())
                if dtype not in FLOATS and len(quantised) < 2:
                    quantised.append(f"{file.name}: {name} of {dtype}")
    return [
        f"{folder}: expected weights that are numbers, found those of a quantisation "
        f"({'; '.join(quantised)}), which neither raypipe nor sentence-transformers computes as "
        "they were before; name the model's folder in fp32, fp16 or bf16, from which it was made"
    ] * bool(quantised)


def sha256_of(*parts: str) -> str:
    """SHA-256 of the hashes of several files, such as base weights and an adapter's."""
    return hashlib.sha256(" ".join(parts).encode()).hexdigest()


def check_unchanged(expected: str, sha256: str, actual: str) -> None:
    """Returns nothing if a file of the folder has the hash that the driver found.

    Args:
        expected: the file and its content, with which the error begins.
        sha256: the driver's hash.
        actual: the hash on this node.

    Raises:
        InputError: it has another.
    """
    if actual != sha256:
        raise InputError(
            f"{expected} with SHA-256 {sha256}, as at the start, found {actual}; every node must "
            "hold the same model folder"
        )
