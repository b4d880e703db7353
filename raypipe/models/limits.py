"""Whether a model has the positions and the segment rows that its settings use."""

from raypipe.models.family import family_of
from raypipe.models.folder.settings import AnyConventions, Conventions, PairConventions
from raypipe.models.tensors import Config, third_segment_problems
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


def limit_problems(
    conventions: AnyConventions, config: Config, rows: int, layouts: Layouts | None = None
) -> list[str]:
    """Limits and segments beyond the model's; `rows` of its segment table, 0 if it has none."""
    files = family_of(config).files
    longest, positions = longest_input(conventions, layouts), files.num_positions(config)
    highest = 1
    if isinstance(conventions, Conventions):
        highest = max(conventions.query_segment, conventions.passage_segment)
    problems = []
    if longest > positions:
        problems.append(f"the settings allow {longest} tokens, the model has {positions} positions")
    if files.HAS_SEGMENTS and 0 < rows <= highest:
        problems.append(f"the settings use segment {highest}, the model has {rows} segment rows")
    if isinstance(conventions, PairConventions) and conventions.three_segments:
        if files.HAS_SEGMENTS:
            problems += third_segment_problems(rows, conventions.segment_row)
        else:
            problems.append(
                "a duoBERT model has three segments, this architecture none; name a BERT"
            )
    return problems
