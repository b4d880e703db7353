"""The boards' rules: each broken one is told, nothing is written, and what is written obeys."""

import bz2
import gzip
import json
import subprocess
import sys

import ir_measures
import numpy as np
import pyarrow as pa
import pytest

from raypipe import schema
from raypipe.data.qrels import read_qrels
from raypipe.errors import InputError
from raypipe.leaderboard.boards import BOARDS, Board
from raypipe.leaderboard.fill import fill
from raypipe.leaderboard.lines import read_run_lines
from raypipe.leaderboard.metadata import check_metadata
from raypipe.leaderboard.pack import RunSide, pack
from raypipe.leaderboard.rules import check_lines
from raypipe.leaderboard.script import reciprocal_rank

PASSAGE = BOARDS["msmarco-passage"]
SMALL = Board(
    "msmarco-passage",
    "msmarco",
    ((PASSAGE.depths[0][0], 3),),
    num_passages=100,
    query_sets=(("dev", 2), ("eval", 1)),
    cutoff=10,
    full_rows=True,
    metadata=True,
)
"""msmarco-passage with 3 rows a query, 2 dev queries and 1 eval query."""
GOOD = "7\t10\t1\n7\t11\t2\n7\t12\t3\n9\t5\t1\n9\t6\t2\n9\t99\t3\n"
METADATA = {
    "team": "t",
    "model_description": "d",
    "paper": "",
    "code": "",
    "type": "reranking",
}


def write(path, text):
    path.write_text(text)
    return path


def broken(findings):
    return [finding.rule for finding in findings if not finding.ok]


def check(tmp_path, text, board=SMALL, **options):
    return check_lines(read_run_lines(write(tmp_path / "run", text)), board, **options)


def test_a_good_run_breaks_no_rule_and_what_does_not_apply_is_told(tmp_path):
    findings = check(tmp_path, GOOD)
    assert broken(findings) == []
    assert {f.rule for f in findings if not f.applies} == {"scores", "tag"}


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (("7\t10\t1", "7\t10\t0"), "ranks"),
        (("7\t12\t3", "7\t12\t4"), "ranks"),
        (("7\t11\t2", "7\t10\t2"), "repeated passages"),
        (("7\t11\t2", "7 11 2"), "file format"),
        (("7\t11\t2", "7\t11\t2.0"), "file format"),
        (("7\t11\t2", "\n7\t11\t2"), "file format"),
        (("\t99\t", "\t9\u0669\t"), "passage ids"),
        (("\t99\t", "\t100\t"), "passage ids"),
        (("\t99\t", "\t099\t"), "passage ids"),
        (("\t99\t", "\tD99\t"), "passage ids"),
        (("9\t99\t3\n", "9\t99\t3\n9\t98\t4\n"), "depth"),
        (("9\t99\t3\n", ""), "rows"),
    ],
)
def test_each_broken_rule_is_the_one_that_is_told(tmp_path, change, rule):
    assert broken(check(tmp_path, GOOD.replace(*change))) == [rule]


def test_query_ids_are_whole_numbers_of_the_query_set(tmp_path):
    assert "query ids" in broken(check(tmp_path, GOOD.replace("9\t", "q\t")))
    assert broken(check(tmp_path, GOOD.replace("9\t", "8\t"), queries=["7", "9"])) == ["query set"]
    assert broken(check(tmp_path, GOOD, queries=["9", "7"])) == []
    assert broken(check(tmp_path, GOOD, query_set="eval")) == ["query set"]


def test_fewer_rows_may_be_allowed(tmp_path):
    assert broken(check(tmp_path, GOOD.replace("9\t99\t3\n", ""), fewer_rows=True)) == []


DL = "1 Q0 msmarco_passage_01_5 1 2.5 a\n1 Q0 msmarco_passage_01_6 2 2.0 a\n"


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ((" 2.0 ", " 2.5 "), ["scores"]),
        ((" 2.0 ", " 2.499999999 "), ["scores"]),  # equal in float32
        ((" 2.0 a", " 2.0 b"), ["tag"]),
        (("_6 2 ", "_6 3 "), ["ranks"]),
        (("msmarco_passage_01_6", "x6"), ["passage ids"]),
        (("msmarco_passage_01_6", "msmarco_passage_01_5"), None),
    ],
)
def test_trec_dl_wants_falling_scores_one_tag_and_its_ids(tmp_path, change, rule):
    found = broken(check(tmp_path, DL.replace(*change), BOARDS["trec-dl"]))
    assert found == (rule or ["repeated passages"])


