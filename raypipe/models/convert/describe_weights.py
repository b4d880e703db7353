"""Describes the weights of a model folder or of an adapter, without loading a tensor."""

from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from raypipe.errors import InputError
from raypipe.models.convert.description import Description, tried
from raypipe.models.convert.find import PICKLES
from raypipe.models.convert.tensor_checks import (
    limit_problems,
    pretraining_problems,
    tensor_problems,
    units_of,
)
from raypipe.models.family import family_of
from raypipe.models.folder.adapter_tensors import missing_problems, missing_tensors
from raypipe.models.folder.adapters import (
    WEIGHTS,
    adapter_facts,
    adapter_names,
    summed_shapes,
)
from raypipe.models.folder.config_checks import config_problems, tensor_shapes
from raypipe.models.folder.conventions import (
    AnyConventions,
    Conventions,
    PairConventions,
    PretrainedConventions,
)
from raypipe.models.tensors import Named, Shape
from raypipe.regular import check_regular
from raypipe.storage.records import hash_file


def tell_adapter(
    found: Description,
    adapter: Path,
    base: Path,
    config: Mapping[str, Any],
    conventions: AnyConventions | None,
) -> None:
    """Fill in an adapter's weights, what neither it nor its base has, and what does not fit."""
    if not (adapter / WEIGHTS).exists():
        found.problems.append(f"{adapter}: expected {WEIGHTS}, found none")
        return
    found.weights, found.unused = adapter_facts(adapter), []
    problems = [f"{base / 'config.json'}: {problem}" for problem in config_problems(config)]
    shapes = tried(tensor_shapes, base / "model.safetensors", problems=problems)
    found.problems += problems
    if shapes is not None and not problems:
        missing = missing_tensors(shapes, adapter_names(adapter), config)
        found.missing = [*missing[0], *missing[1]]
        problems = missing_problems(missing, base, adapter)
        if conventions is not None and not problems:
            problems = _of_the_sum(adapter, shapes, config, conventions)
        found.problems += problems


def _of_the_sum(
    adapter: Path, base: Mapping[str, Shape], config: Mapping[str, Any], conventions: AnyConventions
) -> list[str]:
    """The problems of these settings with the base and its adapter together."""
    files, shapes = family_of(config).files, summed_shapes(base, config, adapter)
    places = {place: shapes[own.name] for place, own in files.canonical_names(shapes).found.items()}
    rows, units = places.get(files.SEGMENTS, (0, 0))[0], units_of(conventions)
    config = {**config, "type_vocab_size": rows} if rows else config
    read = files.expected_shapes(config, num_labels=units)
    whole = {place: shape for place, shape in places.items() if place in read}  # not the updates
    problems = tensor_problems(whole, config, units) + limit_problems(conventions, config, rows)
    return [f"{adapter}: {problem}" for problem in problems]


def tell_weights(
    found: Description, folder: Path, config: Mapping[str, Any], conventions: AnyConventions | None
) -> None:
    """Fill in the weights of a whole model, and what is unused and missing."""
    problems = [f"{folder / 'config.json'}: {problem}" for problem in config_problems(config)]
    if not (folder / "config.json").exists():
        problems = [f"{folder}: no config.json"]
    file = folder / "model.safetensors"
    if not file.exists():
        problems.append(_no_weights(folder))
        found.problems += problems
        return
    try:
        check_regular(file, "a safetensors file")
        with safe_open(file, framework="numpy") as opened:
            parts = {name: opened.get_slice(name) for name in opened.keys()}  # noqa: SIM118
            shapes: dict[str, Shape] = {n: tuple(p.get_shape()) for n, p in parts.items()}
            dtypes = sorted({str(p.get_dtype()) for p in parts.values()})
    except InputError as error:
        found.problems += [*problems, *error.problems]
        return
    except (SafetensorError, OSError) as error:
        found.problems += [*problems, f"{file}: not a safetensors file: {error}"]
        return
    family = tried(
        family_of, config, problems=[]
    )  # an unknown family is already among the problems
    files = family and family.files
    named = files.canonical_names(shapes) if files else Named({}, [], [])
    places = {place: shapes[source.name] for place, source in named.found.items()}
    found.weights = {
        "file": file.name,
        "sha256": hash_file(file),
        "bytes": file.stat().st_size,
        "dtypes": dtypes,
        "tensors": len(shapes),
        "parameters": sum(prod(shape) for shape in places.values()),
        "segment_rows": files and places.get(files.SEGMENTS, (None,))[0],
        "head_units": files and places.get(files.HEADS[0], (None,))[0],
    }
    if not problems and conventions is not None:
        names = {place: source.name for place, source in named.found.items()}
        problems += _tell_tensors(found, file, config, conventions, places, names)
        unused = named.unused
        if isinstance(conventions, PretrainedConventions):
            unused = family_of(config).pretraining.canonical_names(unused).unused
        found.unused = sorted([*(found.unused or []), *unused])
    found.problems += problems


def _tell_tensors(
    found: Description,
    file: Path,
    config: Mapping[str, Any],
    conventions: AnyConventions,
    places: Mapping[str, Shape],
    names: Mapping[str, str],
) -> list[str]:
    """Fill in unused and missing tensors; returns the problems with these settings."""
    pair = conventions if isinstance(conventions, PairConventions) else None
    units = units_of(conventions)
    files = family_of(config).files
    expected = files.expected_shapes(config, num_labels=units)
    used = set(expected)
    if isinstance(conventions, PretrainedConventions):
        used |= set(files.POOLER)
    found.unused = [names[place] for place in places if place not in used]
    prefixed = not isinstance(conventions, Conventions)
    found.missing = [
        files.saved_name(p, head=prefixed) for p in sorted(set(expected) - set(places))
    ]
    problems = []
    if isinstance(conventions, PretrainedConventions):
        problems = _tell_heads(found, file, config)
    rows = places.get(files.SEGMENTS, (0, 0))[0]
    if pair is not None and pair.kind == "duo" and rows:
        config = {**config, "type_vocab_size": rows}
    problems += [f"{file}: {p}" for p in tensor_problems(places, config, units)]
    return problems + [f"{file.parent}: {p}" for p in limit_problems(conventions, config, rows)]


def _tell_heads(found: Description, file: Path, config: Mapping[str, Any]) -> list[str]:
    """The heads of a pre-training, which a body's tensors do not have; its problems."""
    heads, shapes = family_of(config).pretraining, tensor_shapes(file)
    known = heads.canonical_names(shapes).found
    of_heads = {place: shapes[source.name] for place, source in known.items()}
    needed = heads.shapes(config, next_sentence=False)
    found.missing = [*(found.missing or []), *(name for name in needed if name not in of_heads)]
    return [f"{file}: {p}" for p in pretraining_problems(of_heads, config)]


def _no_weights(folder: Path) -> str:
    pickles = sorted(p.name for p in folder.iterdir() if p.suffix in (*PICKLES, ".npz"))
    found = f"found {', '.join(pickles)}" if pickles else "found none"
    return (
        f"{folder}: expected model.safetensors, {found}; convert it: "
        f"raypipe model convert {folder} --out DIR"
    )
