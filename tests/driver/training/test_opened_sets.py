"""What the sets of a training add to the stores of their collection."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from training_body import recipe

from raypipe.config.load import load_training
from raypipe.config.recipe import Recipe
from raypipe.driver.training.opened_sets import CollectionGraph, OpenedDev, OpenedSet, model_name
from raypipe.driver.training.sets import stretches_stage


class Planned(CollectionGraph):
    """Rankings are added and not computed."""

    def ranking(self, name, query_set, stage):
        self.add(stages={name: stage})
        return SimpleNamespace(name=name, stored=None, unordered=0)

    def passage_map(self):
        return None

    ids = document_ids = documents = collection = passage_map

    def queries(self, name):
        return None

    def trained_tokens(self, query_set):
        return None, None


def opened(given, collection, made=Path(), **phases):
    """The graph of one collection after its sets have asked for all that they read."""
    body = {"name": given.name, "collection": given.collections[collection]}
    own = {"training": given, "workspace": None, "phases": phases, "made": made}
    own["say"] = lambda line: None
    graph = Planned(Recipe(format=1, **body), None, **own)
    for name, keys in given.train.items():
        if keys.collection == collection:
            OpenedSet(name, keys, graph).examples(None)
    for name, keys in given.dev.items():
        if keys.collection == collection:
            dev = OpenedDev(name, keys, graph)
            assert dev.run.name == f"dev-{name}-run"
            if keys.documents is not None:
                dev.stores()
    return graph.recipe


def test_the_sets_of_a_collection_add_their_queries_and_the_runs_in_their_files():
    found = opened(recipe(), "docs")
    assert {name: (q.file, q.qrels, q.only_judged) for name, q in found.queries.items()} == {
        "train-a": ("/c/q.tsv", "/c/qrels.txt", True), "dev-d": ("/c/d.tsv", "/c/d.txt", True),
    }  # fmt: skip
    assert {name: stage.runs for name, stage in found.stages.items()} == {
        "train-a-run-0": {"train-a": "/c/1.trec"}, "train-a-run-1": {"train-a": "/c/2.trec"},
        "train-a-teacher": {"train-a": "/c/t.trec"}, "dev-d-run": {"dev-d": "/c/d.trec"},
    }  # fmt: skip
    assert found.models == {}
    other = opened(recipe(), "more")
    assert {name: (q.file, q.qrels, q.only_judged) for name, q in other.queries.items()} == {
        "train-b": ("/c/q.tsv", None, False)
    }
    assert other.stages == {}
    assert model_name(recipe(model={"start": "minilm"})) == "minilm"
    assert model_name(recipe()) == "start"


def test_a_set_may_have_the_longest_name():
    given, name = recipe(), "s" * 64
    given = given.model_copy(update={"train": {name: given.train["a"]}})
    assert f"train-{name}-run-1" in opened(given, "docs").stages


@pytest.mark.parametrize(
    ("exclude", "expected"), [(None, None), ("own-id", "own-id"), ("/c/out.csv", "/c/out.csv")]
)
def test_what_a_set_excludes_is_in_none_of_its_runs_nor_in_its_mined_one(exclude, expected):
    body = {"exclude": exclude, "negatives": {"runs": ["/c/1.trec"], "mine": {}}}
    encoder = {"preset": "repbert", "passage_limit": 40, "total_limit": None}
    docs = {"collection": "docs", "queries": "/c/q.tsv", "qrels": "/c/qrels.txt", **body}
    given = recipe(train={"a": docs}, model=encoder, loss={"name": "info-nce"})
    found = opened(given, "docs")
    assert found.queries["train-a"].exclude == expected and found.queries["dev-d"].exclude is None
    assert [found.stages[f"train-a-run-{n}"].do for n in (0, 1)] == ["read", "search"]


def test_a_set_of_documents_reads_runs_of_documents_and_scores_the_relevant_ones(tmp_path):
    (tmp_path / "q.tsv").write_text("1\tzebra\n")
    (tmp_path / "d.txt").write_text("1 0 D 1\n")
    pages = {"format": "msmarco-doc-v2", "input": "/c/docs.jsonl", "split": {}}
    documents = {"passages": 7, "best": 2, "scored_by": "first"}
    own = {"collection": "pages", "queries": f"{tmp_path}/q.tsv", "qrels": f"{tmp_path}/d.txt"}
    train = {"p": {**own, "negatives": {"runs": ["/c/d.trec"]}, "documents": documents}}
    dev = {"p": {**own, "run": "/c/dev.trec", "k": 9, "documents": {}}}
    first = {"name": "first"}
    second = {"name": "second", "train": train, "dev": dev}
    given = recipe(collections={"pages": pages}, phases=[first, second]).phases[1].training
    found = opened(given, "pages", made=tmp_path, first=tmp_path / "m")
    for name in ("train-p", "dev-p"):
        queries = found.queries[name]
        assert (queries.qrels, queries.document_qrels, queries.only_judged) == (
            None, own["qrels"], True
        )  # fmt: skip
    stages = {name: stage.model_dump(exclude_none=True) for name, stage in found.stages.items()}
    assert {name for name, stage in stages.items() if stage.get("of") == "documents"} == {
        "train-p-run-0", "train-p-relevant", "dev-p-run"
    }  # fmt: skip
    assert stages["train-p-relevant"]["runs"] == {"train-p": str(tmp_path / "p.trec")}
    assert stages["train-p-passages"]["at_most"] == 7
    assert (
        stages["train-p-scored"]["model"] == "of-first" and stages["train-p-scored"]["k0"] > 10**6
    )
    assert stages["dev-p-passages"]["documents"] == 9 and "at_most" not in stages["dev-p-passages"]
    assert found.models["of-first"].path == str(tmp_path / "m")


def test_the_runs_that_a_sets_blend_adds_up_are_read_in_their_order():
    docs = {"collection": "docs", "queries": "/c/q.tsv", "qrels": "/c/qrels.txt"}
    docs |= {"negatives": {"runs": "/c/1.trec"}, "blend": {"runs": ["/c/3.trec", "/c/1.trec"]}}
    given = recipe(loss={"name": "listwise", "blend": 4}, train={"a": docs})
    stages = opened(given, "docs").stages
    runs = {name: stages[f"train-a-{name}"].runs["train-a"] for name in ("blend-0", "blend-1")}
    assert runs == {"blend-0": "/c/3.trec", "blend-1": "/c/1.trec"}
    assert "train-a-blend-2" not in stages


MONO = {"preset": "monobert", "query_limit": 12, "total_limit": 64}
ENCODER = {"preset": "repbert", "query_limit": 12, "passage_limit": 40, "total_limit": None}
TUNED = {**ENCODER, "adapter": {"start": "/m/adapter"}}


@pytest.mark.parametrize(
    ("model", "searcher", "models"),
    [
        (ENCODER, "last", {}),  # the trained one, which shares its word pieces
        (MONO, "last", {"begun": "/m/start"}),
        (TUNED, "last", {"begun": "/m/adapter"}),
        ({**MONO, "adapter": {}}, "last", {"begun": "/m/start"}),
        (MONO, "first", {"of-first": "/m/first"}),
        (ENCODER, "first", {"of-first": "/m/first"}),
    ],
)
def test_negatives_are_searched_by_the_model_as_it_begins_or_that_of_an_earlier_phase(
    model, searcher, models
):
    docs = {"collection": "docs", "queries": "/c/q.tsv", "qrels": "/c/qrels.txt"}
    docs["negatives"] = {"runs": "/c/1.trec", "last": 20, "mine": {"with": searcher}}
    loss = {"name": "info-nce" if "passage_limit" in model else "cross-entropy"}
    own = {"train": {"a": docs}, "loss": loss, "model": model}
    if searcher == "last":
        given = recipe(**own)
    else:
        given = recipe(phases=[{"name": "first"}, {"name": "second", **own}]).phases[1].training
    found = opened(given, "docs", first=Path("/m/first"))
    assert {name: each.path for name, each in found.models.items()} == models
    miner = next(iter(models), "start")
    assert found.stages["train-a-run-1"].index == f"{miner}-encoded"
    assert found.stages["train-a-run-1"].depth == 20
    assert found.stages[f"{miner}-encoded"].model == miner


@pytest.mark.parametrize("next_sentence, limit, least", [(True, 45, 2), (False, 46, 1)])
def test_a_stretch_fits_an_input_and_two_sentences_take_two_pieces(next_sentence, limit, least):
    masked = load_training(
        {
            **{"format": 1, "name": "pre", "steps": 90_000, "batch": 4},
            "model": {"start": "/m", "preset": "bert", "total_limit": 48, "query_limit": None},
            "collections": {"docs": {"format": "msmarco-v1", "input": "/c/docs.tsv"}},
            "train": {"docs": {"collection": "docs"}},
            "loss": {"name": "masked-language-model"},
            "masking": {"next_sentence": next_sentence},
        },
        source="pre",
    )
    graph = SimpleNamespace(training=masked, tokens=lambda name: None)
    stage = stretches_stage("docs", graph)
    assert (stage.limit, stage.least) == (limit, least)
