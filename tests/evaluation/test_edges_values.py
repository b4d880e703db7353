"""Run files and measures at their bounds: ten problems shown, stable orders, exact cuts."""

import logging
import os
import zlib

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from raypipe import schema
from raypipe.errors import InputError
from raypipe.evaluation.compare import compare, unjudged
from raypipe.evaluation.lowered import lowered
from raypipe.evaluation.measures import evaluate
from raypipe.evaluation.names import parse_measures
from raypipe.evaluation.paired import holm, randomisation_tests, t_test
from raypipe.evaluation.run_files import columns
from raypipe.evaluation.run_files.columns import (
    Codes,
    check_run,
    decode,
    encode,
    places,
    repeats,
    unprintable,
)
from raypipe.evaluation.run_files.files import line_blocks, replacing_run
from raypipe.evaluation.run_files.runs import read_run
from raypipe.evaluation.ties import tie_report


@pytest.fixture
def read(tmp_path):
    def read(content):
        path = tmp_path / "run"
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return read_run(path)

    return read


def problems(read, content):
    with pytest.raises(InputError) as caught:
        read(content)
    return caught.value.problems


def test_the_order_of_a_long_unordered_file_is_that_of_the_file(read):
    """More lines than a sort that is not stable keeps in place."""
    rows = [(n * 7 % 5, n) for n in range(400)]
    found = read("".join(f"{query}\tp{n}\tquery\ttext\n" for query, n in rows))
    for query in range(5):
        own = found.filter(pa.compute.equal(found["query_id"], str(query)))
        assert own["passage_id"].to_pylist() == [f"p{n}" for q, n in rows if q == query]


def test_ten_problems_of_a_kind_are_shown_and_eleven_are_ten_and_one_more(read):
    for count in (10, 11, 13):
        bad = "".join(f"1\tp{n}\t0\n" for n in range(count))
        found = [p for p in problems(read, bad) if "expected a rank from 1" in p]
        assert len(found) == 10
        rest = [p for p in problems(read, bad) if "more like these" in p]
        # The equal ranks 0 of one query are ties too: one fewer than there are lines.
        counts = [int(p.split(": ")[1].split()[0]) for p in rest]
        assert counts == {10: [], 11: [1], 13: [3, 2]}[count]
        nan = "".join(f"1 Q0 p{n} {n} nan x\n" for n in range(count))
        found = problems(read, nan)
        assert len(found) == min(count, 11)
        short = "".join(f"1 Q0 p{n}\n" for n in range(count))
        found = problems(read, "1 Q0 p 1 1 x\n" + short)
        assert len(found) == min(count, 11)
        if count > 10:
            assert found[-1].endswith(f"{count - 10} more lines like these")


def test_ten_names_are_shown_and_of_eleven_that_there_are_more(caplog):
    def measured(count):
        lines = [(f"q{n:02}", "a", 1) for n in range(count)]
        qrels = pa.table(
            [list(c) for c in zip(("x", "a", 1), *lines, strict=True)], schema=schema.QRELS
        )
        run = pa.table([["x"], ["a"], [1], [1.0]], schema=schema.RUN_FILE)
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            evaluate(run, qrels, ["RR"])
        return caplog.text

    assert "count 0: q00, " in measured(10) and "q09\n" in measured(10)
    assert "q09, ...\n" in measured(11) and "q10" not in measured(11)


def test_a_repeated_judgement_of_one_grade_is_none_to_choose_from():
    qrels = pa.table([["q"] * 3, ["a"] * 3, [1, 1, 2]], schema=schema.QRELS)
    run = pa.table([["q"], ["a"], [1], [1.0]], schema=schema.RUN_FILE)
    with pytest.raises(InputError, match=r"grades \[1, 1, 2\]"):
        evaluate(run, qrels, ["RR"])
    assert evaluate(run, qrels.slice(0, 2), ["RR"]).mean == {"RR": 1.0}


def test_codes_number_strings_by_first_appearance_over_chunks():
    column = pa.chunked_array([["b", "a"], [], ["c", "a", "b"]], pa.string())
    codes = encode(column)
    assert codes.codes.tolist() == [0, 1, 2, 1, 0] and codes.names.to_pylist() == ["b", "a", "c"]
    nothing = encode(pa.chunked_array([], pa.string()))
    assert len(nothing.codes) == len(nothing.names) == 0
    assert decode(codes, np.array([4, 2, 2])).to_pylist() == ["b", "c", "c"]
    assert decode(codes, np.array([], np.int64)).to_pylist() == []


