"""Checks that a checkpoint's tensors fit its settings."""

from collections.abc import Mapping
from typing import Any

from raypipe.models.family import Files, family_of
from raypipe.models.folder.conventions import (
    SEGMENT_ROWS,
    AnyConventions,
    Conventions,
    PairConventions,
)
from raypipe.models.units import expected_units


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