def test_trec_dl_of_v2_takes_100_rows_and_of_v1_1000(tmp_path):
    def rows(count, name):
        return "".join(f"1 Q0 {name}{n} {n + 1} {-n} a\n" for n in range(count))

    board = BOARDS["trec-dl"]
    assert broken(check(tmp_path, rows(101, "msmarco_passage_01_"), board)) == ["depth"]
    assert broken(check(tmp_path, rows(1000, ""), board)) == []
    assert broken(check(tmp_path, rows(1001, ""), board)) == ["depth"]


def test_trec_car_takes_its_query_and_paragraph_ids(tmp_path):
    line = f"enwiki:A%20b/C%20d Q0 {'0a' * 20} 1 1.0 x\n"
    assert broken(check(tmp_path, line, BOARDS["trec-car"])) == []
    assert broken(check(tmp_path, line.replace("0a", "0g"), BOARDS["trec-car"])) == ["passage ids"]


def qrels_of(*rows):
    columns = list(zip(*rows, strict=True))
    return pa.table([*columns[:2], pa.array(columns[2], pa.int32())], schema=schema.QRELS)


def test_the_scripts_measure_by_hand():
    qrels = qrels_of(("1", "a", 1), ("2", "b", 0), ("3", "c", 1), ("1", "z", 1))
    rankings = {"2": ["x", "b"], "1": ["x", "y", "a", "z"], "8": ["a"]}
    # Grades are not looked at, query 3 counts 0, query 8 is passed over.
    assert reciprocal_rank(rankings, qrels, cutoff=10) == ((1 / 2 + 1 / 3) / 3, 3)
    assert reciprocal_rank(rankings, qrels, cutoff=2) == ((1 / 2) / 3, 3)


def test_the_scripts_measure_is_ir_measures_reciprocal_rank():
    rng = np.random.default_rng(0)
    rankings = {str(q): [str(p) for p in rng.permutation(60)[:40]] for q in range(50)}
    judged = [(str(q), str(rng.integers(60)), 1) for q in range(55) for _ in range(2)]
    judged = list(dict.fromkeys(judged))
    value, num = reciprocal_rank(rankings, qrels_of(*judged), cutoff=10)
    as_qrels = [ir_measures.Qrel(*row) for row in judged]
    scored = [
        ir_measures.ScoredDoc(query, passage, -float(rank))
        for query, passages in rankings.items()
        for rank, passage in enumerate(passages)
    ]
    expected = ir_measures.calc_aggregate([ir_measures.RR @ 10], as_qrels, scored)
    assert num == 55 and value == pytest.approx(expected[ir_measures.RR @ 10], abs=1e-12)


def test_rows_are_filled_from_the_earlier_run_alone():
    own = {"1": ["a", "b"], "2": ["a", "b", "c", "d"]}
    earlier = {"1": ["b", "x", "y", "z"], "3": ["q"]}
    found = fill(own, earlier, queries=["3", "1", "2", "4"], depth=3)
    assert found.rankings == {"3": ["q"], "1": ["a", "b", "x"], "2": ["a", "b", "c"]}
    assert (found.num_queries, found.num_rows, found.num_cut) == (2, 2, 1)


@pytest.mark.parametrize(
    ("submission", "change", "rule"),
    [
        ("20261120-mine", {}, []),
        ("2026-11-20-mine", {}, ["id", "two in 30 days"]),
        ("20261320-mine", {}, ["id", "two in 30 days"]),
        ("20261120-mine", {"type": "other"}, ["metadata"]),
        ("20261120-mine", {"team": 5}, ["metadata"]),
        ("20261120-mine", {"taem": "t"}, ["metadata"]),
        ("20261120-mine", {"embargo_until": "2027/08/20"}, []),
        ("20261120-mine", {"embargo_until": "2027/08/21"}, ["embargo"]),
        ("20261120-mine", {"embargo_until": "2026/11/19"}, ["embargo"]),
        ("20261120-mine", {"embargo_until": "2027-01-01"}, ["embargo"]),
    ],
)
def test_rules_of_metadata(submission, change, rule):
    assert broken(check_metadata(PASSAGE, submission, METADATA | change, [])) == rule


def test_a_team_submits_twice_in_30_days(tmp_path):
    def known(name, team="t"):
        write(tmp_path / f"{name}-metadata.json", json.dumps(METADATA | {"team": team}))

    known("20261101-a")
    known("20261101-b", team="other")
    known("20261021-c")  # 30 days before: no longer counted
    assert broken(check_metadata(PASSAGE, "20261120-mine", METADATA, [tmp_path])) == []
    known("20261110-d")
    found = check_metadata(PASSAGE, "20261120-mine", METADATA, [tmp_path])
    assert broken(found) == ["two in 30 days"]


