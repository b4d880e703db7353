"""A small invocation through the inline backend: who is told, what is left, where it may end."""

import json
import os
import signal
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from raypipe.config import load_recipe
from raypipe.driver import pipeline
from raypipe.driver.machine.devices import Devices
from raypipe.driver.pipeline import Options, run_pipeline
from raypipe.driver.recipe import execute
from raypipe.driver.recipe.execute import Execution
from raypipe.driver.recipe.graph import Graph, Runs
from raypipe.driver.training import place as training_place
from raypipe.driver.upkeep.status import open_workspace
from raypipe.driver.upkeep.verify import verify
from raypipe.driver.verbs.single_stage import collection_of, recipe_of, search_recipe
from raypipe.driver.workspace import Workspace
from raypipe.errors import InputError, Interrupted, RefusedError
from raypipe.names import of_queries
from raypipe.storage.lease import lease_state
from raypipe.storage.root import ROOT_FORMAT

RECIPE = """
format: 1
name: small
collection: {{format: msmarco-v1, input: {folder}/passages.tsv}}
queries:
  dev: {{file: {folder}/queries.tsv, qrels: {folder}/qrels.txt, only_judged: true}}
  all: {{file: {folder}/queries.tsv, qrels: {folder}/qrels.txt}}
models: {{tiny: {{path: {model}}}, mono: {{path: {mono}, segment_row: zero}}}}
stages:
  vectors: {{do: encode, model: tiny}}
  dense: {{do: search, index: vectors, depth: 2}}
resources: {{backend: inline, device: cpu, shard_rows: 2, shard_tokens: 9}}
"""


class Watching:
    """What the watcher is told, in order; `act` is called at each commit."""

    def __init__(self, act=lambda store: None):
        self.told, self.act = [], act

    def began(self, store, report):
        self.told.append(("began", store, report.num_planned, report.num_reused))

    def advanced(self, store, report):
        self.told.append(("advanced", store, report.num_done))
        self.act(store)

    def ended(self, store, result):
        self.told.append(("ended", store, result.num_shards_reused, result.reused))


@pytest.fixture
def place(tmp_path, tiny_model, tiny_mono):
    """A folder with five passages and three queries, two of them judged; its recipe."""
    texts = ["the zebra", "a lease", "of shards", "rank a query", "run"]
    (tmp_path / "passages.tsv").write_text("".join(f"p{i}\t{t}\n" for i, t in enumerate(texts)))
    (tmp_path / "queries.tsv").write_text("q1\ta zebra\nq2\tthe lease\nq3\trun\n")
    (tmp_path / "qrels.txt").write_text("q1 0 p0 1\nq3 0 p4 1\n")
    text = RECIPE.format(folder=tmp_path, model=tiny_model, mono=tiny_mono)
    return tmp_path, load_recipe(text, source="small")


def test_a_watcher_hears_of_every_shard_and_nothing_unfinished_is_left(place):
    folder, recipe = place
    watching = Watching()
    summary = run_pipeline(recipe, folder / "w", Options(), watcher=watching).summary
    planned = summary["stages"]["vectors"]["shards"]["planned"]
    of_vectors = [told for told in watching.told if told[1] == "vectors"]
    assert planned > 1 and of_vectors == [
        ("began", "vectors", planned, 0),
        *(("advanced", "vectors", n + 1) for n in range(planned)),
        ("ended", "vectors", 0, False),
    ]
    stores = folder / "w" / "stores"
    assert (stores / ROOT_FORMAT).is_file()
    left = [p for name in ("tmp", "nonce") for p in (stores / name).rglob("*") if p.is_file()]
    assert left == [] and not [p for p in (folder / "w" / "tmp").rglob("*") if p.is_file()]
    storage = open_workspace(folder / "w").stores
    for store, stage in summary["stages"].items():
        assert lease_state(storage, f"{store}/{stage['fingerprint']}/lease.json").released
    for thread in [t for t in threading.enumerate() if t.name == "start backend"]:
        thread.join(10)
        assert not thread.is_alive()
    again = Watching()
    second = run_pipeline(recipe, folder / "w", Options(), watcher=again).summary
    assert ("ended", "vectors", planned, True) in again.told
    assert {told[0] for told in again.told} == {"ended"}
    assert second["stages"]["vectors"]["seconds"] == 0.0
    rows = {name: stage["rows"] for name, stage in summary["stages"].items()}
    assert (rows["queries@dev"], rows["queries@all"]) == (2, 3)  # the judged ones; all of them
    assert rows["vectors"] == 5