def test_strings_come_back_over_more_than_one_chunk():
    codes = Codes(np.arange(3, dtype=np.int32), pa.array(["a", "b", "c"]))
    positions = np.arange(1_000_003) % 3
    found = decode(codes, positions)
    assert found.num_chunks == 2 and len(found) == 1_000_003
    assert found[999_999:].to_pylist() == ["abc"[n % 3] for n in range(999_999, 1_000_003)]


def test_repeats_are_of_query_and_passage_together_by_first_appearance():
    queries = encode(pa.chunked_array([["1", "2", "1", "2", "2", "1", "2"]]))
    passages = encode(pa.chunked_array([["a", "b", "b", "a", "b", "b", "b"]]))
    assert [group.tolist() for group in repeats(queries, passages)] == [[1, 4, 6], [2, 5]]
    once = encode(pa.chunked_array([["1", "2"]]))
    assert repeats(once, once) == []


def test_places_begin_anew_with_every_stretch():
    assert places(np.array([3, 3, 1, 3])).tolist() == [1, 2, 1, 1]
    assert places(np.array([5])).tolist() == [1] and places(np.empty(0, np.int64)).tolist() == []


def test_an_empty_table_is_a_run_and_ranks_are_checked_by_query():
    check_run(schema.RUN_FILE.empty_table())
    good = pa.table(
        [["1", "1", "2"], ["a", "b", "a"], [1, 2, 1], [1.0] * 3], schema=schema.RUN_FILE
    )
    check_run(good)
    with pytest.raises(InputError, match="query 2: expected ranks"):
        check_run(good.set_column(2, "rank", [pa.array([1, 2, 3], pa.int32())]))


def test_what_a_run_file_cannot_carry_is_told_in_order():
    names = pa.array(["a", "", "b c", "d", "e\u00a0", "\x7f", "f~"])
    assert unprintable(names) == ["", "b c", "e\u00a0", "\x7f"]


@pytest.mark.parametrize("size", [1, 2, 3, 5, 8, 100])
def test_blocks_are_whole_lines_whatever_is_read_at_once(tmp_path, size):
    path = tmp_path / "run"
    path.write_bytes(b"\xef\xbb\xbfab\n\ncdefgh\ni\nlast")
    blocks = list(line_blocks(path, block_bytes=max(size, 4)))
    assert b"".join(blocks) == b"ab\n\ncdefgh\ni\nlast"
    assert all(block.endswith(b"\n") for block in blocks[:-1]) and all(blocks)
    path.write_bytes(b"ab\ncd\n")
    assert b"".join(line_blocks(path, block_bytes=size)) == b"ab\ncd\n"


@pytest.mark.parametrize("name", ["a.gz", "a.bz2", "a.zst", "a"])
def test_what_is_written_is_read_again_and_an_old_file_is_replaced(tmp_path, name):
    path = tmp_path / "folder" / name
    for content in (b"old\n", b"new\n" * 1000):
        with replacing_run(path) as out:
            out.write(content)
        assert b"".join(line_blocks(path)) == content
    assert [p.name for p in path.parent.iterdir()] == [name]
    plain = name == "a"
    assert (path.stat().st_size == 4000) is plain


def test_the_file_is_flushed_before_it_takes_its_name_and_the_folder_behind(tmp_path, monkeypatch):
    calls = []
    for name in ("fsync", "replace"):
        real = getattr(os, name)

        def told(*arguments, name=name, real=real):
            calls.append(name)
            return real(*arguments)

        monkeypatch.setattr(os, name, told)
    with replacing_run(tmp_path / "x") as out:
        out.write(b"1")
    assert calls == ["fsync", "replace", "fsync"]


def test_zlib_data_that_is_damaged_is_refused(tmp_path):
    import gzip

    path = tmp_path / "x.gz"
    packed = bytearray(gzip.compress(b"1 Q0 a 1 1 x\n" * 1000))
    packed[15] ^= 0xFF
    path.write_bytes(packed)
    with pytest.raises(InputError, match="cannot be read"):
        list(line_blocks(path))
    assert issubclass(zlib.error, Exception)


