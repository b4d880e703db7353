"""Renames a checkpoint's tensors to the names that transformers and raypipe read."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from raypipe.errors import InputError
from raypipe.models.convert.tensor_checks import (
    pretraining_problems,
    segment_problems,
    tensor_problems,
    units_of,
)
from raypipe.models.family import family_of
from raypipe.models.folder.conventions import (
    AnyConventions,
    Conventions,
    PairConventions,
    PretrainedConventions,
)
from raypipe.models.segments import with_third_segment
from raypipe.models.tensors import Named, Source


@dataclass(frozen=True, slots=True)
class Renamed:
    """Tensors of one model, and what was changed."""

    tensors: dict[str, Tensor]
    """Tensors by the names under which transformers saves them, with or without a head."""
    num_labels: int | None
    segment_rows: int
    """Number of rows of the segment table."""
    renamed: dict[str, str]
    """Final name -> name in the checkpoint, if they differ."""
    transposed: list[str]
    left_out: list[str]
    segment_row: dict[str, Any] | None
    """The choice of the added segment row; None if none was added."""


def rename(
    tensors: Mapping[str, Tensor],
    config: Mapping[str, Any],
    conventions: AnyConventions,
    *,
    segment_row: str | None,
) -> Renamed:
    """The model's tensors in a checkpoint, renamed.

    Args:
        tensors: by name as saved; TensorFlow's kernels are transposed.
        config: config.json, which names the family and its sizes.
        conventions: their kind decides whether a head is needed, and with how many units.
        segment_row: zero or copy: the third row if a duoBERT model's table has two.

    Raises:
        InputError: tensors are missing, have another shape or the same name, or the third segment
            row is not chosen; all problems together.
    """
    files = family_of(config).files
    table = files.SEGMENTS
    named = files.canonical_names(tensors)
    found = {place: _taken(source, tensors) for place, source in named.found.items()}
    pair = conventions if isinstance(conventions, PairConventions) else None
    problems = [f"two tensors have the same name: {both}" for both in named.twice]
    added = None
    if pair is not None and pair.kind == "duo" and table in found:
        choice = segment_row or pair.segment_row
        problems += segment_problems(len(found[table]), choice)
        if not problems and len(found[table]) == 2:
            found[table] = with_third_segment(found[table], choice)
            added = {"row": 2, "from": choice}
        config = {**config, "type_vocab_size": len(found[table])}
    elif segment_row is not None:
        problems.append(f"--segment-row: expected a duoBERT model, found {conventions.kind}")
    units = units_of(conventions)
    heads = Named({}, named.unused, [])
    if isinstance(conventions, PretrainedConventions):
        heads = family_of(config).pretraining.canonical_names(named.unused)
        problems += [f"two tensors have the same name: {both}" for both in heads.twice]
        problems += pretraining_problems(_shapes_of(heads, tensors), config)
    problems += tensor_problems({n: tuple(t.shape) for n, t in found.items()}, config, units)
    if isinstance(conventions, PretrainedConventions):
        plain = {name.removeprefix("module."): tensor for name, tensor in tensors.items()}
        untied = family_of(config).pretraining.untied(plain)
        problems += [f"{n}: expected the tensor that it is tied to, found another" for n in untied]
    if problems:
        raise InputError(problems)
    extra = files.HEADS if pair is None else ()
    kept = sorted(place for place in found if place not in extra)
    prefixed = not isinstance(conventions, Conventions)
    final = {place: files.saved_name(place, head=prefixed) for place in kept}
    final |= {place: place for place in heads.found}
    found |= {place: _taken(source, tensors) for place, source in heads.found.items()}
    sources = {**named.found, **heads.found}
    kept = [*kept, *heads.found]
    names = {place: source.name for place, source in sources.items()}
    return Renamed(
        tensors={final[place]: found[place].contiguous().clone() for place in kept},
        num_labels=units,
        segment_rows=len(found.get(table, ())),
        renamed={final[p]: names[p] for p in kept if final[p] != names[p]},
        transposed=[final[place] for place in kept if sources[place].transpose],
        left_out=sorted([*heads.unused, *(names[place] for place in extra if place in found)]),
        segment_row=added,
    )


def _taken(source: Source, tensors: Mapping[str, Tensor]) -> Tensor:
    return tensors[source.name].T if source.transpose else tensors[source.name]


def _shapes_of(named: Named, tensors: Mapping[str, Tensor]) -> dict[str, tuple[int, ...]]:
    return {p: tuple(_taken(source, tensors).shape) for p, source in named.found.items()}
