import numpy as np
from small_board import DL, broken, write

from raypipe.leaderboard.boards import BOARDS
from raypipe.leaderboard.rules import check_lines, read_run_lines
from raypipe.leaderboard.submission import RunSide, pack


def test_a_trec_task_packs_a_trec_file_with_falling_scores(tmp_path):
    write(tmp_path / "run.trec", DL.replace(" 2.0 ", " 2.5 "))
    found = pack(
        BOARDS["trec-dl"],
        {"eval": RunSide(run=tmp_path / "run.trec", break_ties="rank")},
        submission="mine",
        metadata=None,
        out=tmp_path / "out",
    )
    again = read_run_lines(found.folder / "eval.trec")
    assert broken(check_lines(again, BOARDS["trec-dl"])) == [] and again.tags == ("mine",)
    assert again.rankings() == {"1": ["msmarco_passage_01_5", "msmarco_passage_01_6"]}


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
    assert told["scores"].applies and told["tag"].detail == "other"  # it becomes the id
    assert (found.folder / "eval.trec").read_text().splitlines()[0].endswith(" mine")
    assert not [f for f in found.findings["eval"] if "is not a trec file" in f.detail]


def test_a_packed_tie_is_lowered_by_one_float32_and_no_other_score_changes(tmp_path):
    lines = ["1 Q0 7 1 2.5 x", "1 Q0 6 2 2.5 x", "1 Q0 5 3 2.5 x", "1 Q0 4 4 0.25 x"]
    run = write(tmp_path / "run.trec", "\n".join(lines) + "\n")
    written = scores_of(pack_dl(tmp_path, run, break_ties="rank").folder / "eval.trec")
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
    (told,) = [f for f in found.findings["eval"] if f.rule == "file format"]
    assert told.detail == "run.tsv is not a trec file; pack writes one from it"
