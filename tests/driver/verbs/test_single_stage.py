import json
from pathlib import Path

import pytest
from held_recipe import HELD

from raypipe.driver.verbs.single_stage import (
    aggregate_recipe,
    collection_of,
    model_of,
    recipe_of,
    score_recipe,
    search_recipe,
    split_of,
    stage_to_search,
)
from raypipe.errors import InputError
from raypipe.kinds.score import DuoScore, MonoScore
from raypipe.kinds.search import DenseSearch


def test_documents_are_split_as_the_paper_does_and_passages_are_not_split():
    keys = {"collection": {"format": "msmarco-doc-v1", "input": "d.tsv"}}
    keys["collection"] |= split_of("msmarco-doc-v1")
    assert recipe_of(keys, {}).collection.split.length == 100
    assert split_of("msmarco-v1") == {}


def test_a_collection_is_a_workspaces_or_told_by_its_files(held, tmp_path):
    folder = held()
    assert collection_of(folder) == {
        "collection": HELD["collection"],
        "stores": str(folder / "stores"),
    }
    assert collection_of(held(stores="s3://b/x"))["stores"] == "s3://b/x"
    file = tmp_path / "passages.tsv"
    file.write_text("1\ttext\n")
    found = collection_of(file)
    assert found == {"collection": {"format": "msmarco-v1", "input": str(file)}}


def test_stores_that_cannot_be_written_are_refused_with_a_way_to_read_them(held, monkeypatch):
    folder = held()
    (folder / "stores").mkdir()
    assert collection_of(folder)["stores"] == str(folder / "stores")
    monkeypatch.setattr("os.access", lambda path, mode: (path, mode) != (str(folder / "stores"), 2))
    with pytest.raises(
        InputError, match=r"stores: expected .* that can be written.*raypipe\.open_index"
    ):
        collection_of(folder)
    assert stage_to_search(folder, "minilm") == "vectors", "for one query nothing is kept"


def test_a_search_is_of_the_one_index_that_fits(held, tmp_path):
    queries = tmp_path / "q.tsv"
    folder = held()
    with pytest.raises(InputError, match="it has lucene, vectors; name one with --model"):
        search_recipe(folder, queries, model=None, depth=5, k1=None, b=None)
    with pytest.raises(InputError, match="found 'other', which fits 0"):
        search_recipe(folder, queries, model="other", depth=5, k1=None, b=None)
    with pytest.raises(InputError, match="expected a workspace with an index"):
        search_recipe(tmp_path, queries, model=None, depth=5, k1=None, b=None)
    for named in ("vectors", "minilm"):
        found = search_recipe(folder, queries, model=named, depth=5, k1=None, b=None)
        assert list(found.stages) == ["vectors", "search"]
        assert (found.stages["search"].index, found.stages["search"].depth) == ("vectors", 5)
        assert isinstance(found.stages["search"], DenseSearch)
        assert found.queries["queries"].file == str(queries)
    bm25 = {
        (k1, b): search_recipe(folder, queries, model="lucene", depth=5, k1=k1, b=b)
        .stages["search"]
        .bm25
        for k1, b in ((None, None), (1.2, None), (None, 0.75))
    }
    assert {key: (each.k1, each.b) for key, each in bm25.items()} == {
        (None, None): (0.9, 0.4), (1.2, None): (1.2, 0.4), (None, 0.75): (0.9, 0.75),
    }  # fmt: skip


def scored(tmp_path, duo, depth, settings=None, qrels=None):
    collection = tmp_path / "passages.tsv"
    collection.write_text("1\ttext\n")
    recipe = score_recipe(
        tmp_path / "r.trec", collection, tmp_path / "q.tsv", model=model_of("minilm", None),
        duo=duo, depth=depth, settings=settings or {}, qrels=qrels, measures="RR@10, nDCG@5",
    )  # fmt: skip
    return recipe, recipe.stages["score"]


def test_a_given_run_is_scored_to_the_papers_depths_unless_told(tmp_path):
    _, mono = scored(tmp_path, False, None)
    assert isinstance(mono, MonoScore)
    assert (mono.k0, mono.run, mono.model) == (1000, "run", "model")
    _, duo = scored(tmp_path, True, None)
    assert isinstance(duo, DuoScore) and duo.k1 == 50
    assert scored(tmp_path, False, 7)[1].k0 == 7 and scored(tmp_path, True, 7)[1].k1 == 7
    recipe, mono = scored(tmp_path, False, 7, {"tail": "drop", "score": None})
    assert mono.tail == "drop" and recipe.evaluate is None
    recipe, _ = scored(tmp_path, False, 7, qrels=tmp_path / "qrels.txt")
    assert recipe.evaluate.measures == ("RR@10", "nDCG@5") and recipe.evaluate.baseline == "run"
    assert recipe.queries["queries"].qrels == str(tmp_path / "qrels.txt")
    assert recipe.stages["run"].runs == {"queries": str(tmp_path / "r.trec")}


