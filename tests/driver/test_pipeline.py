"""The main job through the inline backend: what is reused, rebuilt, refused and told."""

import json
import shutil

import numpy as np
import pytest
from recipes import invoke, stored
from stage_inputs import vectors_of

from raypipe.errors import InputError, RefusedError
from raypipe.evaluation.run_files.runs import read_run
from raypipe.storage.lease import acquire

RECIPE = """
format: 1
name: tiny
collection: {{format: msmarco-v1, input: {files}/passages.tsv}}
queries:
  test: {{file: {files}/queries.test.tsv, qrels: {files}/qrels.test.txt}}
models:
  tiny: {{path: {model}}}
stages:
  embeddings: {{do: encode, model: tiny}}
  dense: {{do: search, index: embeddings, depth: 50}}
  again: {{do: search, index: embeddings, depth: 20}}
  fused: {{do: fuse, runs: [dense, again], method: rrf, depth: 30}}
evaluate: {{measures: ["nDCG@10", "RR@10"], baseline: dense}}
resources: {{backend: inline, device: cpu, shard_tokens: 2000}}
"""


MODEL: list[object] = []


@pytest.fixture(scope="module", autouse=True)
def model(tiny_model):
    """The recipe's model, for every test here."""
    MODEL[:] = [tiny_model]


def pipeline(files, out, *overrides, **options):
    said = []
    text = RECIPE.format(files=files, model=MODEL[0])
    return invoke(text, out, *overrides, said=said, **options).summary, said


@pytest.fixture(scope="module")
def finished(small_files, tmp_path_factory):
    out = tmp_path_factory.mktemp("finished") / "work"
    summary, _ = pipeline(small_files, out)
    return out, summary


@pytest.fixture
def work(finished, tmp_path):
    out, _ = finished
    return shutil.copytree(out, tmp_path / "work", copy_function=shutil.copy2)


def rebuilt(summary):
    return {name for name, stage in summary["stages"].items() if not stage["reused"]}


@pytest.mark.slow
def test_a_finished_workspace_is_reused_wherever_it_is_moved(work, small_files):
    summary, said = pipeline(small_files, work)
    assert rebuilt(summary) == set()
    assert [line for line in said if "->" in line] == []


def test_dense_search_equals_numpy_on_the_stored_vectors(finished, small_files):
    out, summary = finished

    names = ("embeddings.test", "embeddings")
    queries, passages = (vectors_of(stored(out, summary, n)).astype(np.float64) for n in names)
    scores = (queries @ passages.T).astype(np.float32)
    ids, queries = (
        [line.split("\t")[0] for line in (small_files / name).read_text().split("\n")[:-1]]
        for name in ("passages.tsv", "queries.test.tsv")
    )
    run = read_run(out / "runs/test/dense.trec").to_pylist()
    for row, query in enumerate(queries):
        best = np.lexsort((np.arange(len(ids)), -scores[row]))[:50]
        assert [r["passage_id"] for r in run if r["query_id"] == query] == [ids[b] for b in best]


@pytest.mark.fault(
    21,
    "for each changed field exactly the stores that depend on it are built again, and it is told",
)
@pytest.mark.parametrize(
    ("override", "stores", "told"),
    [
        (
            "stages.again.depth=10",
            {"parts@again.test", "again.test", "fused.test"},
            "parts@again.test: params.depth 20 -> 10",
        ),
        ("stages.fused.depth=5", {"fused.test"}, "fused.test: params.depth 30 -> 5"),
        (
            "stages.fused.method=alternate",
            {"fused.test"},
            "fused.test: params.k 60.0 -> null; params.method rrf -> alternate",
        ),
        ("stages.fused.k=10", {"fused.test"}, "fused.test: params.k 60.0 -> 10.0"),
        ("evaluate.measures=['AP']", set(), None),
        ("resources.shard_tokens=500", set(), None),
        ("resources.threads=2", set(), None),
        ("resources.budget_tokens=300", set(), None),
    ],
)
def test_a_changed_field_rebuilds_exactly_what_depends_on_it(
    work, small_files, override, stores, told
):
    summary, said = pipeline(small_files, work, override)
    assert rebuilt(summary) == stores
    assert told is None or told in said