def test_an_interrupted_invocation_keeps_its_shards(place):
    folder, recipe = place

    def interrupt(store):
        if store == "vectors":
            os.kill(os.getpid(), signal.SIGINT)

    watching = Watching(interrupt)
    with pytest.raises(Interrupted, match="SIGINT: the same command resumes"):
        run_pipeline(recipe, folder / "w", Options(), watcher=watching)
    assert [told for told in watching.told if told[1] == "vectors"][-1][:2] == (
        "advanced",
        "vectors",
    )
    held = json.loads((folder / "w" / "summary.json").read_text())
    assert (held["status"], held["exit"]) == ("failed", 130)
    again = Watching()
    run_pipeline(recipe, folder / "w", Options(), watcher=again)
    (began,) = [told for told in again.told if told[:2] == ("began", "vectors")]
    (ended,) = [told for told in again.told if told[:2] == ("ended", "vectors")]
    assert began[3] == ended[2] >= 1 and ended[3] is False


def test_exactly_the_stages_asked_for_and_the_collections_word_pieces(place):
    folder, recipe = place
    options = Options(stages=(), tokens_of="tiny")
    outcome = run_pipeline(recipe, folder / "w", options, watcher=Watching())
    assert set(outcome.summary["stages"]) == {
        "count@collection", "passages@collection", "ids@collection", "tokens@tiny",
    }  # fmt: skip
    assert outcome.summary["systems"] == {} and outcome.table == ""
    assert not (folder / "w" / "table.md").exists()


def test_a_worker_of_another_version_is_refused(place, monkeypatch):
    folder, recipe = place
    monkeypatch.setattr(execute, "worker_facts", lambda: {"torch": "another"})
    with pytest.raises(InputError, match=r"vectors: a worker has torch .*another"):
        run_pipeline(recipe, folder / "w", Options(), watcher=Watching())


def test_a_collection_without_passages_is_refused(place):
    folder, recipe = place
    (folder / "passages.tsv").write_text("")
    with pytest.raises(InputError, match="expected passages, found no record|empty"):
        run_pipeline(recipe, folder / "w", Options(), watcher=Watching())


def test_damage_is_told_by_store_in_the_order_of_names(place):
    folder, recipe = place
    run_pipeline(recipe, folder / "w", Options(), watcher=Watching())
    names = []
    for store in ("vectors", "dense.dev", "ids@collection"):
        (manifest,) = (folder / "w" / "stores" / store).glob("*/manifest.json")
        manifest.chmod(0o644)
        manifest.write_text("{")
        names.append(str(manifest.relative_to(folder / "w" / "stores")))
    found = verify(open_workspace(folder / "w"))
    assert [damage.name for damage in found] == sorted(names)
    (plan,) = (folder / "w" / "stores" / "vectors").glob("*/plan.json")
    plan.chmod(0o644)
    plan.write_text("{")
    damage = verify(open_workspace(folder / "w"))[-1]
    assert damage.name == str(plan.relative_to(folder / "w" / "stores"))
    assert damage.remedy.startswith(f"delete the folder {Path(names[0]).parent} and run again")
    plan.unlink()  # not planned: nothing of it can be damaged
    assert len(verify(open_workspace(folder / "w"))) == 2


# Graphs


