"""The passages found for one query, for the terminal."""

from collections.abc import Mapping, Sequence
from typing import Any

from raypipe.api.opened.index import Index
from raypipe.cli.output import terminal_width
from raypipe.report.section import plain
from raypipe.report.terminal import folded

NUM_LINES = 3
"""Of a passage's text."""


def hits_of(
    index: Index, query: str, stage: str, *, depth: int, k1: float | None, b: float | None
) -> list[dict[str, Any]]:
    """rank, passage_id, score and text of the best passages, best first.

    Raises:
        InputError: see `Index.search`.
    """
    run = index.search([query], stage, depth=depth, k1=k1, b=b)
    found = run.select(["rank", "passage_id", "score"]).to_pylist()
    texts = index.passages(run["passage_id"]) if found else {}
    return [{**hit, "text": texts[hit["passage_id"]]} for hit in found]


def text_of(query: str, hits: Sequence[Mapping[str, Any]]) -> str:
    """Rank, score and id of each passage on a line, and below it the beginning of its text."""
    width = terminal_width()
    if not hits:
        return f"no passage for {plain(query)!r}"
    blocks = []
    for hit in hits:
        lines = folded(plain(str(hit["text"])), max(2, width - 4))
        shown = lines[:NUM_LINES]
        if len(lines) > NUM_LINES:
            shown[-1] = folded(shown[-1], max(2, width - 8))[0] + " ..."
        head = f"{hit['rank']:>3} {hit['score']:.4f} {plain(str(hit['passage_id']))}"
        blocks.append("\n".join([head, *(f"    {line}" for line in shown)]))
    return "\n".join(blocks)
