"""Checks that a checkpoint's tensors fit its settings, and renames them to the names that
transformers and raypipe read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from raypipe.errors import InputError
from raypipe.models.family import Files, family_of
from raypipe.models.folder.conventions import (
    SEGMENT_ROWS,
    AnyConventions,
    Conventions,
    PairConventions,
    PretrainedConventions,
)
from raypipe.models.tensors import Named, Source, expected_units

if TYPE_CHECKING:  # importing torch takes seconds, and checking does not need it
    from torch import Tensor


def units_of(conventions: AnyConventions) -> int | None:
    """Number of head units that the settings expect; None for an encoder."""
    if isinstance(conventions, PairConventions):
        return expected_units(conventions.relevant_label)
    return None


def tensor_problems(
    shapes: Mapping[str, tuple[int, ...]], config: Mapping[str, Any], units: int | None
) -> list[str]:
    """Why tensors, by canonical name, do not fit this model; empty if they do.

    `units` is the number of head units that the settings expect; None means an encoder, which may
    or may not have pooler and head.
    """
    files = family_of(config).files
    expected = files.expected_shapes(config, num_labels=units)
    of_head = (*files.POOLER, *files.HEADS)
    problems = []
    for name in sorted(set(expected) - set(shapes)):
        head = name in of_head
        why = ": it has no head that scores pairs" if head else ""
        problems.append(f"the checkpoint lacks the tensor {name}{why}")
    for name, shape in sorted(shapes.items()):
        if name in expected and shape != expected[name]:
            problems.append(_misshapen(files, name, shape, expected[name], units))
        elif name not in expected and not files.may_have(name):
            problems.append(f"{name}: no such tensor in a model of the sizes in config.json")
    return problems


def pretraining_problems(
    shapes: Mapping[str, tuple[int, ...]], config: Mapping[str, Any]
) -> list[str]:
    """Why a checkpoint's heads, by name, are not those of this model's pre-training.

    The head for masked words must be there; pooler and classifier for next sentences may be.
    """
    heads = family_of(config).pretraining
    needed = heads.shapes(config, next_sentence=False)
    known = heads.shapes(config, next_sentence=True)
    missing = [
        f"the checkpoint lacks the tensor {name}: it has no head that predicts masked words; a "
        "pre-training with model.draw_missing: true draws it"
        for name in needed
        if name not in shapes
    ]
    return missing + [
        f"{name}: expected shape {list(known[name])} from config.json, found {list(shape)}"
        for name, shape in sorted(shapes.items())
        if name in known and shape != known[name]
    ]


def segment_problems(rows: int, choice: str | None) -> list[str]:
    """Why a duoBERT model's segment table does not have, or cannot get, three rows."""
    if choice is not None and choice not in SEGMENT_ROWS:
        return [f"--segment-row: expected zero or copy, found {choice!r}"]
    if rows >= 3 and choice is not None:
        return [f"--segment-row: the table has {rows} rows, none is to be added; leave it out"]
    if rows == 2 and choice is None:
        return [
            "a duoBERT model has three segments, the checkpoint has 2 segment rows: name the third "
            "with --segment-row zero (what duobert's own code computes: TensorFlow's one-hot of "
            "id 2 is a zero vector) or --segment-row copy (of row 1)"
        ]
    return [] if rows >= 2 else [f"a duoBERT model has three segments, the checkpoint has {rows}"]


def limit_problems(conventions: AnyConventions, config: Mapping[str, Any], rows: int) -> list[str]:
    """Limits and segments beyond the model's; `rows` of its segment table, 0 if it has none."""
    files = family_of(config).files
    positions = files.num_positions(config)
    if isinstance(conventions, Conventions):
        longest = max(conventions.query_limit, conventions.passage_limit) + 2
        highest = max(conventions.query_segment, conventions.passage_segment)
    else:
        longest, highest = conventions.total_limit, 1
    problems = []
    if longest > positions:
        problems.append(f"the settings allow {longest} tokens, the model has {positions} positions")
    if rows and files.HAS_SEGMENTS and highest >= rows:
        problems.append(f"the settings use segment {highest}, the model has {rows} segment rows")
    if isinstance(conventions, PairConventions) and conventions.three_segments:
        problems += _third_segment_problems(rows, conventions.segment_row)
        if not files.HAS_SEGMENTS:
            problems.append(
                "a duoBERT model has three segments, this architecture none; name a BERT"
            )
    return problems


def _third_segment_problems(rows: int, choice: str | None) -> list[str]:
    if rows == 2 and choice is None:
        return [
            "a duoBERT model has three segments, the checkpoint has 2 segment rows: name the third "
            "with segment_row: zero or copy, or with raypipe model convert --segment-row"
        ]
    if rows >= 3 and choice is not None:
        return [f"segment_row: {choice} is for two segment rows, the checkpoint has {rows}"]
    return []


def _misshapen(
    files: Files, name: str, shape: tuple[int, ...], expected: tuple[int, ...], units: int | None
) -> str:
    if name == files.HEADS[0] and units is not None and shape[:1] != expected[:1]:
        wanted = "two units (relevant_label 0 or 1)" if units == 2 else "one (relevant_label null)"
        return f"{name}: the head has {shape[0]} units, the settings expect {wanted}"
    return f"{name}: expected shape {list(expected)} from config.json, found {list(shape)}"


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
    from raypipe.models.tensors import with_third_segment

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
