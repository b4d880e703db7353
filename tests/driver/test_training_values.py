"""What a training asks for before it begins and tells while it runs, by hand."""

import json
import shutil
from types import SimpleNamespace

import pytest

from raypipe.config import load_recipe, load_training
from raypipe.data.python_docs.build import PythonDocs
from raypipe.driver.machine import devices
from raypipe.driver.machine.devices import Devices
from raypipe.driver.recipe import builtin
from raypipe.driver.recipe.builtin import with_files
from raypipe.driver.training import log, place, train, triple_sets
from raypipe.driver.training.log import Follower
from raypipe.driver.training.parts import model_name, parts_recipe, runs_of
from raypipe.driver.training.place import (
    TrainOptions,
    check_fits,
    devices_of,
    start_model,
    started,
    threads_of,
)
from raypipe.driver.training.train import _seen_at_start
from raypipe.driver.training.triple_sets import with_ids
from raypipe.errors import InputError
from raypipe.models.folder.loading import resolve_model
from raypipe.storage.posix import PosixStorage
from raypipe.training.checkpoints.history import History
from raypipe.training.progress import write_progress

BODY = {
    "format": 1, "name": "mine",
    "model": {"start": "/m/start", "preset": "monobert", "query_limit": 12, "total_limit": 64},
    "collections": {
        "docs": {"format": "msmarco-v1", "input": "/c/docs.tsv"},
        "more": {"format": "msmarco-v1", "input": "/c/more.tsv"},
    },
    "train": {
        "a": {"collection": "docs", "queries": "/c/q.tsv", "qrels": "/c/qrels.txt",
              "negatives": {"runs": ["/c/1.trec", "/c/2.trec"]}, "teacher": "/c/t.trec"},
        "b": {"collection": "more", "queries": "/c/q.tsv", "triples": "/c/triples.tsv"},
    },
    "dev": {"d": {"collection": "docs", "queries": "/c/d.tsv", "qrels": "/c/d.txt",
                  "run": "/c/d.trec"}},
    "loss": {"name": "cross-entropy"}, "optimiser": {"warmup": 2}, "steps": 100, "batch": 64,
    "validate": {"every": 4},
    "resources": {"backend": "inline"},
}  # fmt: skip


def recipe(**changes):
    body = json.loads(json.dumps(BODY))
    for key, value in changes.items():
        body[key] = {**body[key], **value} if isinstance(body.get(key), dict) else value
    return load_training(json.dumps(body), source="mine")


# Parts


def test_a_collections_part_of_a_training_is_a_recipe_of_its_own():
    found = parts_recipe(recipe(), "docs")
    assert found.collection.input == ("/c/docs.tsv",)
    assert {name: (q.file, q.qrels, q.only_judged) for name, q in found.queries.items()} == {
        "train-a": ("/c/q.tsv", "/c/qrels.txt", True), "dev-d": ("/c/d.tsv", "/c/d.txt", True),
    }  # fmt: skip
    runs = {name: stage.runs for name, stage in found.stages.items() if stage.do == "read"}
    assert runs == {
        "train-a-run-0": {"train-a": "/c/1.trec"}, "train-a-run-1": {"train-a": "/c/2.trec"},
        "train-a-teacher": {"train-a": "/c/t.trec"}, "dev-d-run": {"dev-d": "/c/d.trec"},
    }  # fmt: skip
    assert {name: model.path for name, model in found.models.items()} == {"start": "/m/start"}
    other = parts_recipe(recipe(), "more")
    assert {name: (q.file, q.qrels, q.only_judged) for name, q in other.queries.items()} == {
        "train-b": ("/c/q.tsv", None, False)
    }
    assert [stage.do for stage in other.stages.values()] == ["index"]
    assert list(runs_of(recipe().train["a"])) == ["/c/1.trec", "/c/2.trec"]
    assert list(runs_of(recipe().train["b"])) == []
    assert model_name(recipe(model={"start": "minilm"})) == "minilm"
    assert model_name(recipe()) == "start"


