"""A run read in parts is the run read whole."""

import gzip
import logging

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raypipe.evaluation.run_files.runs import NotInPartsError, read_parts, read_run

FORMATS = {
    "trec": "{query} Q0 {passage} {rank} {score} tag\n",
    "msmarco": "{query}\t{passage}\t{rank}\n",
    "top1000": "{query}\t{passage}\ta query\ta passage\n",
}


def written(path, form, lengths, scores):
    """A run file whose queries have so many lines."""
    lines, at = [], 0
    for query, length in enumerate(lengths):
        for rank in range(1, length + 1):
            facts = {"query": f"q{query}", "passage": f"p{rank * 7 % 11}-{rank}", "rank": rank}
            lines.append(FORMATS[form].format(**facts, score=scores[at % len(scores)]))
            at += 1
    path.write_text("".join(lines))
    return path


@settings(deadline=None, max_examples=60)
@given(
    st.sampled_from(sorted(FORMATS)),
    st.lists(st.integers(1, 9), min_size=1, max_size=9),
    st.lists(st.integers(-3, 3), min_size=1, max_size=7),
    st.integers(1, 12),
    st.integers(20, 90),
)
def test_the_parts_one_after_the_other_are_the_run(
    tmp_path_factory, form, lengths, scores, num_lines, block_bytes
):
    path = written(tmp_path_factory.mktemp("run") / "run", form, lengths, scores)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("raypipe.evaluation.run_files.lines.BLOCK_BYTES", block_bytes)
        found = list(read_parts(path, num_lines=num_lines))
    assert pa.concat_tables(found).equals(read_run(path))
    for part in found[:-1]:
        assert len(part) >= num_lines
    queries = [set(part["query_id"].to_pylist()) for part in found]
    assert sum(map(len, queries)) == len(set().union(*queries)) == len(lengths)


def small_blocks(monkeypatch):
    """A line or two at a time."""
    monkeypatch.setattr("raypipe.evaluation.run_files.lines.BLOCK_BYTES", 20)


def test_a_compressed_run_comes_in_parts_too(tmp_path, monkeypatch):
    path = written(tmp_path / "run", "trec", [3, 2, 4], [2, 1])
    (tmp_path / "packed").write_bytes(gzip.compress(path.read_bytes()))
    small_blocks(monkeypatch)
    found = list(read_parts(tmp_path / "packed", num_lines=2))
    assert len(found) > 1 and pa.concat_tables(found).equals(read_run(path))


def test_a_query_whose_lines_stand_apart_is_found(tmp_path, monkeypatch):
    lines = ["1 Q0 a 1 2 x\n", "2 Q0 a 1 2 x\n", "2 Q0 b 2 1 x\n", "1 Q0 b 2 1 x\n"]
    path = tmp_path / "run"
    path.write_text("".join(lines))
    small_blocks(monkeypatch)
    with pytest.raises(NotInPartsError):
        list(read_parts(path, num_lines=1))
    (whole,) = read_parts(path, num_lines=100)  # near enough to each other
    assert whole.equals(read_run(path))


@pytest.mark.parametrize(
    "text",
    [
        "1 Q0 a 1 2 x\n2 Q0 b 1 high x\n",
        "1 Q0 a 1 2 x\n2 Q0 b 1\n",
        "1 Q0 a 1 2 x\n2 Q0 b 1 nan x\n",
        "1 Q0 a 1 2 x\n2 Q0 b 1 2 x\n2 Q0 b 2 1 x\n",
        "\n\n",
        "",
    ],
)
def test_what_is_no_run_does_not_come_in_parts(tmp_path, monkeypatch, text):
    path = tmp_path / "run"
    path.write_text(text)
    small_blocks(monkeypatch)
    with pytest.raises(NotInPartsError):
        list(read_parts(path, num_lines=1))


def test_ranks_that_contradict_are_warned_of_once_with_their_number(tmp_path, monkeypatch, caplog):
    lines = [f"{query} Q0 p{rank} {9 - rank} {-rank} x\n" for query in "abc" for rank in (1, 2)]
    path = tmp_path / "run"
    path.write_text("".join(lines))
    small_blocks(monkeypatch)
    with caplog.at_level(logging.WARNING):
        assert len(list(read_parts(path, num_lines=1))) == 3
    parts = [record.getMessage() for record in caplog.records]
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        read_run(path)
    assert parts == [record.getMessage() for record in caplog.records]
    assert len(parts) == 1 and "3 queries" in parts[0] and "first: query a" in parts[0]
