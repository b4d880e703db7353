import shutil

import pytest
from reranking_recipe import lines

from raypipe.errors import InputError, RefusedError


def test_a_second_invocation_computes_nothing(finished, run):
    root, _ = finished
    again = run(root / "work", root / "stores")
    assert all(stage["reused"] for stage in again["stages"].values())


def counts(summary, system):
    told = summary["systems"]["test"][system]
    return [told[name] for name in ("inferences", "computed", "copied")]


@pytest.mark.slow
def test_other_runs_and_depths_score_only_what_nobody_scored(finished, run, tmp_path):
    root, before = finished
    stores = shutil.copytree(root / "stores", tmp_path / "stores")
    num_queries = len(lines(root / "work", "first"))
    more = run(tmp_path / "more", stores, "stages.mono.k0=15", until="mono")
    assert more["stages"]["scores@mono.test"]["copied"] == num_queries * 12
    assert counts(more, "mono") == [num_queries * 15, num_queries * 3, num_queries * 12]
    less = run(tmp_path / "less", stores, "stages.mono.k0=5", until="mono")
    assert less["stages"]["scores@mono.test"]["copied"] == num_queries * 5
    assert less["systems"]["test"]["mono"]["ms_per_query"] is None
    assert counts(less, "mono") == [num_queries * 5, 0, num_queries * 5]
    # A grid over k0: candidates that the largest k0 never sent to the duo are scored.
    grid = run(tmp_path / "grid", stores, "stages.mono.k0=15")
    fresh = run(tmp_path / "fresh", tmp_path / "fresh-stores", "stages.mono.k0=15")
    assert grid["measures"] == fresh["measures"]
    scores = grid["stages"]["scores@duo.test"]
    added = scores["rows"] - scores["copied"]
    assert 0 < added < num_queries * 4 * 3
    assert counts(grid, "mono") == [num_queries * 15, num_queries * 3, num_queries * 12]
    assert counts(grid, "duo-sum") == [num_queries * (15 + 12), added, scores["copied"]]
    assert counts(fresh, "duo-sum") == [num_queries * (15 + 12), num_queries * 12, 0]
    for system in ("mono", "duo-sum", "duo-min", "duo-sample"):
        assert lines(tmp_path / "grid", system) == lines(tmp_path / "fresh", system)


def test_a_drawn_sample_equals_sample_from_the_full_table(finished, run, tmp_path):
    root, _ = finished
    drawn = run(
        tmp_path / "work",
        tmp_path / "stores",
        "stages.duo.sample=2",
        "stages.duo.seed=5",
        "stages.duo-sum.method=sample",
        "stages.duo-sum.m=2",
        "stages.duo-sum.seed=5",
        "stages.duo-min.method=sample",
        "stages.duo-min.m=2",
        "stages.duo-min.seed=5",
        "stages.duo-min.k1=4",
        until="duo-sum",
    )
    num_queries = len(lines(root / "work", "first"))
    assert drawn["stages"]["scores@duo.test"]["rows"] == num_queries * 4 * 2
    assert lines(tmp_path / "work", "duo-sum") == lines(root / "work", "duo-sample")


def test_m_of_k1_minus_1_is_the_sum(finished, run, tmp_path):
    root, _ = finished
    stores = shutil.copytree(root / "stores", tmp_path / "stores")
    run(tmp_path / "work", stores, "stages.duo-sample.m=3", until="duo-sample")
    assert lines(tmp_path / "work", "duo-sample") == lines(root / "work", "duo-sum")


def test_killed_scores_are_finished_with_the_same_bytes(finished, run, tmp_path):
    root, _ = finished
    calm = {p.relative_to(root): p.read_bytes() for p in root.rglob("blobs/*/*")}
    stores = shutil.copytree(root / "stores", tmp_path / "stores")
    (scores,) = (stores / "scores@mono.test").iterdir()
    (selected,) = (stores / "mono.test").iterdir()
    (scores / "manifest.json").unlink()
    shutil.rmtree(selected)
    records = sorted((scores / "shards").iterdir())
    assert len(records) > 2
    for record in records[1:]:
        record.unlink()
    again = run(tmp_path / "again", stores)
    assert again["measures"] == finished[1]["measures"]
    assert again["stages"]["scores@mono.test"]["shards"]["reused"] == 1
    found = {p.relative_to(tmp_path): p.read_bytes() for p in tmp_path.rglob("stores/blobs/*/*")}
    assert all(found[name] == data for name, data in calm.items())


def test_whole_tokens_are_used_where_they_stand(finished, run, tmp_path):
    root, _ = finished
    run(
        tmp_path / "work",
        tmp_path / "stores",
        "models.duo.path=" + "minilm",
        tokens_of="mono",
        until="mono",
    )
    names = {p.name for p in (tmp_path / "stores").iterdir()}
    assert "tokens@mono" in names and "pieces@mono.test" not in names
    assert lines(tmp_path / "work", "mono") == lines(root / "work", "mono")


def test_frozen_refuses_another_k0_by_name(finished, run, tmp_path):
    root, _ = finished
    work = shutil.copytree(root / "work", tmp_path / "work")
    stores = shutil.copytree(root / "stores", tmp_path / "stores")
    assert run(work, stores, frozen=True)["exit"] == 0
    with pytest.raises(RefusedError, match=r"mono.test: params.k0 12 -> 9"):
        run(work, stores, "stages.mono.k0=9", frozen=True)


def test_a_model_of_the_other_kind_is_refused(run, tmp_path):
    with pytest.raises(InputError, match="duo is of kind duo.*write k1"):
        run(tmp_path / "work", tmp_path / "stores", "stages.mono.model=duo")
    with pytest.raises(
        InputError, match="expected a monoBERT or duoBERT model, found kind encoder"
    ):
        run(tmp_path / "work", tmp_path / "stores", "stages.mono.model=minilm")
