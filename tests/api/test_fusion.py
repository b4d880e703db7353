import pytest

import raypipe
from raypipe import schema
from raypipe.errors import InputError

A = {"q": {"x": 3.0, "y": 2.0}}
B = {"q": {"y": 5.0, "z": 1.0}, "r": {"x": 1.0}}


def lines(run):
    return [(r["query_id"], r["passage_id"], r["rank"]) for r in run.to_pylist()]


def test_fused_runs_are_the_pipelines(passages, made):
    runs = made.runs["test"]
    inputs = [runs["dense"], runs["mono"]]
    for method, system in (("alternate", "fused"), ("rrf", "rrf")):
        found = raypipe.fuse(inputs, method, depth=15, passages=passages)
        assert found.equals(runs[system])


def test_fused_runs_are_those_of_the_verb(made, tmp_path):
    from raypipe.driver.verbs.fuse_files import fuse_files

    runs = [made.runs["test"][name] for name in ("dense", "mono")]
    paths = [tmp_path / "dense.parquet", tmp_path / "mono.parquet"]
    for run, path in zip(runs, paths, strict=True):
        raypipe.write_run(run, path)
    fuse_files(paths, method="rrf", depth=15, out=tmp_path)
    raypipe.write_run(raypipe.fuse(paths, depth=15), tmp_path / "own.trec", tag="fused")
    assert (tmp_path / "own.trec").read_bytes() == (tmp_path / "fused.trec").read_bytes()


def test_reciprocal_ranks_are_summed():
    found = raypipe.fuse([A, B], k=0)
    assert found.schema == schema.RUN_FILE
    assert lines(found) == [("q", "y", 1), ("q", "x", 2), ("q", "z", 3), ("r", "x", 1)]
    assert found["score"].to_pylist() == [1.5, 1.0, 0.5, 1.0]


def test_weights_and_depth_reach_the_rule():
    found = raypipe.fuse([A, B], "weighted", weights=[1, 0], depth=1)
    assert lines(found) == [("q", "x", 1), ("r", "x", 1)]


def test_ties_go_by_place_among_the_passages_else_by_id():
    tied = [{"q": {"b": 1.0}}, {"q": {"a": 1.0}}]
    assert lines(raypipe.fuse(tied)) == [("q", "a", 1), ("q", "b", 2)]
    assert lines(raypipe.fuse(tied, passages={"b": "", "a": ""})) == [("q", "b", 1), ("q", "a", 2)]


def test_empty_runs_fuse_to_an_empty_one():
    assert raypipe.fuse([{}, {}]).equals(schema.RUN_FILE.empty_table())
    assert lines(raypipe.fuse([{}, A])) == [("q", "x", 1), ("q", "y", 2)]


def test_queries_that_a_run_lacks_are_told_by_its_file(tmp_path, caplog):
    from raypipe.driver.verbs.fuse_files import fuse_files

    paths = [tmp_path / "a.trec", tmp_path / "b.trec"]
    for run, path in zip([A, B], paths, strict=True):
        raypipe.write_run(run, path)
    fuse_files(paths, method="rrf", depth=15, out=tmp_path)
    lacking = "lacks 1 of the 2 queries, which the others alone rank: r"
    assert [record.getMessage() for record in caplog.records] == [f"{paths[0]}: {lacking}"]
    caplog.clear()
    raypipe.fuse([A, B])
    assert [record.getMessage() for record in caplog.records] == [f"run 1: {lacking}"]


def test_runs_of_one_query_set_are_fused_without_a_word(caplog):
    raypipe.fuse([A, {"q": {"y": 1.0}}])
    raypipe.fuse([A])
    assert caplog.records == []


def test_runs_that_share_no_passage_are_told(caplog):
    raypipe.fuse([A, {"q": {"doc-x": 1.0}}])
    assert "run 1, run 2: no passage is in two of the runs" in caplog.text


@pytest.mark.parametrize(
    ("runs", "more", "told"),
    [
        ([A], {"method": "rrf"}, "found method: remove them, or give more runs"),
        ([], {}, "fuse: expected a run to cut, or two or more to fuse; found none"),
        (A, {}, "runs: found dict; expected a list of runs"),
        ([A, B], {"method": "mean"}, "fuse: method: expected one of alternate, rrf"),
        ([A, B], {"weights": [1, 2]}, "fuse: weights are for method weighted"),
        ([A, B], {"depth": 0}, "depth: expected a whole number from 1; found 0"),
        ([A, B], {"passages": {"x": "", "y": ""}}, "run 2: 1 passage ids are not among"),
        ([A, 7], {}, "run 2: found int; expected a table"),
    ],
)
def test_what_cannot_be_fused_is_refused(runs, more, told):
    with pytest.raises(InputError) as refused:
        raypipe.fuse(runs, **more)
    assert told in str(refused.value)


def test_one_run_is_cut_without_a_method():
    found = raypipe.fuse([{"q": {"x": 3.0, "y": 2.0, "z": 2.0}, "r": {"x": 1.0}}], depth=2)
    # z before y: equal scores are ordered by id descending, as in every file.
    assert lines(found) == [("q", "x", 1), ("q", "z", 2), ("r", "x", 1)]
    assert found["score"].to_pylist() == [3.0, 2.0, 1.0]
