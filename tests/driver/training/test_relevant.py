"""The relevant documents of a training set as a run."""

import pytest

from raypipe.config.training import TrainingSet
from raypipe.driver.training.opened_sets import relevant_file, write_relevant
from raypipe.errors import InputError


@pytest.fixture
def wanted(tmp_path):
    (tmp_path / "queries.tsv").write_text("q1\tone\nq2\ttwo\nq3\tthree\n")
    (tmp_path / "qrels.txt").write_text("q1 0 D3 1\nq2 0 D9 2\nq1 0 D1 2\nq3 0 D4 0\nq8 0 D5 2\n")
    files = {
        name: str(tmp_path / f"{name}.{end}")
        for name, end in (("queries", "tsv"), ("qrels", "txt"))
    }
    return lambda **more: TrainingSet(collection="c", **files, **more)


@pytest.mark.parametrize(
    ("min_grade", "lines"),
    [
        (1, ["q1 Q0 D3 1 -1 relevant", "q1 Q0 D1 2 -2 relevant", "q2 Q0 D9 1 -1 relevant"]),
        (2, ["q2 Q0 D9 1 -1 relevant", "q1 Q0 D1 1 -1 relevant"]),
    ],
)
def test_documents_of_the_lowest_grade_are_in_the_run_in_the_order_of_the_qrels(
    wanted, tmp_path, min_grade, lines
):
    path = write_relevant(tmp_path / "made", "a", wanted(min_grade=min_grade))
    assert path == relevant_file(tmp_path / "made", "a")
    assert path.read_text().splitlines() == lines


def test_a_set_without_a_relevant_document_is_told(wanted, tmp_path):
    with pytest.raises(InputError, match="no judgement of grade 3 or higher"):
        write_relevant(tmp_path / "made", "a", wanted(min_grade=3))
    assert not (tmp_path / "made").exists()
