"""A small recipe that is swept in moments."""

import pytest

SWEPT = """
format: 1
name: swept
collection: {{format: msmarco-v1, input: {folder}/passages.tsv}}
queries: {{dev: {{file: {folder}/queries.tsv, qrels: {folder}/dev.txt}}}}
stages:
  given: {{do: read, runs: {{dev: {folder}/run.trec}}}}
  other: {{do: read, runs: {{dev: {folder}/other.trec}}}}
  both: {{do: fuse, runs: [given, other], method: rrf}}
evaluate: {{measures: [RR@10, P@1]}}
resources: {{backend: inline, device: cpu}}
"""
RERANKED = """
models: {{mono: {{path: {mono}, segment_row: zero}}}}
"""


@pytest.fixture(scope="session")
def swept(tmp_path_factory):
    """The text of a recipe without a model; two of its three queries are judged."""
    folder = tmp_path_factory.mktemp("swept")
    words = "alpha beta gamma delta epsilon zeta eta theta".split()
    texts = [" ".join(words[(i + j) % len(words)] for j in range(2 + i)) for i in range(6)]
    (folder / "passages.tsv").write_text("".join(f"p{i}\t{t}\n" for i, t in enumerate(texts)))
    (folder / "queries.tsv").write_text("q1\tbeta gamma\nq2\ttheta\nq3\tzeta\n")
    (folder / "dev.txt").write_text("q1 0 p1 1\nq2 0 p3 1\n")
    for name, rows in (("run", range(6)), ("other", (4, 2, 0, 1, 3, 5))):
        lines = [
            f"{q} Q0 p{row} {rank} {9 - rank} x\n"
            for q in ("q1", "q2", "q3")
            for rank, row in enumerate(rows, start=1)
        ]
        (folder / f"{name}.trec").write_text("".join(lines))
    return SWEPT.format(folder=folder)


@pytest.fixture(scope="session")
def reranked(swept, tiny_mono):
    """The same with a reranker between the runs and their fusion."""
    mono = "  mono: {do: score, run: given, model: mono, k0: 3}\n  both:"
    text = swept.replace("  both:", mono).replace("[given, other]", "[other, mono]")
    return text + RERANKED.format(mono=tiny_mono)
