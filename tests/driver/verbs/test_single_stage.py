import json
from pathlib import Path

import pytest
from held_recipe import HELD

from raypipe.driver.verbs.single_stage import (
    aggregate_stage,
    collection_of,
    files_of,
    model_of,
    opened_reranker,
    recipe_of,
    score_stage,
    search_stage,
    split_of,
    stage_to_search,
)
from raypipe.errors import InputError
from raypipe.kinds.score import DuoScore, MonoScore
from raypipe.kinds.search import DenseSearch
from raypipe.vocabulary import MEASURES


def test_documents_are_split_as_the_paper_does_and_passages_are_not_split():
    assert recipe_of(files_of("msmarco-doc-v1", ["d.tsv"])).collection.split.length == 100
    assert split_of("msmarco-v1") == {}


def test_files_are_absolute_but_for_buckets_and_data_sets(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    inputs = files_of("csv", ["a.csv", "s3://b/c.csv"])["collection"]["input"]
    assert inputs == [str(tmp_path / "a.csv"), "s3://b/c.csv"]
    assert files_of("ir-datasets", ["beir/nq"])["collection"]["input"] == ["beir/nq"]


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
        search_stage(folder, queries, None)
    with pytest.raises(InputError, match="found 'other', which fits 0"):
        search_stage(folder, queries, "other")
    with pytest.raises(InputError, match="expected a workspace with an index"):
        search_stage(tmp_path, queries, None)
    for named in ("vectors", "minilm"):
        found = recipe_of(search_stage(folder, queries, named, depth=5, bm25=None))
        assert list(found.stages) == ["vectors", "search"]
        assert (found.stages["search"].index, found.stages["search"].depth) == ("vectors", 5)
        assert isinstance(found.stages["search"], DenseSearch)
        assert found.queries["queries"].file == str(queries)
    bm25 = {
        key: recipe_of(search_stage(folder, queries, "lucene", bm25=bm25)).stages["search"].bm25
        for key, bm25 in (("none", None), ("k1", {"k1": 1.2}), ("b", {"b": 0.75}))
    }
    assert {key: (each.k1, each.b) for key, each in bm25.items()} == {
        "none": (0.9, 0.4), "k1": (1.2, 0.4), "b": (0.9, 0.75),
    }  # fmt: skip


def scored(tmp_path, qrels=None, overrides=(), **keys):
    """The recipe of `raypipe score` over a file of one passage."""
    (tmp_path / "p.tsv").write_text("1\ttext\n")
    files = tmp_path / "r.trec", tmp_path / "p.tsv", tmp_path / "q.tsv"
    return recipe_of(score_stage(*files, model_of("minilm", None), qrels, **keys), overrides)


def test_a_given_run_is_scored_by_its_keys_and_measured_with_judgements(tmp_path):
    recipe = scored(tmp_path, k0=None, k1=None, blend=None)
    mono = recipe.stages["score"]
    assert isinstance(mono, MonoScore) and recipe.evaluate is None
    assert (mono.k0, mono.run, mono.model, mono.blend) == (1000, "run", "model", None)
    assert recipe.stages["run"].runs == {"queries": str(tmp_path / "r.trec")}
    assert scored(tmp_path, k0=7, blend=2.5).stages["score"].blend == 2.5
    duo = scored(tmp_path, k1=7).stages["score"]
    assert isinstance(duo, DuoScore) and duo.k1 == 7
    recipe = scored(tmp_path, tmp_path / "qrels.txt")
    assert recipe.evaluate.measures == MEASURES and recipe.evaluate.baseline == "run"
    assert recipe.queries["queries"].qrels == str(tmp_path / "qrels.txt")


def test_without_k0_and_k1_a_duobert_model_has_the_papers_k1(tiny_mono, tiny_duo, tmp_path):
    lines = []
    for model, expected in ((tiny_duo, {"k1": 50}), (tiny_mono, {})):
        body, defaults = opened_reranker(str(model), None, tmp_path, lines.append)
        assert body == model_of(str(model), None) and defaults == expected
    assert not lines
    with pytest.raises(InputError, match="minilm"):
        opened_reranker("minilm", None, tmp_path, lines.append)


def test_what_has_no_option_is_a_key_of_a_stage_or_of_a_section(tmp_path):
    overrides = ["score.tail=drop", "run.break_ties=rank", "resources.actors=2"]
    overrides += ["stages.score.k0=4", "evaluate.measures=[RR@10]"]
    recipe = scored(tmp_path, tmp_path / "qrels.txt", overrides)
    score = recipe.stages["score"]
    assert (score.tail, score.k0, recipe.stages["run"].break_ties) == ("drop", 4, "rank")
    assert (recipe.resources.actors, recipe.evaluate.measures) == (2, ("RR@10",))
    with pytest.raises(InputError) as refused:
        scored(tmp_path, overrides=["tail=drop", "scroe.tail=drop", "score.tail=drop"])
    one, other = refused.value.problems
    assert one.startswith("tail=drop: no stage or section 'tail'; there are: run, score, format")
    assert "scroe.tail=drop: no stage or section 'scroe'; did you mean score?" in other
    with pytest.raises(InputError, match="run.trec: expected KEY=VALUE"):
        scored(tmp_path, overrides=["run.trec"])
    with pytest.raises(InputError, match="score.tail: expected 'keep' or 'drop'; found text"):
        scored(tmp_path, overrides=["score.tail=cut"])


def test_a_section_comes_before_a_workspaces_stage_of_its_name(held, tmp_path):
    stages = {"models": {"do": "encode", "model": "minilm"}}
    body = search_stage(held(stages=stages), tmp_path / "q.tsv", None)
    recipe = recipe_of(body, ["models.minilm.settings={passage_limit: 64}"])
    assert recipe.models["minilm"].settings == {"passage_limit": 64}


def test_a_model_is_packaged_or_a_folder_with_its_preset(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert model_of("minilm", None) == {"models": {"model": {"path": "minilm"}}}
    found = model_of("m", "monobert")["models"]
    assert found == {"model": {"path": str(tmp_path / "m"), "preset": "monobert"}}


def test_a_workspaces_pairs_are_aggregated_beside_what_it_has(held, tmp_path):
    folder = held()
    found = recipe_of(aggregate_stage(folder, "sum", k1=None))
    assert list(found.stages) == ["lucene", "vectors", "bm25", "pairs", "sum"]
    stage = found.stages["sum"]
    assert (stage.pairs, stage.method, stage.k1, stage.seed, stage.tail) == (
        "pairs", "sum", 9, 0, "keep",
    )  # fmt: skip
    assert found.stores == str(folder / "stores") and found.evaluate.baseline == "bm25"
    keys = ["sample.m=2", "sample.tail=drop"]
    less = recipe_of(aggregate_stage(folder, "sample", k1=5), keys).stages["sample"]
    assert (less.k1, less.m, less.tail) == (5, 2, "drop")
    other = held(evaluate={"measures": ["RR@10"], "baseline": "gone"}, stores="/s")
    found = recipe_of(aggregate_stage(other, "sum"))
    assert found.evaluate.baseline is None and found.stores == "/s"
    stages = {name: stage for name, stage in HELD["stages"].items() if name != "pairs"}
    for changed in (stages, {**HELD["stages"], "more": HELD["stages"]["pairs"]}):
        with pytest.raises(InputError, match="expected one score stage with k1"):
            aggregate_stage(held(stages=changed), "sum")
    with pytest.raises(InputError, match="expected a workspace in which a duo"):
        aggregate_stage(tmp_path, "sum")


def test_a_workspaces_pairs_without_a_baseline_are_aggregated(held):
    folder = held(evaluate={"measures": ["RR@10"]})
    found = recipe_of(aggregate_stage(folder, "sum"))
    assert (found.evaluate.measures, found.evaluate.baseline) == (("RR@10",), None)


@pytest.mark.parametrize(
    ("own", "of_search"), [("bf16", "bf16"), ("int8+bf16", "bf16"), ("int8", "fp32")]
)
def test_stores_are_read_in_the_precision_in_which_they_were_made(held, tmp_path, own, of_search):
    folder = held(resources={"precision": own})
    assert recipe_of(aggregate_stage(folder, "sum")).resources.precision == own
    for model, expected in (("vectors", of_search), ("lucene", "auto")):
        found = recipe_of(search_stage(folder, tmp_path / "q.tsv", model))
        assert found.resources.precision == expected


def test_a_collections_format_is_told_by_its_files(tmp_path):
    path = tmp_path / "passages.csv"
    path.write_text("docno,text\n1,a\n")
    found = collection_of(path)
    assert found == {"collection": {"format": "csv", "input": str(path)}}
    with pytest.raises(InputError, match="no such collection"):
        collection_of(tmp_path / "none")


def test_queries_and_judgements_are_of_a_data_set_by_its_name(tmp_path):
    (tmp_path / "p.tsv").write_text("1\ta\n")
    mini = Path("irds:mini")
    body = score_stage(tmp_path / "run", tmp_path / "p.tsv", mini, model_of("minilm", None), mini)
    queries = recipe_of(body).queries["queries"]
    assert (queries.file, queries.qrels) == ("irds:mini", "irds:mini")


def test_a_data_set_of_ir_datasets_stands_in_the_place_of_a_collection():
    found = collection_of(Path("irds:beir/nfcorpus"))
    assert found == {"collection": {"format": "ir-datasets", "input": "beir/nfcorpus"}}


def test_a_recipe_of_a_verb_names_where_it_came_from(tmp_path):
    keys = {"collection": {"format": "msmarco-v1", "input": "/c/p.tsv"}}
    found = recipe_of({**keys, "stages": {"lucene": {"do": "index"}}, "queries": {}})
    assert (found.format, found.name, found.queries, found.evaluate) == (1, "single", {}, None)
    with pytest.raises(InputError, match="the command line"):
        recipe_of({**keys, "stages": {"lucene": {"do": "nothing"}}})
    folder = tmp_path / "w"
    folder.mkdir()
    body = {**keys, "format": 1, "name": "x", "stages": {"r": {"do": "read", "runs": {}}}}
    (folder / "recipe.yaml").write_text(json.dumps(body))
    with pytest.raises(InputError, match="found neither; make one with"):
        search_stage(folder, tmp_path / "q.tsv", None)


def test_a_workspace_without_stages_has_nothing_to_search(tmp_path):
    (tmp_path / "recipe.yaml").write_text("collection: {}\n")
    with pytest.raises(InputError, match="found neither; make one with `raypipe index`"):
        search_stage(tmp_path, tmp_path / "q", None)


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
        lambda: search_stage(tmp_path, tmp_path, None),
        lambda: aggregate_stage(tmp_path, "sum"),
    ]
    for act in acts:
        with pytest.raises(InputError, match=r"recipe\.yaml: "):
            act()