def test_triples_of_texts_are_split_once_and_anew_when_they_change(tmp_path, monkeypatch):
    texts = tmp_path / "t.tsv"
    texts.write_text("a query\tyes\tno\na query\tno\tother\n")
    given = {"train": {"c": {"texts": str(texts)}}}
    split = []
    whole = triple_sets.split_triples
    monkeypatch.setattr(
        triple_sets, "split_triples", lambda *args: (split.append(args), whole(*args))
    )
    for _ in range(2):
        found = with_ids(recipe(**given), tmp_path / "w")
        own = tmp_path / "w" / "c"
        wanted = found.train["c"]
        assert (wanted.texts, wanted.collection) == (None, "c")
        assert (wanted.queries, wanted.triples) == (
            str(own / "queries.tsv"),
            str(own / "triples.tsv"),
        )
        assert found.collections["c"].input == (str(own / "passages.tsv"),)
        assert found.train["a"] == recipe().train["a"] and len(found.collections) == 3
    assert len(split) == 1
    assert (own / "triples.tsv").read_text() == "0\t0\t1\n0\t1\t2\n"
    texts.write_text("b query\tyes\tno\n")
    with_ids(recipe(**given), tmp_path / "w")
    assert len(split) == 2 and (own / "queries.tsv").read_text() == "0\tb query\n"
    texts.write_text("torn\n")
    with pytest.raises(InputError):
        with_ids(recipe(**given), tmp_path / "w")
    assert not (own / "made-from.json").exists()  # what stands is of no file now


DOCS = """
format: 1
name: docs
collection: {format: python-docs, max_passages: 7}
queries: {dev: {builtin: dev}, own: {file: /c/q.tsv}}
stages: {lucene: {do: index}}
"""


def test_the_embedded_collection_is_written_once_for_one_python_and_size(tmp_path, monkeypatch):
    made = []

    def drafted(*, max_passages, packages):
        made.append((max_passages, packages))
        return PythonDocs

    def write(folder, docs):
        folder.mkdir(exist_ok=True)
        (folder / "collection.tsv").write_text(f"{len(made)}\tx\n")

    monkeypatch.setattr(builtin, "python_docs", drafted)
    monkeypatch.setattr(builtin, "write_python_docs", write)
    for _ in range(2):
        found = with_files(load_recipe(DOCS, source="x"), tmp_path / "d")
    assert made == [(7, [])]
    assert (found.collection.format, found.collection.input) == (
        "msmarco-v1",
        (str(tmp_path / "d" / "passages.tsv"),),
    )
    dev, own = found.queries["dev"], found.queries["own"]
    assert dev.file == str(tmp_path / "d" / "queries.dev.tsv")
    assert dev.qrels == str(tmp_path / "d" / "qrels.dev.txt")
    assert (own.file, own.qrels) == ("/c/q.tsv", None)
    assert not (tmp_path / "d" / "collection.tsv").exists()
    packages = tmp_path / "p"
    (packages / "b").mkdir(parents=True)
    (packages / "a").mkdir()
    more = [f"collection.input=[{packages}]"]
    for _ in range(2):
        with_files(load_recipe(DOCS, overrides=more, source="x"), tmp_path / "d")
    assert made[1:] == [(7, [packages])]
    note = json.loads((tmp_path / "d" / "made-by.json").read_text())
    assert note["packages"] == {str(packages): ["a", "b"]} and note["max_passages"] == 7
    (packages / "c").mkdir()
    with_files(load_recipe(DOCS, overrides=more, source="x"), tmp_path / "d")
    with_files(load_recipe(DOCS, source="x"), tmp_path / "d")
    with_files(
        load_recipe(DOCS, overrides=["collection.max_passages=8"], source="x"), tmp_path / "d"
    )
    assert made[2:] == [(7, [packages]), (7, []), (8, [])]
    assert (tmp_path / "d" / "passages.tsv").read_text() == "5\tx\n"
    shutil.rmtree(packages)
    with pytest.raises(InputError, match="expected a folder with installed packages"):
        with_files(load_recipe(DOCS, overrides=more, source="x"), tmp_path / "d")


# Before any work


