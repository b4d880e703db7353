"""BM25 over an opened generation gives what the command gives, and cleans up behind itself."""

import tempfile
from pathlib import Path

import pytest

import raypipe
from raypipe.config.load import load_recipe
from raypipe.driver.execute import Watcher
from raypipe.driver.pipeline import Options, run_pipeline
from raypipe.driver.upkeep.status import generation_to_read
from raypipe.driver.verbs.single_stage import recipe_of, search_stage
from raypipe.errors import InputError

pytestmark = [pytest.mark.jvm, pytest.mark.slow]

QUERIES = {"1": "the zebra runs", "2": "a lease of shards"}
TEXTS = ["a zebra", "the lease", "zebra zebra run", "shards of a lease", "lease", "shards run on"]
RECIPE = """
format: 1
name: nightly
collection: {{format: msmarco-v1, input: {folder}/passages.tsv}}
queries:
  test: {{file: {folder}/queries.tsv}}
  train: {{file: {folder}/queries.tsv, qrels: {folder}/qrels.txt, report: false}}
models: {{tiny: {{path: {model}}}}}
stages:
  lucene: {{do: index}}
  vectors: {{do: encode, model: tiny}}
  bm25: {{do: search, index: lucene, depth: 2, bm25: {{k1: 2.0, b: 0.1}}}}
  tuned:
    do: search
    index: lucene
    bm25: {{tune: {{queries: train, measure: RR@10, k1: [0.2, 3.0], b: [0.1, 1.0]}}}}
  rm3: {{do: search, index: lucene, rm3: {{fb_terms: 3, original_query_weight: 0.2}}}}
resources: {{backend: inline, device: cpu}}
"""


@pytest.fixture(scope="module")
def work(tiny_model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("nights")
    (folder / "passages.tsv").write_text("".join(f"p{n}\t{t}\n" for n, t in enumerate(TEXTS)))
    (folder / "queries.tsv").write_text("".join(f"{q}\t{text}\n" for q, text in QUERIES.items()))
    (folder / "qrels.txt").write_text("1 0 p0 1\n2 0 p1 1\n")
    recipe = load_recipe(RECIPE.format(folder=folder, model=tiny_model), source="nightly")
    run_pipeline(recipe, folder / "work", Options(reindex=True), watcher=Watcher())
    return folder / "work"


@pytest.mark.parametrize("given", [{}, {"k1": 1.5}, {"b": 0.9, "depth": 1}])
def test_a_search_of_the_index_is_the_commands(work, tmp_path, given):
    bm25 = {key: value for key, value in given.items() if key != "depth"} or None
    stage = {"depth": given.get("depth"), "bm25": bm25}
    recipe = recipe_of(search_stage(work, work.parent / "queries.tsv", "lucene", **stage))
    inline = recipe.resources.model_copy(update={"backend": "inline"})
    recipe = recipe.model_copy(update={"resources": inline})
    options = Options(reading=generation_to_read(work, 1))
    run_pipeline(recipe, tmp_path / "found", options, watcher=Watcher())
    with raypipe.open_index(work) as index:
        raypipe.write_run(
            index.search(QUERIES, "lucene", **given), tmp_path / "mine.trec", tag="search"
        )
    expected = (tmp_path / "found" / "runs" / "queries" / "search.trec").read_bytes()
    assert (tmp_path / "mine.trec").read_bytes() == expected


def test_a_search_stage_brings_its_own_or_its_tuned_parameters(work):
    with raypipe.open_index(work) as index:
        own = index.run("bm25", "test")
        assert index.search(QUERIES, "bm25").equals(own) and len(own) == 4
        same = index.search(QUERIES, "lucene", depth=2, k1=2.0, b=0.1)
        assert same.equals(own) and not index.search(QUERIES, "bm25", k1=0.5).equals(own)
        assert not index.search(QUERIES, "bm25", b=0.9).equals(own)
        for one in ({"k1": 0.5}, {"b": 0.9}):
            both = {"k1": 2.0, "b": 0.1} | one
            whole = index.search(QUERIES, "lucene", depth=2, **both)
            assert index.search(QUERIES, "bm25", **one).equals(whole)
        assert index.search(QUERIES, "tuned").equals(index.run("tuned", "test"))
        expanded = index.run("rm3", "test")
        assert index.search(QUERIES, "rm3").equals(expanded)
        assert not index.search(QUERIES, "lucene", k1=0.9, b=0.4).equals(expanded)


def test_one_of_several_indexes_has_to_be_named_and_parameters_are_checked(work):
    with raypipe.open_index(work) as index:
        with pytest.raises(InputError, match="lucene, vectors, bm25, tuned, rm3; found none"):
            index.search(QUERIES)
        for parameter in ({"k1": -1}, {"b": 1.5}):
            with pytest.raises(InputError, match="expected a finite number from 0"):
                index.search(QUERIES, "lucene", **parameter)
        assert len(index.search([], "lucene")) == 0


def test_the_unpacked_index_is_removed_when_it_is_closed(work, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with raypipe.open_index(work) as index:
        index.search(QUERIES, "lucene")
        (unpacked,) = tmp_path.iterdir()
        index.search(QUERIES, "bm25")
        assert list(tmp_path.iterdir()) == [unpacked], "once an index"
        assert str(unpacked) in Path("/proc/self/maps").read_text()
    assert str(unpacked) not in Path("/proc/self/maps").read_text(), "Lucene has closed it"
    assert not unpacked.exists()