def test_a_recipes_model_has_its_third_row_and_is_resolved_once(place):
    _, recipe = place
    graph = Graph(recipe, ensure=None)
    found = graph.model("mono")
    assert found.reranker.segment_row == "zero" and graph.model("mono") is found
    assert Graph(recipe, ensure=None, models={"tiny": found}).model("tiny") is found


def test_stores_are_asked_for_once(place):
    _, recipe = place
    asked = []

    class Stopped(Exception):
        """Raised at the first store that a graph asks for."""

    def ensure(name, stage):
        asked.append(str(name))
        raise Stopped

    graph = Graph(recipe, ensure)
    for ask, first in (
        (graph.ids, "count@collection"),
        (lambda: graph.queries("dev"), "queries@dev"),
        (lambda: graph.index("vectors"), "count@collection"),
        (lambda: graph.run("dense", "dev", Runs()), "count@collection"),
        (lambda: graph.tokens("tiny", "all"), "queries@all"),
    ):
        with pytest.raises(Stopped):
            ask()
        assert asked.pop() == first and asked == []


def test_a_frozen_score_stage_is_compared_by_its_own_settings_alone(place):
    folder, recipe = place
    text = RECIPE.format(
        folder=folder, model=recipe.models["tiny"].path, mono=recipe.models["mono"].path
    )
    text = text.replace(
        "resources:", "  mono: {do: score, run: dense, model: mono, k0: 1}\nresources:"
    )
    run_pipeline(load_recipe(text, source="x"), folder / "w", Options(), watcher=Watching())
    frozen = Options(frozen=True)
    run_pipeline(load_recipe(text, source="x"), folder / "w", frozen, watcher=Watching())
    changed = load_recipe(text, overrides=["stages.mono.k0=2"], source="x")
    with pytest.raises(RefusedError) as told:
        run_pipeline(changed, folder / "w", frozen, watcher=Watching())
    assert str(told.value) == ("--frozen: mono.dev: params.k0 1 -> 2\nmono.all: params.k0 1 -> 2")


def test_nothing_may_fail_or_is_forbidden_unless_asked(tmp_path):
    execution = Execution(Workspace(tmp_path), None, None, None)
    assert (execution.max_failed_rows, execution.numerics_one) == (0, False)
    assert execution.may_run(of_queries("dev")) and execution.should_stop() is None
    assert (Options().frozen, Options().allow_open_cluster, Options().stages) == (
        False,
        False,
        None,
    )
    assert training_place.TrainOptions() == training_place.TrainOptions(None, False)
    assert Graph(None, None).compares_only is False and Graph(None, None).budget_tokens is None


# Devices and Ray


CUDA = Devices("cuda", 2, "H", 4, 6, 3, "2")


class Built(Exception):
    """Raised where a graph is built, to look at what it is built of."""


def test_a_gpu_is_needed_by_each_actor_where_there_is_one(place, monkeypatch):
    folder, recipe = place
    seen = []

    def graph(recipe, ensure, **given):
        seen.append((given["needs"].num_gpus, given["needs"].threads, given["budget_tokens"]))
        raise Built

    monkeypatch.setattr(pipeline, "Graph", graph)
    for device in (CUDA, Devices("cpu", 0, "", 0, 1, 2, "2")):
        monkeypatch.setattr(pipeline.devices, "choose", lambda *_, d=device, **__: d)
        with pytest.raises(Built):
            run_pipeline(recipe, folder / "w", Options(), watcher=Watching())
    assert seen == [(1.0, 3, None), (0.0, 2, None)]


@pytest.fixture
def ray(monkeypatch):
    """What is asked of Ray, which is not started."""
    from raypipe.cluster import ray_pool, ray_start

    asked = []

    def connect(address, *, allow_open=False):
        asked.append(("connect", address, allow_open))
        return {"CPU": 4.0}

    def local(**given):
        asked.append(("local", given))
        return "local"

    monkeypatch.setattr(ray_start, "connect", connect)
    monkeypatch.setattr(ray_start, "start_local", local)
    monkeypatch.setattr(ray_pool, "RayBackend", lambda **given: asked.append(("backend", given)))
    monkeypatch.setattr(pipeline.devices, "num_cores", lambda: 5)
    return asked


