"""A page measures each run once, whatever the number of its sections that tell of it."""

from dataclasses import replace

import pytest

from raypipe.evaluation.measures import evaluate
from raypipe.report import measures as measuring
from raypipe.report.depth import depth
from raypipe.report.fusion import fusion
from raypipe.report.measures import means, of_system, recall_of, recalls
from raypipe.report.overview import overview
from raypipe.report.queries import queries


@pytest.fixture
def counted(monkeypatch):
    """The number of lines of each run that was measured by the recipe's first measure."""
    calls = []

    def evaluated(run, judged, measures, **more):
        if "RR@10" in measures:
            calls.append(len(run))
        return evaluate(run, judged, measures, **more)

    monkeypatch.setattr(measuring, "evaluate", evaluated)
    return calls


def test_no_run_is_measured_twice_for_a_page(finished, counted):
    """Five systems; the first reranker at depth 5, which is a run of its own; two merges."""
    fresh = replace(finished)
    for section in (overview, depth, fusion, queries):
        section(fresh, "test")
    assert len(counted) == len(fresh.systems("test")) + 1 + 2 == 8


def test_values_are_those_of_the_run_by_itself(finished):
    for system in finished.systems("test"):
        run = finished.named(finished.run(system, "test"), "test")
        whole = evaluate(run, finished.judgements("test"), ["RR@10", "R@5"], warn=False)
        found = of_system(finished, "test", system)
        assert (found.per_query, found.mean) == (whole.per_query, whole.mean)
        assert found.num_topics == whole.num_topics
        assert found.missing_queries == whole.missing_queries
    for system in finished.first_stages("test"):
        recall = recall_of(finished, "test", system)
        assert [*recall] == {"dense": [5, 10, 20], "given": [5, 10]}[system]
        names = recalls(finished, [*recall])
        run = finished.run(system, "test")
        assert recall == {n: means(finished, "test", run, [m])[m] for n, m in names.items()}


def test_a_rerankers_own_depth_and_a_first_stages_recall_are_the_runs_own(finished):
    """At k0 8 the value is that of the run; the fusion table's recall that of the depth table."""
    reranked = depth(finished, "test").tables[1]
    last = [row for row in reranked.rows if row[0] == "first"][-1]
    assert last[2:] == [8, *of_system(finished, "test", "first").mean.values()]
    rows = {row[0]: row for row in fusion(finished, "test").tables[0].rows if row[1] == "-"}
    given = recall_of(finished, "test", "given")
    assert rows["given"][8:] == [given[5], given[10], given[10], given[10]]
