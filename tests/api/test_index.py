"""Generations opened in this process give what the commands give, and are held meanwhile."""

import gc
import shutil

import pytest
from loaded_packages import loaded_after

import raypipe
from raypipe.config.load import load_recipe
from raypipe.driver.execute import Watcher
from raypipe.driver.generations.past import history
from raypipe.driver.pipeline import Options, run_pipeline
from raypipe.driver.upkeep.status import generation_to_read
from raypipe.driver.verbs.single_stage import (
    model_of,
    recipe_of,
    score_stage,
    search_stage,
)
from raypipe.driver.workspace import Workspace
from raypipe.errors import IncompleteError, InputError
from raypipe.storage.generations import newest_generation, reader_leases, retire
from raypipe.storage.records import seal, unseal

QUERIES = {"1": "the zebra", "2": "a lease"}
FIRST = ["the zebra", "a lease", "of shards", "rank a query", "run"]
SECOND = ["run the zebra", *FIRST[1:], "the zebra"]
RECIPE = """
format: 1
name: nightly
collection: {{format: msmarco-v1, input: {folder}/passages.tsv}}
queries: {{test: {{file: {folder}/queries.tsv}}}}
models: {{tiny: {{path: {folder}/model}}}}
stages:
  vectors: {{do: encode, model: tiny}}
  dense: {{do: search, index: vectors, depth: 2}}
  whole: {{do: search, index: vectors, depth: 9}}
  fused: {{do: fuse, runs: [dense, whole], method: rrf, depth: 4}}
resources: {{backend: inline, device: cpu}}
"""


def run_inline(recipe, out, work, number=None):
    """What the commands search and score do with these recipes, without a Ray of their own."""
    resources = recipe.resources.model_copy(update={"backend": "inline"})
    options = Options(reading=generation_to_read(work, number))
    inline = recipe.model_copy(update={"resources": resources})
    run_pipeline(inline, out, options, watcher=Watcher())
    return out / "runs" / "queries"


def searched(nights, out, number=None):
    recipe = recipe_of(search_stage(nights / "work", nights / "queries.tsv", None))
    return run_inline(recipe, out, nights / "work", number)


@pytest.fixture(scope="module")
def nights(tiny_model, tmp_path_factory):
    """A folder with two generations in `work`, and no collection file any more."""
    folder = tmp_path_factory.mktemp("nights")
    shutil.copytree(tiny_model, folder / "model")
    (folder / "queries.tsv").write_text("".join(f"{q}\t{text}\n" for q, text in QUERIES.items()))
    recipe = load_recipe(RECIPE.format(folder=folder), source="nightly")
    for texts in (FIRST, SECOND):
        lines = (f"p{number}\t{text}\n" for number, text in enumerate(texts))
        (folder / "passages.tsv").write_text("".join(lines))
        run_pipeline(recipe, folder / "work", Options(reindex=True), watcher=Watcher())
    (folder / "passages.tsv").unlink()
    return folder


@pytest.fixture
def copied(nights, tmp_path):
    """Its workspace, to be damaged."""
    return shutil.copytree(nights / "work", tmp_path / "work", copy_function=shutil.copy2)


@pytest.mark.parametrize("number", [1, 2, None])
def test_a_search_is_the_commands(nights, tmp_path, number):
    runs = searched(nights, tmp_path / "found", number)
    with raypipe.open_index(nights / "work", number) as index:
        assert (index.name, index.number) == ("nightly", number or 2)
        assert index.num_passages == {1: 5, 2: 6}[index.number]
        found = index.search(QUERIES)
        raypipe.write_run(found, tmp_path / "mine.trec", tag="search")
        raypipe.write_run(index.search(QUERIES, "vectors", depth=3), tmp_path / "3.tsv")
    whole = (runs / "search.trec").read_bytes()
    assert (tmp_path / "mine.trec").read_bytes() == whole and len(found) == 2 * index.num_passages
    lines = (line.split() for line in whole.decode().splitlines())
    first = [f"{query}\t{found}\t{rank}" for query, _, found, rank, *_ in lines if int(rank) <= 3]
    assert (tmp_path / "3.tsv").read_text().splitlines() == first