def test_scores_are_lowered_no_further_than_they_must_across_zero_and_queries():
    tiny = np.float32(2.0**-149)
    found = lowered(np.array([0, 0, -0.0, 1, 1], np.float32))
    below = np.nextafter(np.float32(-2 * tiny), np.float32(-1))
    assert found.tolist() == [0.0, -tiny, -2 * tiny, below, np.nextafter(below, np.float32(-1))]
    two = lowered(np.array([1, 1, 1, 1], np.float32), np.array([4, 4, 2, 2]))
    one_below = np.nextafter(np.float32(1), np.float32(0))
    assert two.tolist() == [1, one_below, 1, one_below]
    assert lowered(np.empty(0, np.float32)).tolist() == []
    same = np.array([3, 2, 1], np.float32)
    assert lowered(same).tobytes() == same.tobytes()


def test_the_smallest_float32_stands_once_and_no_more():
    smallest = np.finfo(np.float32).min
    assert lowered(np.array([smallest], np.float32)).tolist() == [smallest]
    with pytest.raises(InputError, match="no float32 is left"):
        lowered(np.array([smallest, smallest], np.float32))
    for bad in (np.nan, np.inf, -np.inf):
        with pytest.raises(InputError, match="NaN or infinite"):
            lowered(np.array([1, bad], np.float32))


def test_holm_does_not_fall_stops_at_1_and_keeps_the_order_given():
    assert holm([0.25, 0.0625, 0.125]) == [0.25, 0.1875, 0.25]
    assert holm([0.5, 0.75]) == [1.0, 1.0] and holm([0.5]) == [0.5] and holm([]) == []


def test_exact_tests_by_hand():
    # Of 8 patterns of 1, 2, 4 the sums of magnitude 7 are two; of magnitude 5 or more, four.
    assert randomisation_tests([np.array([1.0, 2.0, 4.0])]) == [0.25]
    assert randomisation_tests([np.array([-1.0, 0.0, 2.0, 4.0])]) == [0.5]
    assert randomisation_tests([np.zeros(4), np.array([3.0])]) == [1.0, 1.0]
    assert randomisation_tests([]) == []


def test_t_tests_that_need_no_table():
    assert t_test(np.array([0.5])) == 1.0 and t_test(np.zeros(5)) == 1.0
    assert t_test(np.array([0.25, 0.25])) == 0.0
    # t = 1 with one degree of freedom: p = 1/2 exactly (the Cauchy distribution).
    assert t_test(np.array([0.0, 1.0])) == pytest.approx(0.5)


def test_the_share_without_judgement_is_of_the_first_k_of_judged_queries():
    run = pa.table(
        [["1", "1", "1", "2", "9"], ["a", "b", "c", "x", "y"], [1, 2, 3, 1, 1], [1.0] * 5],
        schema=schema.RUN_FILE,
    )
    judged = {"1": {"a", "c"}, "2": {"z"}}
    assert unjudged(run, judged, 1) == 1 / 2
    assert unjudged(run, judged, 2) == 2 / 3
    assert unjudged(run, judged, 3) == 2 / 4 and unjudged(run, {}, 3) == 0.0


def test_a_comparison_takes_the_cutoff_of_its_measure_or_ten():
    qrels = pa.table([["1"], ["a"], [1]], schema=schema.QRELS)
    lines = [["1"] * 20, ["a", *(f"x{n}" for n in range(19))], list(range(1, 21)), [1.0] * 20]
    run = pa.table(lines, schema=schema.RUN_FILE)
    found = compare({"r": run, "b": run}, qrels, ["RR@2", "AP", "R@20"], baseline="b")
    shares = {row.measure: row.unjudged for row in found.rows if row.run == "r"}
    assert shares == {"RR@2": 1 / 2, "AP": 9 / 10, "R@20": 19 / 20}
    assert found.family == 3 and [row.run for row in found.rows] == ["r", "b"] * 3
    base = next(row for row in found.rows if row.run == "b")
    assert (base.difference, base.wins, base.p_t, base.p_holm) == (None,) * 4
    with pytest.raises(InputError, match="NumRel.*: a count over all queries"):
        compare({"r": run, "b": run}, qrels, ["NumRel"], baseline="b")


@pytest.mark.parametrize("name", ["RR@0", "RR@1000001", "RR(rel=0)", "P@True", "RR(rel=1000001)"])
def test_cutoffs_and_grades_out_of_range_are_refused(name):
    with pytest.raises(InputError):
        parse_measures([name])


