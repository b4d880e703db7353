"""A small dev set."""

from types import SimpleNamespace

import pyarrow as pa
import pytest
from dev_runs import RUN

from raypipe.training import validate as dev_sets


@pytest.fixture
def dev(tmp_path, monkeypatch):
    """A function that opens a dev set of two queries; its texts are the stores' names."""
    asked = []

    def part(stored, start, stop):
        asked.append((stored, start, stop))
        rows = RUN["query_row"].to_numpy()
        return RUN.filter(pa.array((rows >= start) & (rows < stop)))

    monkeypatch.setattr(dev_sets, "read_queries_of_run", part)
    monkeypatch.setattr(dev_sets, "TokenRows", lambda stored: f"texts of {stored}")
    monkeypatch.setattr(
        dev_sets, "ids_of_rows", lambda stored, rows: [f"{stored}-{row}" for row in rows.tolist()]
    )

    def opened(*qrels, at_most=None):
        path = tmp_path / "qrels.txt"
        path.write_text("".join(f"{line}\n" for line in qrels))
        queries = SimpleNamespace(table=lambda schema: pa.table({"query_id": ["a", "b"]}))
        stores = SimpleNamespace(
            run="run", queries=queries, collection="docs", query_tokens="q", passage_tokens="p",
            qrels=str(path), k=2, queries_at_most=at_most, documents=None,
        )  # fmt: skip
        (found,) = dev_sets.dev_of(SimpleNamespace(dev=[stores]))
        return found, asked

    return opened