def test_two_before_and_after_are_two_in_no_30_days(tmp_path):
    for name in ("20261026-a", "20261215-b"):
        write(tmp_path / f"{name}-metadata.json", json.dumps(METADATA))
    assert broken(check_metadata(PASSAGE, "20261120-mine", METADATA, [tmp_path])) == []
    write(tmp_path / "20261105-c-metadata.json", json.dumps(METADATA))
    found = check_metadata(PASSAGE, "20261120-mine", METADATA, [tmp_path])
    assert broken(found) == ["two in 30 days"]


@pytest.mark.parametrize("submission", ["a/b", "../x", "a b", ""])
def test_a_trec_tag_is_one_word_and_no_path(submission):
    assert broken(check_metadata(BOARDS["trec-dl"], submission, {}, [])) == ["id"]


@pytest.fixture
def sides(tmp_path):
    write(tmp_path / "dev.tsv", GOOD)
    write(tmp_path / "eval.tsv", "5\t1\t1\n5\t2\t2\n5\t3\t3\n")
    write(tmp_path / "qrels", "7 0 11 1\n9 0 5 1\n")
    write(tmp_path / "metadata.json", json.dumps(METADATA))
    return {
        "dev": RunSide(run=tmp_path / "dev.tsv", qrels=tmp_path / "qrels"),
        "eval": RunSide(run=tmp_path / "eval.tsv"),
    }


def packed(tmp_path, sides, submission="20261120-mine", **options):
    return pack(
        SMALL,
        sides,
        submission=submission,
        metadata=tmp_path / "metadata.json",
        out=tmp_path / "out",
        **options,
    )


def test_pack_writes_the_files_that_the_board_takes(tmp_path, sides):
    found = packed(tmp_path, sides)
    folder = tmp_path / "out" / "leaderboard"
    files = {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()}
    assert files == {
        "submissions/20261120-mine/dev.txt.bz2",
        "submissions/20261120-mine/eval.txt.bz2",
        "submissions/20261120-mine-metadata.json",
        "check.json",
    }
    assert bz2.decompress((found.folder / "dev.txt.bz2").read_bytes()).decode() == GOOD
    assert json.loads((folder / "submissions/20261120-mine-metadata.json").read_text()) == METADATA
    assert found.measure == {"MRR @10": (1 / 2 + 1) / 2}
    told = json.loads((folder / "check.json").read_text())
    assert told["measure"] == found.measure and told["rules"]["dev"]
    before = {name: (folder / name).read_bytes() for name in files}
    packed(tmp_path, sides)  # the same again is no change
    assert before == {name: (folder / name).read_bytes() for name in files}


def test_nothing_is_written_when_a_rule_is_broken_and_all_are_told(tmp_path, sides):
    write(tmp_path / "dev.tsv", GOOD.replace("\t99\t", "\t100\t"))
    write(tmp_path / "eval.tsv", "5\t1\t1\n")
    write(tmp_path / "metadata.json", json.dumps(METADATA | {"type": "x"}))
    with pytest.raises(InputError) as caught:
        packed(tmp_path, sides)
    text = str(caught.value)
    assert all(word in text for word in ("passage ids", "eval: rows", "metadata: type"))
    assert not (tmp_path / "out").exists()


def test_another_submission_of_the_same_id_is_refused(tmp_path, sides):
    packed(tmp_path, sides)
    write(tmp_path / "eval.tsv", "5\t1\t1\n5\t2\t2\n5\t4\t3\n")
    with pytest.raises(InputError, match="stands there with other runs"):
        packed(tmp_path, sides)
    assert not [p for p in (tmp_path / "out").rglob(".*")]


def test_other_metadata_of_the_same_id_is_refused(tmp_path, sides):
    packed(tmp_path, sides)
    told = tmp_path / "out" / "leaderboard" / "submissions" / "20261120-mine-metadata.json"
    before = told.read_bytes()
    write(tmp_path / "metadata.json", json.dumps(METADATA | {"team": "u"}))
    with pytest.raises(InputError, match="other metadata"):
        packed(tmp_path, sides)
    assert told.read_bytes() == before