@pytest.mark.parametrize(
    ("there", "changes", "told"),
    [
        (False, {}, "no such file"),
        (True, {"model": {"query_limit": 70}}, "model.total_limit"),
        (True, {"validate": {"measure": "nonsense@7"}}, "nonsense"),
    ],
)
def test_what_contradicts_itself_is_told_before_a_folder_is_made(
    tmp_path, monkeypatch, there, changes, told
):
    if there:
        monkeypatch.setattr(train, "missing_training_inputs", lambda recipe: [])
    with pytest.raises(InputError, match=told):
        given = recipe(**changes)
        train.run_training(given, tmp_path / "w", watcher=None, say=lambda line: None)
    assert not (tmp_path / "w").exists()


# Place


def chosen(device="cpu", gpus=0, threads=3):
    return Devices(device, gpus, "", gpus, 1, threads, "2")


HERE, THERE = TrainOptions(), TrainOptions(ray_address="x:1")
TINY = SimpleNamespace(adapter=None, config=lambda: {"max_position_embeddings": 64})


def test_inputs_exactly_as_long_as_the_model_fit():
    check_fits(recipe(), TINY, chosen(), HERE)
    with pytest.raises(InputError, match="limits allow 65 tokens, /m/start has 64 positions"):
        check_fits(recipe(model={"total_limit": 65}), TINY, chosen(), HERE)
    encoder = {"start": "/m/start", "preset": "repbert", "total_limit": None}
    for limits, good in (((62, 8), True), ((8, 62), True), ((63, 8), False), ((8, 63), False)):
        given = {**encoder, "query_limit": limits[0], "passage_limit": limits[1]}
        if good:
            check_fits(recipe(model=given, loss={"name": "pairwise-hinge"}), TINY, chosen(), HERE)
        else:
            with pytest.raises(InputError, match="allow 65 tokens"):
                check_fits(
                    recipe(model=given, loss={"name": "pairwise-hinge"}), TINY, chosen(), HERE
                )


def test_workers_are_no_more_than_the_gpus_of_this_machine():
    two = recipe(resources={"backend": "ray", "workers": 2})
    check_fits(two, TINY, chosen("cuda", 2), HERE)
    check_fits(two, TINY, chosen("cpu"), HERE)
    check_fits(two, TINY, chosen("cuda", 1), THERE)  # a cluster may have more
    with pytest.raises(InputError, match="resources.workers: 2 asked for, 1 GPUs are here"):
        check_fits(two, TINY, chosen("cuda", 1), HERE)


def test_an_adapter_is_not_trained_over_another():
    over = SimpleNamespace(adapter="a", config=TINY.config)
    check_fits(recipe(), over, chosen(), HERE)
    trained = recipe(model={"adapter": {"rank": 4}})
    check_fits(trained, TINY, chosen(), HERE)
    with pytest.raises(InputError, match="is an adapter itself"):
        check_fits(trained, over, chosen(), HERE)


@pytest.mark.parametrize(
    ("resources", "gpus", "options", "expected"),
    [
        ({}, 0, HERE, 12),
        ({"backend": "ray", "workers": 5}, 0, HERE, 2),
        ({"backend": "ray", "workers": 2}, 5, HERE, 2),
        ({"workers": 1}, 4, HERE, 3),
        ({"backend": "ray", "workers": 50}, 0, HERE, 1),
        ({"backend": "ray", "threads": 7, "workers": 5}, 0, THERE, 7),
        ({"backend": "ray"}, 0, THERE, 3),
        ({"backend": "ray"}, 0, HERE, 12),
        ({}, 0, THERE, 12),
    ],
)
def test_cores_are_shared_among_the_workers(monkeypatch, resources, gpus, options, expected):
    monkeypatch.setattr(devices, "num_cores", lambda: 12)
    given = recipe(resources={"backend": "inline", **resources})
    assert threads_of(given, chosen(gpus=gpus), options) == expected


def test_an_inline_training_is_here_whatever_the_cluster(monkeypatch):
    given = recipe(resources={"backend": "inline", "device": "cpu", "threads": 2})
    found = devices_of(given, THERE)
    assert (found.device, found.threads) == ("cpu", 2) and found.num_actors >= 1
    backend = started(given, chosen(threads=5), THERE)
    assert (type(backend).__name__, backend._device, backend._threads) == (
        "InlineBackend",
        "cpu",
        5,
    )
    none = Devices("cuda", 0, "", 0, 0, 1, "2")
    monkeypatch.setattr(devices, "choose", lambda device, threads: none)
    assert devices_of(given, HERE).num_actors == 1