def test_cutoffs_and_grades_at_the_ends_of_their_range_are_taken():
    names = ["RR@1", "RR@1000000", "RR(rel=1)", "P(rel=1000000)@5"]
    assert list(parse_measures(names)) == names
    with pytest.raises(InputError, match="found none"):
        parse_measures([])


def trec(tmp_path, rows):
    path = tmp_path / "run.trec"
    path.write_text("".join(f"{q} Q0 {p} {r} {s} t\n" for q, p, r, s in rows))
    return path


def test_ties_are_counted_by_queries_lines_and_grades(tmp_path):
    rows = [
        ("1", "a", 1, 2),
        ("1", "b", 2, 2),
        ("1", "c", 3, 1),
        ("2", "a", 1, 5),
        ("2", "b", 2, 5),
    ]
    rows += [
        ("2", "c", 3, 5),
        ("2", "d", 4, 4),
        ("2", "e", 5, 4),
        ("3", "a", 1, 5),
        ("4", "a", 1, 5),
    ]
    judged = [
        ("1", "a", 0),
        ("1", "b", -1),
        ("2", "b", 1),
        ("2", "d", 2),
        ("2", "e", 2),
        ("9", "a", 1),
    ]
    qrels = pa.table([list(c) for c in zip(*judged, strict=True)], schema=schema.QRELS)
    found = tie_report(trec(tmp_path, rows), qrels, ["RR", "P@1", "Judged@1"])
    assert (found.scored, found.num_queries, found.num_rows, found.mixed) == (True, 2, 7, 1)
    # Query 2 of the three judged ones: its relevant b stands 1st to 3rd of a tie of three.
    assert {order: means["RR"] for order, means in found.means.items()} == {
        "written": pytest.approx(1 / 2 / 3),
        "trec_eval": pytest.approx(1 / 2 / 3),
        "msmarco": pytest.approx(1 / 2 / 3),
        "best": pytest.approx(1 / 3),
        "worst": pytest.approx(1 / 3 / 3),
    }
    assert set(found.means["best"]) == set(found.means["worst"]) == {"RR", "P@1"}
    assert set(found.means["written"]) == {"RR", "P@1", "Judged@1"}
    assert "half precision" in found.warning


def test_a_run_without_ties_reports_none(tmp_path):
    qrels = pa.table([["1"], ["a"], [1]], schema=schema.QRELS)
    rows = [("1", "a", 1, 2), ("1", "b", 2, 1), ("2", "c", 1, 1), ("2", "d", 2, 0)]
    found = tie_report(trec(tmp_path, rows), qrels, ["RR"])
    assert (found.scored, found.num_queries, found.num_rows, found.mixed) == (True, 0, 0, 0)
    assert found.means == {} and found.warning == ""


def test_ties_of_a_parquet_run_stand_in_the_order_of_its_ranks(tmp_path):
    table = pa.table({"query_id": ["1"] * 3, "passage_id": ["c", "a", "b"], "score": [0.1] * 3})
    pq.write_table(table.append_column("rank", [[1, 2, 3]]), tmp_path / "run.parquet")
    qrels = pa.table([["1"], ["a"], [1]], schema=schema.QRELS)
    found = tie_report(tmp_path / "run.parquet", qrels, ["RR"])
    assert {order: means["RR"] for order, means in found.means.items()} == {
        "written": 0.5, "trec_eval": pytest.approx(1 / 3), "msmarco": 1.0, "best": 1.0,
        "worst": pytest.approx(1 / 3),
    }  # fmt: skip


def test_lines_of_shown_names_are_ten():
    assert columns.SHOWN == 10


def test_a_file_of_ranks_alone_has_nothing_to_report(tmp_path):
    path = tmp_path / "run.tsv"
    path.write_text("1\ta\t1\n1\tb\t2\n")
    qrels = pa.table([["1"], ["a"], [1]], schema=schema.QRELS)
    found = tie_report(path, qrels, ["RR"])
    assert (found.scored, found.num_queries, found.num_rows, found.mixed) == (False, 0, 0, 0)
    assert (found.means, found.warning) == ({}, "")


def test_a_parquet_run_without_rows_is_refused(tmp_path):
    path = tmp_path / "run.parquet"
    pq.write_table(schema.RUN_FILE.empty_table(), path)
    with pytest.raises(InputError, match=r"run\.parquet: no rows; expected a run"):
        read_run(path)
