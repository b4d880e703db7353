"""Whether a model has the tensors, positions and segment rows that its settings use."""

from collections.abc import Mapping

from raypipe.models.family import family_of
from raypipe.models.folder.files import compare
from raypipe.models.folder.settings import (
    AnyConventions,
    Conventions,
    PairConventions,
    PretrainedConventions,
)
from raypipe.models.tensors import Config, Shape, third_segment_problems
from raypipe.text.inputs import Layouts

SPECIALS = 2
"""Tokens around a text, where no tokenizer is there to say."""


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
        problems.append(f"the settings allow {longest} tokens, the model has {positions} positions")
    if files.has_segments and 0 < rows <= highest:
        problems.append(f"the settings use segment {highest}, the model has {rows} segment rows")
    if isinstance(conventions, PairConventions) and conventions.three_segments:
        problems += third_segment_problems(rows, conventions.segment_row)
    return problems