def test_a_cluster_is_joined_and_one_of_our_own_is_begun(ray):
    def recipe(**resources):
        return SimpleNamespace(
            resources=SimpleNamespace(
                **{"gpus": "all", "actors": "auto", "threads": 2, "device": "auto",
                   "backend": "ray", "workers": 4, **resources}
            )
        )  # fmt: skip

    joined = Options(ray_address="x:1", allow_open_cluster=True)
    assert pipeline._devices(recipe(), joined).num_actors == 2  # 4 cores, 2 threads each
    pipeline._devices(recipe(), Options(ray_address="x:1"))
    pipeline._start(recipe(), CUDA, joined)
    pipeline._start(recipe(), CUDA, Options())
    assert ray == [
        ("connect", "x:1", True), ("connect", "x:1", False), ("backend", {"threads": 3}),
        ("local", {"num_cpus": 6, "num_gpus": 2, "threads": 3}),
        ("backend", {"threads": 3, "local": "local"}),
    ]  # fmt: skip
    ray.clear()
    options = training_place.TrainOptions(ray_address="x:1", allow_open_cluster=True)
    assert training_place.devices_of(recipe(), options).num_actors == 2
    training_place.started(recipe(), CUDA, options)
    training_place.started(recipe(), CUDA, training_place.TrainOptions())
    training_place.started(recipe(workers=1), CUDA, training_place.TrainOptions())
    assert ray == [
        ("connect", "x:1", True), ("backend", {"threads": 3}),
        ("local", {"num_cpus": 8, "num_gpus": 2, "threads": 3}),
        ("backend", {"threads": 3, "local": "local"}),
        ("local", {"num_cpus": 5, "num_gpus": 2, "threads": 3}),
        ("backend", {"threads": 3, "local": "local"}),
    ]  # fmt: skip


# Recipes of verbs


@pytest.mark.parametrize(
    ("names", "form"),
    [
        (["corpus.jsonl.gz", "queries.jsonl"], "beir"),
        (["a.tsv.gz", "notes.md"], "msmarco-v1"),
        (["a.json", "b.txt"], "pyserini"),
        (["corpus.json"], "pyserini"),
        (["notes.md"], None),
        ([], None),
    ],
)
def test_a_folders_files_tell_its_format(tmp_path, names, form):
    folder = tmp_path / "c"
    folder.mkdir()
    for name in names:
        (folder / name).touch()
    if form is None:
        with pytest.raises(InputError, match="nothing tells its format"):
            collection_of(folder)
    else:
        found = collection_of(folder)
        assert found == {"collection": {"format": form, "input": str(folder)}}
    (tmp_path / "corpus.jsonl").touch()  # a file: no BEIR folder
    assert collection_of(tmp_path / "corpus.jsonl")["collection"]["format"] == "pyserini"
    with pytest.raises(InputError, match="no such collection"):
        collection_of(tmp_path / "none")


def test_a_recipe_of_a_verb_names_where_it_came_from(tmp_path):
    keys = {"collection": {"format": "msmarco-v1", "input": "/c/p.tsv"}}
    found = recipe_of(keys, {"lucene": {"do": "index"}}, queries={}, evaluate=None)
    assert (found.format, found.name, found.queries, found.evaluate) == (1, "single", {}, None)
    with pytest.raises(InputError, match="the command line"):
        recipe_of(keys, {"lucene": {"do": "nothing"}})
    folder = tmp_path / "w"
    folder.mkdir()
    body = {**keys, "format": 1, "name": "x", "stages": {"r": {"do": "read", "runs": {}}}}
    (folder / "recipe.yaml").write_text(json.dumps(body))
    with pytest.raises(InputError, match="it has none; name one with --model"):
        search_recipe(folder, tmp_path / "q.tsv", model=None, depth=5, k1=None, b=None)