def test_changed_content_rebuilds_everything_that_reads_it(work, small_files, tmp_path):
    files = shutil.copytree(small_files, tmp_path / "files")
    with (files / "queries.test.tsv").open("a") as out:
        out.write("another\tanother query\n")
    summary, _ = pipeline(files, work)
    assert {"queries@test", "embeddings.test", "dense.test"} <= rebuilt(summary)
    assert "embeddings" not in rebuilt(summary)
    assert "passages@collection" not in rebuilt(summary)


@pytest.mark.fault(21, "`--frozen` refuses with the field and both values, before any work")
def test_frozen_refuses_a_changed_setting_before_any_work(work, small_files):
    before = sorted(work.glob("stores/*/*"))
    with pytest.raises(RefusedError, match=r"parts@again.test: params.depth 20 -> 7"):
        pipeline(small_files, work, "stages.again.depth=7", frozen=True)
    assert sorted(work.glob("stores/*/*")) == before
    assert json.loads((work / "summary.json").read_text())["exit"] == 4


def test_frozen_takes_changed_content(work, small_files, tmp_path):
    files = shutil.copytree(small_files, tmp_path / "files")
    with (files / "passages.tsv").open("a") as out:
        out.write("another#1\tanother passage\n")
    summary, _ = pipeline(files, work, frozen=True)
    assert "embeddings" in rebuilt(summary)


def test_until_computes_a_stage_and_its_inputs_alone(small_files, tmp_path):
    summary, _ = pipeline(small_files, tmp_path / "w", until="dense")
    assert "dense.test" in summary["stages"] and "again.test" not in summary["stages"]
    assert list(summary["systems"]["test"]) == ["dense"]


@pytest.mark.fault(13, "a second pipeline is refused, and the first named")
def test_a_workspace_in_use_is_refused(work, small_files):
    from raypipe.storage.root import open_storage

    held = acquire(open_storage(str(work)), "lease.json")
    with pytest.raises(RefusedError, match="working here"):
        pipeline(small_files, work)
    held.release()


def test_missing_inputs_are_all_told_before_any_work(tmp_path):
    with pytest.raises(InputError) as told:
        pipeline(tmp_path / "nowhere", tmp_path / "w")
    assert len(told.value.problems) == 3
    assert not (tmp_path / "w").exists()


@pytest.mark.fault(24, "exit 2 in the summary, and no store of ids")
def test_repeated_passage_ids_are_refused_and_told_in_the_summary(small_files, tmp_path):
    files = shutil.copytree(small_files, tmp_path / "files")
    text = (files / "passages.tsv").read_text()
    (files / "passages.tsv").write_text(text + text.split("\n")[0] + "\n")
    with pytest.raises(InputError, match=r"passages\.tsv: line 301"):
        pipeline(files, tmp_path / "w")
    summary = json.loads((tmp_path / "w" / "summary.json").read_text())
    assert (summary["status"], summary["exit"]) == ("failed", 2)
    assert not list((tmp_path / "w").glob("stores/ids@collection/*/manifest.json"))


@pytest.mark.slow
@pytest.mark.fault(29, "other shards and 1 or 3 workers: the same bytes in every run file")
@pytest.mark.parametrize("actors", [1, 3])
def test_shards_and_actors_change_no_run(finished, small_files, tmp_path, actors):
    out, _ = finished
    other = tmp_path / "w"
    pipeline(
        small_files,
        other,
        f"resources.actors={actors}",
        "resources.shard_tokens=700",
        "resources.shard_queries=7",
        "resources.shard_rows=41",
    )
    for name in ("dense", "again", "fused"):
        path = f"runs/test/{name}.trec"
        assert (other / path).read_bytes() == (out / path).read_bytes()