def test_a_start_has_the_recipes_conventions_unless_it_is_packaged(tiny_model, monkeypatch):
    asked = []
    monkeypatch.setattr(place, "resolve_model", lambda *args: asked.append(args))
    start_model(recipe(model={"start": str(tiny_model)}))
    start_model(recipe(model={"start": "minilm"}))
    start_model(recipe(model={"start": "minilm-mono"}))
    assert asked == [(str(tiny_model), "monobert"), ("minilm", None), ("minilm-mono", None)]


def test_what_the_start_had_seen_is_its_own_word_or_its_adapters(tmp_path):
    def seen(start, adapter=None):
        model = SimpleNamespace(adapter=adapter)
        job = SimpleNamespace(start=resolve_model(start), recipe=SimpleNamespace(model=model))
        return _seen_at_start(job)

    base = seen("minilm")
    assert base.startswith("1B pairs")
    assert seen("minilm", SimpleNamespace(start=None)) == base
    folder = tmp_path / "a"
    folder.mkdir()
    told = f"{base}; then what {folder} does not tell"
    assert seen("minilm", SimpleNamespace(start=str(folder))) == told
    (folder / "raypipe.json").write_text('{"start_weights_saw": "books"}')
    assert seen("minilm", SimpleNamespace(start=str(folder))) == "books"
    assert "docs" in seen("minilm", SimpleNamespace(start="minilm-mono"))


# Progress


def step(number, tokens=300, seconds=0.5):
    return {
        "step": number, "loss": 0.25, "rate": 0.001, "gradient_norm": 1.5, "tokens": tokens,
        "seconds": seconds,
    }  # fmt: skip


@pytest.fixture
def job(tmp_path):
    given = recipe(steps=2000, validate={"every": 1000})
    return SimpleNamespace(
        storage=PosixStorage(tmp_path / "s"), folder="weights@mine/f", recipe=given
    )


def test_a_follower_tells_a_step_every_ten_seconds_and_every_measurement(
    job, tmp_path, monkeypatch
):
    now = [100.0]
    monkeypatch.setattr(log.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(log, "LOOK_SECONDS", 3600.0)
    said = []
    write_progress(job, step(1))  # of an earlier invocation: a point, no line
    follower = Follower(job, tmp_path / "train", said.append)
    with follower:
        follower.write(step(1001))
        follower.write(step(1002))
        follower._look()
        now[0] = 110.0
        follower.write(step(1003))
        follower._look()
        now[0] = 110.1
        follower.write(step(1004))
        follower.write({"step": 1004, "note": "resumed"})
        follower.write({"step": 1004, "measure": "nDCG@10", "mean": 0.5, "of": {"d": 0.5}})
        follower._look()
    assert said == [
        "train: step 1,001 of 2,000: loss 0.2500, rate 1.00e-03, gradient 1.50, 600 tokens/s",
        "train: step 1,004 of 2,000: loss 0.2500, rate 1.00e-03, gradient 1.50, 600 tokens/s",
        "train: step 1,004: resumed",
        "train: step 1,004: nDCG@10 d 0.5000",
    ]
    lines = (tmp_path / "train" / "progress.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in lines] == [1, 1001, 1002, 1003, 1004, 1004]


def test_a_measurement_without_a_line_of_its_own_is_a_point_in_the_end(job, tmp_path):
    history = History(job.storage, job.folder, job.recipe.validate_, job.recipe.steps)
    history.add(1000, [0.25])
    said = []
    with Follower(job, tmp_path / "train", said.append) as follower:
        follower.write(step(999, tokens=10, seconds=0.0))
    assert len(said) == 1 and said[0].endswith(", 10,000 tokens/s")  # over a millisecond at least
    lines = (tmp_path / "train" / "progress.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [
        step(999, tokens=10, seconds=0.0),
        {"step": 1000, "measure": "nDCG@10", "mean": 0.25, "of": {"d": 0.25}},
    ]