def test_a_search_stage_brings_its_own_depth_and_published_runs_are_read(nights):
    with raypipe.open_index(nights / "work") as index:
        dense = index.run("dense", "test")
        assert index.search(QUERIES, "dense").equals(dense) and len(dense) == 4
        assert index.search(QUERIES, "dense", depth=1)["rank"].to_pylist() == [1, 1]
        assert index.search(QUERIES).equals(index.run("whole", "test"))
        assert len(index.run("fused", "test")) == 8
        trec = raypipe.read_run(nights / "work" / "runs" / "test" / "dense.trec")
        assert dense["passage_id"].equals(trec["passage_id"])
    with raypipe.open_index(nights / "work", 1) as older:
        assert not older.run("dense", "test").equals(dense)
        for stage, queries in (("dense", "dev"), ("vectors", "test"), ("none", "test")):
            with pytest.raises(
                InputError, match=rf"generation 1 of nightly has no run of '{stage}'"
            ):
                older.run(stage, queries)


def test_it_says_what_it_holds(nights):
    with raypipe.open_index(str(nights / "work")) as index:
        searches = {"dense": "search", "whole": "search"}
        assert index.stages == {"vectors": "encode", **searches, "fused": "fuse"}
        told = history(Workspace(nights / "work").stores, "nightly")
        assert {"number": 2, **index.facts} == told[-1]
        assert (index.facts["added"], index.facts["changed"]) == (1, 1)
        assert repr(index) == "<generation 2 of nightly>"
    assert repr(index) == "<generation 2 of nightly, closed>"


def test_passages_come_once_in_the_order_of_the_collection(nights):
    with raypipe.open_index(nights / "work") as index:
        assert list(index.passages(["p4", "p0", "p4"]).items()) == [
            ("p0", "run the zebra"),
            ("p4", "run"),
        ]
        run = index.search(["run"], depth=6)
        assert list(index.passages(run["passage_id"]).values()) == SECOND
        assert index.passages([]) == {}
        with pytest.raises(InputError, match="2 ids are not in generation 2 of nightly: x, P0$"):
            index.passages(["x", "p0", "P0", "x"])
        with pytest.raises(InputError, match="put it in a list"):
            index.passages("p0")
    with raypipe.open_index(nights / "work", 1) as index:
        assert index.passages(["p0"]) == {"p0": "the zebra"}


def test_candidates_are_reranked_as_in_a_pipeline(nights, tiny_mono, tmp_path):
    """Without the order of the collection, ties would be broken by id."""
    with raypipe.open_index(nights / "work") as index:
        found = index.search(QUERIES, depth=4)
        texts = index.passages(found["passage_id"])
        mine = raypipe.rerank(found, QUERIES, texts, tiny_mono, k=3)
    raypipe.write_run(found, tmp_path / "found.parquet")
    files = tmp_path / "found.parquet", nights / "work", nights / "queries.tsv"
    stage = score_stage(*files, model_of(str(tiny_mono), None), None, k0=3)
    runs = run_inline(recipe_of(stage), tmp_path / "scored", nights / "work")
    raypipe.write_run(mine, tmp_path / "mine.trec", tag="score")
    assert (tmp_path / "mine.trec").read_bytes() == (runs / "score.trec").read_bytes()


def leases(work, number):
    return reader_leases(Workspace(work).stores, "nightly", number)


def test_it_is_held_until_it_is_closed_or_forgotten(copied):
    with raypipe.open_index(copied) as index:
        assert len(leases(copied, 2)) == 1 and leases(copied, 1) == []
        with raypipe.open_index(copied):
            assert len(leases(copied, 2)) == 2
    assert leases(copied, 2) == []
    index.close()
    calls = (
        lambda: index.search(QUERIES),
        lambda: index.run("dense", "test"),
        lambda: index.passages(["p0"]),
    )
    for call in calls:
        with pytest.raises(InputError, match="generation 2 of nightly: closed; open it again"):
            call()
    forgotten = raypipe.open_index(copied, 1)
    assert len(leases(copied, 1)) == 1
    del forgotten
    gc.collect()
    assert leases(copied, 1) == []


