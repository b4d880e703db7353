import pytest

from raypipe import schema
from raypipe.errors import InputError
from raypipe.evaluation.run_files.runs import read_run
from raypipe.report.consistency import CUTOFFS, consistency_factor


@pytest.fixture
def table(tmp_path):
    """A run from query id -> passage ids, as its file is read."""

    def made(name, rankings):
        lines = [
            f"{query}\t{passage}\t{rank}\n"
            for query, passages in rankings.items()
            for rank, passage in enumerate(passages.split(), 1)
        ]
        (tmp_path / f"{name}.tsv").write_text("".join(lines))
        return read_run(tmp_path / f"{name}.tsv")

    return made


def test_consistency_is_the_mean_share_of_the_first_n_in_the_reference(table):
    run = table("run", {"1": "10 11 12 13", "2": "20 21"})
    reference = table("reference", {"1": "13 10 12 99", "2": "22 21"})
    assert run.schema == schema.RUN_FILE
    found = consistency_factor(run, reference, [1, 2, 3, 4])
    # query 1: 1/1, 1/2, 2/3, 3/4; query 2: 0/1, 1/2, and 1/2 again, as it has only two passages
    assert found.mean == pytest.approx({1: 1 / 2, 2: 1 / 2, 3: 7 / 12, 4: 5 / 8})
    assert found.num_queries == 2


def test_queries_of_only_one_of_them_count_in_no_mean(table):
    run = table("run", {"1": "10", "3": "10"})
    reference = table("reference", {"1": "10", "2": "10"})
    assert consistency_factor(run, reference, [5]) == ({5: 1.0}, 1)


def test_a_run_is_consistent_with_itself_at_every_depth(table):
    run = table("run", {"1": "10 11 12", "2": "20"})
    assert consistency_factor(run, run).mean == dict.fromkeys(CUTOFFS, 1.0)


@pytest.mark.parametrize("cutoffs", [[], [0], [5, -1]])
def test_a_cutoff_below_one_is_refused(table, cutoffs):
    run = table("run", {"1": "10"})
    with pytest.raises(InputError, match="from 1"):
        consistency_factor(run, run, cutoffs)


def test_runs_without_a_query_in_common_are_refused(table):
    with pytest.raises(InputError, match="no query in common"):
        consistency_factor(table("run", {"1": "10"}), table("reference", {"2": "10"}))