def test_a_trec_run_fills_in_the_order_of_its_scores(tmp_path, sides):
    write(tmp_path / "dev.tsv", GOOD.replace("9\t6\t2\n9\t99\t3\n", ""))
    lines = ["9 Q0 41 1 1.0 x", "9 Q0 42 2 9.0 x", "9 Q0 43 3 5.0 x"]
    write(tmp_path / "fill.trec", "\n".join(lines) + "\n")
    dev = RunSide(run=tmp_path / "dev.tsv", fill=tmp_path / "fill.trec")
    found = packed(tmp_path, {**sides, "dev": dev})
    written = bz2.decompress((found.folder / "dev.txt.bz2").read_bytes()).decode()
    assert written.endswith("9\t5\t1\n9\t42\t2\n9\t43\t3\n")


def test_short_and_missing_queries_are_filled_and_counted(tmp_path, sides):
    write(tmp_path / "dev.tsv", "7\t10\t1\n")
    write(tmp_path / "bm25.tsv", GOOD)
    write(tmp_path / "queries.tsv", "9\tb\n7\ta\n")
    dev = RunSide(
        run=tmp_path / "dev.tsv",
        queries=tmp_path / "queries.tsv",
        fill=tmp_path / "bm25.tsv",
    )
    found = packed(tmp_path, {**sides, "dev": dev})
    written = bz2.decompress((found.folder / "dev.txt.bz2").read_bytes()).decode()
    assert written == "9\t5\t1\n9\t6\t2\n9\t99\t3\n7\t10\t1\n7\t11\t2\n7\t12\t3\n"
    (told,) = [f.detail for f in found.findings["dev"] if f.rule == "filled"]
    assert told == "5 rows of 2 queries from bm25.tsv"


def test_a_trec_task_packs_a_trec_file_with_falling_scores(tmp_path):
    write(tmp_path / "run.trec", DL.replace(" 2.0 ", " 2.5 "))
    found = pack(
        BOARDS["trec-dl"],
        {"eval": RunSide(run=tmp_path / "run.trec")},
        submission="mine",
        metadata=None,
        out=tmp_path / "out",
    )
    again = read_run_lines(found.folder / "eval.trec")
    assert broken(check_lines(again, BOARDS["trec-dl"])) == [] and again.tags == ("mine",)
    # trec_eval's order of the tie: the greater id first.
    assert again.rankings() == {"1": ["msmarco_passage_01_6", "msmarco_passage_01_5"]}


def pack_dl(tmp_path, run, **side):
    return pack(
        BOARDS["trec-dl"],
        {"eval": RunSide(run=run, **side)},
        submission="mine",
        metadata=None,
        out=tmp_path / "out",
    )


def scores_of(path):
    """(query, passage) -> (rank, float32 score) of a TREC file, read without raypipe."""
    rows = [line.split() for line in path.read_text().splitlines()]
    return {(row[0], row[2]): (int(row[3]), np.float32(row[4])) for row in rows}


def test_a_packed_trec_run_keeps_its_scores_and_ranks(tmp_path):
    rng = np.random.default_rng(3)
    lines = []
    for query in ("1", "2"):
        scores = np.sort(rng.normal(size=40).astype(np.float32))[::-1]
        lines += [f"{query} Q0 {n} {n + 1} {s:.9g} other" for n, s in enumerate(scores)]
    run = write(tmp_path / "run.trec", "\n".join(lines) + "\n")
    found = pack_dl(tmp_path, run)
    assert scores_of(found.folder / "eval.trec") == scores_of(run)
    told = {f.rule: f for f in found.findings["eval"]}
    assert told["file format"].applies and told["file format"].ok
    assert told["scores"].applies and told["tag"].detail == "mine"
    assert not [f for f in found.findings["eval"] if "is no trec file" in f.detail]


def test_a_packed_tie_is_lowered_by_one_float32_and_no_other_score_changes(tmp_path):
    lines = ["1 Q0 7 1 2.5 x", "1 Q0 6 2 2.5 x", "1 Q0 5 3 2.5 x", "1 Q0 4 4 0.25 x"]
    run = write(tmp_path / "run.trec", "\n".join(lines) + "\n")
    written = scores_of(pack_dl(tmp_path, run).folder / "eval.trec")
    below = np.nextafter(np.float32(2.5), np.float32(-np.inf))
    below_that = np.nextafter(below, np.float32(-np.inf))
    assert written == {
        ("1", "7"): (1, np.float32(2.5)),
        ("1", "6"): (2, below),
        ("1", "5"): (3, below_that),
        ("1", "4"): (4, np.float32(0.25)),
    }