def test_what_cannot_be_opened_leaves_no_lease(copied, tmp_path):
    with pytest.raises(InputError, match=r"no workspace"):
        raypipe.open_index(tmp_path)
    for number, message in ((3, "there are: 1, 2"), (0, "whole number from 1"), (True, "whole")):
        with pytest.raises(InputError, match=message):
            raypipe.open_index(copied, number)
    retire(Workspace(copied).stores, "nightly", 1)
    with pytest.raises(InputError, match="generation 1 of nightly: it is gone"):
        raypipe.open_index(copied, 1)
    recipe = copied / "recipe.yaml"
    recipe.write_text(recipe.read_text().replace("do: fuse", "do: nothing"))
    with pytest.raises(InputError, match="nothing"):
        raypipe.open_index(copied)
    assert leases(copied, 2) == []


def test_what_cannot_be_searched_is_refused(nights):
    with raypipe.open_index(nights / "work") as index:
        for stage in ("fused", "lucene", ""):
            with pytest.raises(
                InputError, match=rf"searched, vectors, dense, whole; found '{stage}'"
            ):
                index.search(QUERIES, stage)
        for more in ({"k1": 1.0}, {"b": 0.5}):
            with pytest.raises(InputError, match="for BM25, and dense searches embeddings"):
                index.search(QUERIES, "dense", **more)
        with pytest.raises(InputError, match="depth: expected a whole number from 1"):
            index.search(QUERIES, depth=0)
        with pytest.raises(InputError, match="query texts: found one text"):
            index.search("the zebra")
        assert len(index.search([])) == 0


def test_stages_that_the_recipe_has_gained_since_are_not_there(copied):
    recipe = copied / "recipe.yaml"
    late = "  more: {do: encode, model: tiny}\n  late: {do: search, index: more}\n"
    recipe.write_text(recipe.read_text().replace("stages:\n", f"stages:\n{late}"))
    with raypipe.open_index(copied) as index:
        assert list(index.stages) == ["vectors", "dense", "whole", "fused"]
        assert len(index.search(QUERIES)) == 12
        for stage in ("more", "late"):
            with pytest.raises(InputError, match=f"vectors, dense, whole; found '{stage}'"):
                index.search(QUERIES, stage)


def test_passages_in_quarantine_are_not_found(copied):
    newest = newest_generation(Workspace(copied).stores, "nightly")
    file = copied / "stores" / "vectors" / newest.stores["vectors"] / "manifest.json"
    body = unseal("manifest.json", file.read_bytes())
    file.chmod(0o644)
    file.write_bytes(seal({**body, "skipped_rows": [1]}))
    with raypipe.open_index(copied) as index:
        found = index.search(["a lease"], depth=6)["passage_id"].to_pylist()
    assert sorted(found) == ["p0", "p2", "p3", "p4", "p5"]


def test_a_store_that_is_gone_is_named(copied):
    shutil.rmtree(copied / "stores" / "ids@collection")
    with raypipe.open_index(copied) as index:
        assert len(index.search(QUERIES)) == 12
        with pytest.raises(IncompleteError, match="its store ids@collection was deleted"):
            index.passages(["p0"])


def test_a_model_that_has_changed_since_is_refused_by_name_and_by_the_command(
    copied, nights, tiny, tmp_path
):
    other = tiny.make_tiny_bert(tmp_path / "other", seed=5)
    recipe = copied / "recipe.yaml"
    recipe.write_text(recipe.read_text().replace(str(nights / "model"), str(other)))
    with raypipe.open_index(copied) as index:
        message = r"vectors/\w{32}: the model differs .*params.weights_sha256 \w{12} -> \w{12}"
        with pytest.raises(InputError, match=message):
            index.search(QUERIES)
    (tmp_path / "queries.tsv").write_text("1\ta lease\n")
    with pytest.raises(InputError, match="the model differs"):
        searched(tmp_path, tmp_path / "found")


@pytest.mark.slow
def test_it_needs_neither_ray_nor_java_and_a_process_that_ends_gives_it_up(nights):
    code = f"""
import raypipe, sys
index = raypipe.open_index({str(nights / "work")!r})
index.run("dense", "test"), index.passages(["p0"])
assert not {{"torch", "faiss"}} & set(sys.modules)
assert len(index.search(["a zebra"])) == 6
"""
    assert loaded_after(code, "ray", "jnius", "torch") == ["torch"]
    assert leases(nights / "work", 2) == []
