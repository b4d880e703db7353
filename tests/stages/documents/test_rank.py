"""Runs between passages and documents, in blocks of queries."""

import pytest

from raypipe import schema
from raypipe.stages.documents.rank import documents_run_stage, passages_run_stage
from raypipe.stages.stage import Sizing
from raypipe.stages.tables import Sides


@pytest.fixture
def sides(stores, documents):
    return Sides(stores.queries("x", "y", "z"), documents)


def documents_stage(stores, run, known, sides, **settings):
    given = {"method": "maxp", "k": None, "conversion": "none", "depth": 10, **settings}
    return documents_run_stage("d", run, known, sides, **given)


def lines_of(stored):
    return [tuple(row.values()) for row in stored.whole_table(schema.RUN).to_pylist()]


LINES = ([(0, 7, 3.0), (0, 1, 2.0), (0, 6, 1.0)], [(2, 2, 5.0), (2, 0, 1.0), (2, 4, 0.5)])


@pytest.mark.parametrize("size", [1, 2, 3])
def test_a_run_of_documents_is_the_same_however_the_queries_are_cut(stores, split, sides, size):
    stage = documents_stage(stores, stores.run(*LINES), split()[2], sides, method="sump")
    found = stores.finished(stage, Sizing(shard_queries=size))
    assert lines_of(found) == [
        (0, 4, 1, 4.0, "d"),
        (0, 0, 2, 2.0, "d"),
        (2, 0, 1, 6.0, "d"),
        (2, 2, 2, 0.5, "d"),
    ]


@pytest.mark.parametrize(
    ("conversion", "score"),
    [("none", -2.0), ("probability", 0.1192029), ("probability-of-log", 0.1353353)],
)
def test_scores_are_converted_before_they_are_aggregated(stores, split, sides, conversion, score):
    run = stores.run([(0, 3, -2.0)])
    stage = documents_stage(stores, run, split()[2], sides, conversion=conversion)
    assert lines_of(stores.finished(stage))[0][3] == pytest.approx(score)


def test_a_log_probability_becomes_its_log_odds(stores, split, sides):
    run = stores.run([(0, 3, -0.6931472), (0, 4, -1e-7)])
    stage = documents_stage(stores, run, split()[2], sides, conversion="log-odds", depth=1)
    ((_, document, _, score, _),) = lines_of(stores.finished(stage))
    assert (document, score) == (2, pytest.approx(16.118, abs=1e-3))


def test_every_setting_and_the_map_name_the_run(stores, split, sides):
    run, known = stores.run(*LINES), split()[2]
    other = split(Sizing(shard_rows=1))[1]
    specs = [
        documents_stage(stores, run, known, sides),
        documents_stage(stores, run, known, sides, method="k-max-avgp", k=4),
        documents_stage(stores, run, known, sides, method="k-max-avgp", k=5),
        documents_stage(stores, run, known, sides, conversion="log-odds"),
        documents_stage(stores, run, known, sides, depth=9),
        documents_stage(stores, run, other, sides),
    ]
    assert len({stage.spec.fingerprint() for stage in specs}) == 6
    assert sorted(specs[0].spec.inputs) == ["collection", "map", "queries", "run"]
    assert specs[0].spec.produces == "run"
    assert specs[0].estimated_bytes(3, 3) == 11 * 6
    assert documents_stage(stores, run, known, sides, depth=1).estimated_bytes(3, 3) == 11 * 3


@pytest.mark.parametrize("size", [1, 3])
def test_the_passages_of_a_run_of_documents_are_all_of_the_first_documents(
    stores, split, sides, size
):
    run = stores.run([(0, 4, 3.0), (0, 0, 2.0), (0, 1, 1.0)], [(2, 1, 5.0)])
    stage = passages_run_stage("p", run, split()[2], sides, documents=2, at_most=2)
    found = stores.finished(stage, Sizing(shard_queries=size))
    assert lines_of(found) == [
        (0, 6, 1, 3.0, "p"),
        (0, 7, 2, 3.0, "p"),
        (0, 0, 3, 2.0, "p"),
        (0, 1, 4, 2.0, "p"),
        (2, 3, 1, 5.0, "p"),
    ]
    assert stage.estimated_bytes(3, 3) == 11 * 4 * 2


def test_all_passages_of_a_document_are_taken_unless_a_number_is_given(stores, split, sides):
    run = stores.run([(0, 0, 1.0)])
    stage = passages_run_stage("p", run, split()[2], sides, documents=100, at_most=None)
    assert [line[1] for line in lines_of(stores.finished(stage))] == [0, 1, 2]
    other = passages_run_stage("p", run, split()[2], sides, documents=99, at_most=None)
    assert stage.spec.fingerprint() != other.spec.fingerprint()
    assert (stage.spec.produces, sorted(stage.spec.inputs)[1]) == ("run", "map")
