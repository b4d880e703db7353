import pytest

from raypipe.driver.verbs.fuse_files import fuse_files


def test_run_files_are_fused_by_their_ids(tmp_path):
    one, two = tmp_path / "1.trec", tmp_path / "2.trec"
    one.write_text("q2 Q0 b 1 9 x\nq2 Q0 a 2 8 x\nq1 Q0 c 1 5 x\n")
    two.write_text("q3 Q0 a 1 3 y\nq2 Q0 a 1 2 y\nq2 Q0 b 2 1 y\nq2 Q0 d 3 0.5 y\n")
    told = fuse_files([one, two], method="rrf", depth=2, out=tmp_path / "out")
    assert told == {"queries": 3, "lines": 4}
    lines = [line.split() for line in (tmp_path / "out" / "fused.trec").read_text().splitlines()]
    # a and b tie for q2: the smaller id first; the written score of the second is lowered.
    assert [line[:4] for line in lines] == [
        ["q2", "Q0", "a", "1"], ["q2", "Q0", "b", "2"], ["q1", "Q0", "c", "1"],
        ["q3", "Q0", "a", "1"],
    ]  # fmt: skip
    assert float(lines[0][4]) == pytest.approx(1 / 61 + 1 / 62) and lines[0][5] == "fused"
    tsv = (tmp_path / "out" / "fused.tsv").read_text()
    assert tsv == "q2\ta\t1\nq2\tb\t2\nq1\tc\t1\nq3\ta\t1\n"
