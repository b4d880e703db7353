"""A checkpoint's tensors under the names that transformers and raypipe read."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from raypipe.errors import InputError
from raypipe.models.conventions import SEGMENT_ROWS, AnyConventions, PairConventions
from raypipe.models.tensor_names import (
    HEAD,
    HEADS,
    POOLER,
    SEGMENTS,
    canonical_names,
    expected_shapes,
)


@dataclass(frozen=True, slots=True)
class Renamed:
    """Tensors of one model, and what it took."""

    tensors: dict[str, Tensor]
    """By the names of BertModel, or of BertForSequenceClassification."""
    num_labels: int | None
    renamed: dict[str, str]
    """Final name -> name in the checkpoint, where they differ."""
    transposed: list[str]
    left_out: list[str]
    segment_row: dict[str, Any] | None
    """What was put under the segment table; None where nothing was."""

    @property
    def segment_rows(self) -> int:
        """Rows of the segment table."""
        return len(self.tensors[final_name(SEGMENTS, self.num_labels)])


def rename(
    tensors: Mapping[str, Tensor],
    config: Mapping[str, Any],
    conventions: AnyConventions,
    *,
    segment_row: str | None,
) -> Renamed:
    """The model among a checkpoint's tensors.

    Args:
        tensors: by name as saved; TensorFlow's kernels are transposed.
        config: BERT's sizes.
        conventions: kind says whether a head is needed, and of how many units.
        segment_row: zero or copy, the third row where a duo's table has two.

    Raises:
        InputError: tensors are missing, of another shape or named twice, or the third segment
            row is left open; all at once.
    """
    named = canonical_names(tensors)
    found = {
        place: tensors[source.name].T if source.transpose else tensors[source.name]
        for place, source in named.found.items()
    }
    pair = conventions if isinstance(conventions, PairConventions) else None
    problems = [f"two tensors claim one place: {both}" for both in named.twice]
    added = None
    if pair is not None and pair.kind == "duo" and SEGMENTS in found:
        choice = segment_row or pair.segment_row
        problems += segment_problems(len(found[SEGMENTS]), choice)
        if not problems and len(found[SEGMENTS]) == 2:
            found[SEGMENTS] = _with_third(found[SEGMENTS], choice)
            added = {"row": 2, "from": choice}
        config = {**config, "type_vocab_size": len(found[SEGMENTS])}
    elif segment_row is not None:
        problems.append(f"--segment-row: expected a duo model, found {conventions.kind}")
    units = None if pair is None else 1 if pair.relevant_label is None else 2
    problems += tensor_problems({n: tuple(t.shape) for n, t in found.items()}, config, units)
    if problems:
        raise InputError(problems)
    extra = HEADS if pair is None else ()
    kept = sorted(place for place in found if place not in extra)
    final = {place: final_name(place, units) for place in kept}
    names = {place: source.name for place, source in named.found.items()}
    return Renamed(
        tensors={final[place]: found[place].contiguous().clone() for place in kept},
        num_labels=units,
        renamed={final[p]: names[p] for p in kept if final[p] != names[p]},
        transposed=[final[place] for place in kept if named.found[place].transpose],
        left_out=sorted([*named.unused, *(names[place] for place in extra if place in found)]),
        segment_row=added,
    )


def tensor_problems(
    shapes: Mapping[str, tuple[int, ...]], config: Mapping[str, Any], units: int | None
) -> list[str]:
    """What keeps tensors, by canonical name, from being this model; empty where nothing does.

    `units` is the head's that the conventions expect; None: an encoder, whose pooler and head
    may be there or not.
    """
    expected = expected_shapes(config, num_labels=units)
    problems = []
    for name in sorted(set(expected) - set(shapes)):
        head = name in (*POOLER, *HEADS)
        told = ": it has no head that scores pairs" if head else ""
        problems.append(f"the checkpoint lacks the tensor {name}{told}")
    for name, shape in sorted(shapes.items()):
        if name in expected and shape != expected[name]:
            problems.append(_misshapen(name, shape, expected[name], units))
        elif name not in expected and name not in (*POOLER, *HEADS):
            problems.append(f"{name}: no such tensor in a BERT of the sizes in config.json")
    return problems


def segment_problems(rows: int, choice: str | None) -> list[str]:
    """Why a duo's segment table cannot become, or is not, one of three rows."""
    if choice is not None and choice not in SEGMENT_ROWS:
        return [f"--segment-row: expected zero or copy, found {choice!r}"]
    if rows >= 3 and choice is not None:
        return [f"--segment-row: the table has {rows} rows, there is none to add; leave it out"]
    if rows == 2 and choice is None:
        return [
            "a duo model has three segments, the checkpoint has 2 segment rows: name the third "
            "with --segment-row zero (what duobert's own code computes: TensorFlow's one-hot of "
            "id 2 is a zero vector) or --segment-row copy (of row 1)"
        ]
    return [] if rows >= 2 else [f"a duo model has three segments, the checkpoint has {rows}"]


def final_name(place: str, num_labels: int | None) -> str:
    """BertModel's name, or with a head BertForSequenceClassification's."""
    return place if num_labels is None or place in HEADS else f"bert.{place}"


def _with_third(table: Tensor, choice: str | None) -> Tensor:
    third = torch.zeros_like(table[:1]) if choice == "zero" else table[1:2]
    return torch.cat([table, third])


def _misshapen(
    name: str, shape: tuple[int, ...], expected: tuple[int, ...], units: int | None
) -> str:
    if name == HEAD and units is not None and shape[:1] != expected[:1]:
        told = "two units (relevant_label 0 or 1)" if units == 2 else "one (relevant_label null)"
        return f"{name}: the head has {shape[0]} units, the conventions expect {told}"
    return f"{name}: expected shape {list(expected)} from config.json, found {list(shape)}"