def test_a_model_is_packaged_or_a_folder_with_its_preset(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert model_of("minilm", None) == {"model": {"path": "minilm"}}
    found = model_of("m", "monobert")
    assert found == {"model": {"path": str(tmp_path / "m"), "preset": "monobert"}}


def test_a_workspaces_pairs_are_aggregated_beside_what_it_has(held, tmp_path):
    folder = held()
    found = aggregate_recipe(folder, method="sum", k1=None, m=None, seed=3, tail="keep")
    assert list(found.stages) == ["lucene", "vectors", "bm25", "pairs", "sum"]
    stage = found.stages["sum"]
    assert (stage.pairs, stage.method, stage.k1, stage.seed, stage.tail) == (
        "pairs", "sum", 9, 3, "keep",
    )  # fmt: skip
    assert found.stores == str(folder / "stores") and found.evaluate.baseline == "bm25"
    less = aggregate_recipe(folder, method="sample", k1=5, m=2, seed=0, tail="drop").stages[
        "sample"
    ]
    assert (less.k1, less.m, less.tail) == (5, 2, "drop")
    other = held(evaluate={"measures": ["RR@10"], "baseline": "gone"}, stores="/s")
    found = aggregate_recipe(other, method="sum", k1=None, m=None, seed=3, tail="keep")
    assert found.evaluate.baseline is None and found.stores == "/s"
    stages = {name: stage for name, stage in HELD["stages"].items() if name != "pairs"}
    for changed in (stages, {**HELD["stages"], "more": HELD["stages"]["pairs"]}):
        with pytest.raises(InputError, match="expected one score stage with k1"):
            aggregate_recipe(
                held(stages=changed), method="sum", k1=None, m=None, seed=3, tail="keep"
            )
    with pytest.raises(InputError, match="expected a workspace in which a duo"):
        aggregate_recipe(tmp_path, method="sum", k1=None, m=None, seed=3, tail="keep")


def test_a_workspaces_pairs_without_a_baseline_are_aggregated(held):
    folder = held(evaluate={"measures": ["RR@10"]})
    found = aggregate_recipe(folder, method="sum", k1=None, m=None, seed=3, tail="keep")
    assert (found.evaluate.measures, found.evaluate.baseline) == (("RR@10",), None)


@pytest.mark.parametrize(
    ("own", "of_search"), [("bf16", "bf16"), ("int8+bf16", "bf16"), ("int8", "fp32")]
)
def test_stores_are_read_in_the_precision_in_which_they_were_made(held, tmp_path, own, of_search):
    folder = held(resources={"precision": own})
    pairs = aggregate_recipe(folder, method="sum", k1=None, m=None, seed=3, tail="keep").resources
    assert pairs.precision == own
    for model, expected in (("vectors", of_search), ("lucene", "auto")):
        found = search_recipe(folder, tmp_path / "q.tsv", model=model, depth=5, k1=None, b=None)
        assert found.resources.precision == expected


def test_a_collections_format_is_told_by_its_files(tmp_path):
    path = tmp_path / "passages.csv"
    path.write_text("docno,text\n1,a\n")
    found = collection_of(path)
    assert found == {"collection": {"format": "csv", "input": str(path)}}
    with pytest.raises(InputError, match="no such collection"):
        collection_of(tmp_path / "none")


def test_a_scored_run_keeps_the_files_order_of_ties_if_asked(tmp_path):
    (tmp_path / "p.tsv").write_text("1\ta\n")
    for given, expected in (({}, "id"), ({"break_ties": "rank"}, "rank")):
        recipe = score_recipe(
            tmp_path / "run",
            tmp_path / "p.tsv",
            Path("irds:mini"),
            model={"model": {"path": "minilm-mono"}},
            duo=False,
            depth=None,
            settings={},
            qrels=Path("irds:mini"),
            measures="AP",
            **given,
        )
        assert recipe.stages["run"].break_ties == expected
        queries = recipe.queries["queries"]
        assert (queries.file, queries.qrels) == ("irds:mini", "irds:mini")


def test_a_data_set_of_ir_datasets_stands_in_the_place_of_a_collection():
    found = collection_of(Path("irds:beir/nfcorpus"))
    assert found == {"collection": {"format": "ir-datasets", "input": "beir/nfcorpus"}}


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
    with pytest.raises(InputError, match="found neither; make one with"):
        search_recipe(folder, tmp_path / "q.tsv", model=None, depth=5, k1=None, b=None)


def test_a_workspace_without_stages_has_nothing_to_search(tmp_path):
    (tmp_path / "recipe.yaml").write_text("collection: {}\n")
    with pytest.raises(InputError, match="found neither; make one with `raypipe index`"):
        search_recipe(tmp_path, tmp_path / "q", model=None, depth=3, k1=None, b=None)


@pytest.mark.parametrize(
    "content",
    [
        b"loss: lce\nsteps: 4\n",  # a training's workspace
        b"collection: {}\nstages: [1]\n",
        b"collection: {}\nstages: {a: 1}\n",
        b"collection: {}\nstages: {a: {run: b}}\n",
        b"collection: [1]\n",
        b"collection: {}\nstages: {a: ",
        b"\xff",
    ],
)
def test_a_workspaces_recipe_that_is_no_pipelines_is_told(tmp_path, content):
    (tmp_path / "recipe.yaml").write_bytes(content)
    acts = [
        lambda: collection_of(tmp_path),
        lambda: search_recipe(tmp_path, tmp_path, model=None, depth=5, k1=None, b=None),
        lambda: aggregate_recipe(tmp_path, method="sum", k1=None, m=None, seed=0, tail="keep"),
    ]
    for act in acts:
        with pytest.raises(InputError, match=r"recipe\.yaml: "):
            act()