def test_rows_filled_into_a_trec_run_have_the_earlier_runs_scores_below_its_own(tmp_path):
    run = write(tmp_path / "run.trec", "1 Q0 7 1 -1.5 x\n1 Q0 6 2 -2.5 x\n")
    earlier = ["1 Q0 6 1 9.0 y", "1 Q0 3 2 8.0 y", "1 Q0 2 3 -4.0 y", "2 Q0 9 1 8.5 y"]
    fill_from = write(tmp_path / "earlier.trec", "\n".join(earlier) + "\n")
    queries = write(tmp_path / "queries.tsv", "1\ta\n2\tb\n")
    found = pack_dl(tmp_path, run, fill=fill_from, queries=queries)
    below = np.nextafter(np.float32(-2.5), np.float32(-np.inf))
    assert scores_of(found.folder / "eval.trec") == {
        ("1", "7"): (1, np.float32(-1.5)),
        ("1", "6"): (2, np.float32(-2.5)),
        ("1", "3"): (3, below),
        ("1", "2"): (4, np.float32(-4.0)),
        ("2", "9"): (1, np.float32(8.5)),
    }


def test_a_run_of_ranks_packed_for_a_trec_task_scores_one_by_rank(tmp_path):
    run = write(tmp_path / "run.tsv", "1\t7\t1\n1\t6\t2\n")
    found = pack_dl(tmp_path, run)
    written = scores_of(found.folder / "eval.trec")
    assert written == {("1", "7"): (1, np.float32(1)), ("1", "6"): (2, np.float32(0.5))}
    (told,) = [f for f in found.findings["eval"] if f.rule == "run.tsv: file format"]
    assert told.detail == "run.tsv is no trec file; pack writes one from it"


def test_check_loads_neither_torch_nor_ray_nor_java_nor_transformers(tmp_path):
    write(tmp_path / "run.tsv", GOOD)
    code = (
        "import sys; from raypipe.cli.main import run; "
        f"code = run(['leaderboard', 'check', {str(tmp_path / 'run.tsv')!r}, '--task', 'local']); "
        "print(code, [m for m in ('torch','ray','jnius','transformers') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines()[-1] == "(0, 'complete') []", done.stderr


def test_the_command_line_tells_every_rule_and_exits_2(tmp_path, raypipe_cli):
    path = write(tmp_path / "run.tsv", GOOD.replace("7\t10\t1", "7\t10\t0"))
    done = raypipe_cli("leaderboard", "check", path, "--task", "msmarco-passage")
    assert done.returncode == 2
    assert "BROKEN ranks" in done.stdout and "BROKEN query set" in done.stdout
    assert "ok     repeated passages" in done.stdout and "-      tag" in done.stdout
    assert raypipe_cli("leaderboard", "check", path, "--task", "msmarco").returncode == 2


@pytest.mark.long
def test_a_made_up_run_of_full_size_is_packed(raypipe_data, tmp_path):
    """6,980 and 6,837 queries with 1,000 rows each; a third of dev finds its passage."""
    topics = raypipe_data / "msmarco-topics"
    qrels = read_qrels(topics / "qrels.msmarco-passage.dev-subset.txt.gz")
    relevant = dict(
        zip(qrels["query_id"].to_pylist(), qrels["passage_id"].to_pylist(), strict=True)
    )
    rows = np.arange(1, 1001)
    expected = 0.0
    for name, file in (("dev", "dev"), ("eval", "test")):
        path = topics / f"topics.msmarco-passage.{file}-subset.txt.gz"
        lines = gzip.decompress(path.read_bytes()).decode().splitlines()
        with (tmp_path / f"{name}.tsv").open("w") as out:
            for number, line in enumerate(lines):
                query = line.split("\t")[0]
                passages = (rows * 7919 + number * 31) % 8_841_823
                ids = [str(p) for p in passages]
                if name == "dev" and number % 3 == 0 and relevant[query] not in ids:
                    ids[number % 20] = relevant[query]
                    expected += 1 / (number % 20 + 1) if number % 20 < 10 else 0
                out.writelines(f"{query}\t{p}\t{r}\n" for r, p in enumerate(ids, 1))
    write(tmp_path / "metadata.json", json.dumps(METADATA))
    found = pack(
        PASSAGE,
        {
            "dev": RunSide(
                run=tmp_path / "dev.tsv",
                queries=topics / "topics.msmarco-passage.dev-subset.txt.gz",
                qrels=topics / "qrels.msmarco-passage.dev-subset.txt.gz",
            ),
            "eval": RunSide(run=tmp_path / "eval.tsv"),
        },
        submission="20261120-mine",
        metadata=tmp_path / "metadata.json",
        out=tmp_path / "out",
    )
    assert found.measure["MRR @10"] == pytest.approx(expected / 6980, rel=1e-9)
    with bz2.open(found.folder / "eval.txt.bz2") as stream:
        assert sum(1 for _ in stream) == 6_837_000
