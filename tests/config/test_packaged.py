import ast
import os
import time
from itertools import permutations
from pathlib import Path

import pytest

import raypipe.config
from raypipe.config import (
    Recipe,
    load_recipe,
    load_training,
    missing_inputs,
    recipe_names,
    recipe_text,
    resolved_yaml,
    verb_of,
)
from raypipe.config.pipeline.kinds import Aggregate, Bm25Search, DuoScore, Fuse, MonoScore
from raypipe.config.pipeline.kinds.search import Fixed
from raypipe.config.training.phases import (
    Phase,
    PhasedTraining,
    resolved_training,
    trainings_of,
)
from raypipe.errors import InputError

ENV = {"RAYPIPE_DATA": "/data", "MSMARCO": "/msmarco", "MODELS": "/models"}
ENV |= {
    "PACKAGES": "/packages",
    "RUN": "/run.trec",
    "DOCS": "/docs",
    "OWN": "/own",
    "RUNS": "/runs",
    "TRECCAR": "/treccar",
    "SCORED": "/scored.trec",
    "TRAINED": "/trained",
    "JUDGED": "/judged.txt",
    "LISTS": "/lists.trec",
    "MSMARCO_V2": "/msmarco-v2",
}
DATA = Path(os.environ.get("RAYPIPE_DATA", Path(__file__).parents[2] / "../shared/data"))


def packaged(name: str) -> Recipe:
    return load_recipe(recipe_text(name), env=ENV, source=name)


def bm25_of(recipe: Recipe) -> tuple[float | None, float | None]:
    stage = recipe.stages["bm25"]
    assert isinstance(stage, Bm25Search) and isinstance(stage.bm25, Fixed)
    return stage.bm25.k1, stage.bm25.b


def test_the_first_recipes_are_packaged():
    expected = {"quickstart", "msmarco-passage", "msmarco-v2-dl21", "nfcorpus"}
    assert expected <= set(recipe_names())
    assert recipe_names() == sorted(recipe_names())


@pytest.mark.parametrize("name", recipe_names("pipeline"))
def test_a_packaged_recipe_loads_under_its_name_and_comes_back(name: str):
    recipe = packaged(name)
    assert recipe.name == name
    assert recipe.evaluate and recipe.evaluate.topics and recipe.evaluate.relevance
    resolved = resolved_yaml(recipe)
    assert load_recipe(resolved) == recipe
    assert resolved_yaml(load_recipe(resolved)) == resolved


@pytest.mark.parametrize("name", recipe_names("train"))
def test_a_packaged_training_loads_under_its_name_and_comes_back(name: str):
    recipe = load_training(recipe_text(name), env=ENV, source=name)
    assert recipe.name == name
    resolved = resolved_training(recipe)
    assert load_training(resolved) == recipe
    assert resolved_training(load_training(resolved)) == resolved


def test_the_papers_trainings_have_the_papers_schedules():
    def of(name: str) -> tuple[object, ...]:
        r = load_training(recipe_text(name), env=ENV)
        o = r.optimiser
        return r.steps, r.batch, r.accumulation, o.rate, o.warmup, o.weight_decay, r.dropout

    # batch counts examples of two inputs: 32 pairs, 128 ordered pairs, 26 documents
    assert of("monobert-2019a") == (400_000, 16, 1, 3e-6, 10_000, 0.01, 0.1)
    assert of("monobert-2019b") == (100_000, 64, 1, 3e-6, 10_000, 0.01, 0.1)
    assert of("duobert-2019") == (100_000, 64, 1, 3e-6, 10_000, 0.01, 0.1)
    assert of("repbert") == (350_000, 13, 2, 3e-6, 10_000, 0.01, 0.1)
    assert of("car-mono") == (400_000, 32, 1, 3e-6, 10_000, 0.01, 0.1)
    assert of("car-duo") == (100_000, 64, 1, 3e-6, 10_000, 0.01, 0.1)

    def settings(name: str) -> tuple[object, ...]:
        r = load_training(recipe_text(name), env=ENV)
        o = r.optimiser
        adam = (o.beta1, o.beta2, o.eps, o.bias_correction, o.clip)
        return r.loss.name, r.model.preset, o.decay, *adam

    bert = ("linear-from-start", 0.9, 0.999, 1e-6, False, 1.0)
    assert settings("monobert-2019a") == ("cross-entropy", "monobert", *bert)
    assert settings("monobert-2019b") == ("cross-entropy", "monobert", *bert)
    assert settings("duobert-2019") == ("cross-entropy", "duobert", *bert)
    adam_w = ("linear", 0.9, 0.999, 1e-8, True, 1.0)
    assert settings("repbert") == ("multi-label-margin", "repbert", *adam_w)
    assert settings("repbert-code") == ("multi-label-margin", "repbert", *adam_w)


def test_repberts_text_and_code_differ_in_triples_schedule_clipping_and_precision():
    text, code = (load_training(recipe_text(n), env=ENV) for n in ("repbert", "repbert-code"))
    assert text.schedule_steps is None and text.optimiser.clip_after == "step"
    # One pass over 26,991,900 triples in steps of two batches of 13.
    (triples,) = code.train.values()
    assert triples.triples == "/msmarco/qidpidtriples.train.full.tsv.gz"
    assert triples.examples_at_most == 26_991_900 == code.schedule_steps * code.batch * 2
    assert (code.steps, code.accumulation) == (350_000, 2)
    assert (code.optimiser.clip_after, code.resources.precision) == ("batch", "fp32")
    assert code.loss == text.loss and code.batch == text.batch
    at_end = (code.schedule_steps - code.steps) / (code.schedule_steps - code.optimiser.warmup)
    assert round(at_end, 2) == 0.67


def test_the_papers_trainings_drop_only_the_evaluation_queries_themselves():
    papers = ("monobert-2019a", "monobert-2019b", "duobert-2019", "repbert", "repbert-code")
    papers += ("mono-bm25-negatives", "mono-repbert-negatives", "msmarco-multistage-tcp")
    papers += ("cip-run1", "cip-run2", "cip-run3", "cip-runs", "car-mono", "car-duo")
    for name in recipe_names("train"):
        found = {
            each.near_copy
            for each in trainings_of(load_training(recipe_text(name), env=ENV))
            if each.masking is None
        }
        assert found <= {"same" if name in papers else 0.6}, name


FIRST_STAGES = ("bm25", "doc2query", "deepct", "doctttttquery", "repbert")


def test_repberts_table_2_and_figure_1_rerank_five_first_stages_at_six_depths():
    recipe = packaged("repbert-reranked")
    stages = {name: s for name, s in recipe.stages.items() if isinstance(s, MonoScore)}
    assert {(s.run, s.k0) for s in stages.values()} == {
        (run, depth) for run in FIRST_STAGES for depth in (5, 10, 50, 100, 500, 1000)
    }
    assert {name: f"{s.run}-{s.k0}" for name, s in stages.items()} == {n: n for n in stages}
    assert {s.tail for s in stages.values()} == {"drop"}
    # A pair is scored once, as the first stage of each run is the deepest.
    deepest = dict.fromkeys(FIRST_STAGES, 0)
    for stage in stages.values():
        assert deepest[stage.run] or stage.k0 == 1000
        deepest[stage.run] = 1000
    assert recipe.evaluate and {"RR@10", "R@5", "R@1000"} <= set(recipe.evaluate.measures)


def test_repberts_tables_3_and_4_take_every_two_first_stages_in_turn_in_both_orders():
    recipe = packaged("repbert-fused")
    stages = {name: s for name, s in recipe.stages.items() if isinstance(s, Fuse)}
    assert {s.runs for s in stages.values()} == set(permutations(FIRST_STAGES, 2))
    assert all(name == "-".join(s.runs) for name, s in stages.items())
    assert {(s.method, s.depth) for s in stages.values()} == {("alternate", 2000)}
    assert recipe.evaluate and set(recipe.evaluate.measures) == {"RR@10", "R@1000", "R@2000"}


def test_two_trainings_differ_in_where_their_negatives_come_from_alone():
    bm25, repbert = (
        load_training(recipe_text(f"mono-{run}-negatives"), env=ENV) for run in ("bm25", "repbert")
    )
    runs = [each.train["msmarco"].negatives for each in (bm25, repbert)]
    assert [each.runs for each in runs] == [
        ("/runs/train/bm25.trec",), ("/runs/train/repbert.trec",),
    ]  # fmt: skip
    train = {"msmarco": bm25.train["msmarco"]}
    assert repbert.model_copy(update={"name": bm25.name, "train": train}) == bm25
    stages = packaged("repbert-negatives").stages
    found = {(s.run, s.model, s.k0) for s in stages.values() if isinstance(s, MonoScore)}
    assert found == {
        (run, model, depth)
        for run in ("bm25", "repbert")
        for model in ("of-bm25", "of-repbert")
        for depth in (5, 10, 50, 100)
    }


def phases_of(name: str) -> dict[str, Phase]:
    recipe = load_training(recipe_text(name), env=ENV)
    assert isinstance(recipe, PhasedTraining)
    return {phase.name: phase for phase in recipe.phases}


def test_cips_three_runs_in_one_training_have_the_phases_of_the_three_recipes():
    together = phases_of("cip-runs")
    for run in ("run1", "run2", "run3"):
        *before, last = alone = list(phases_of(f"cip-{run}").values())
        for phase, own in zip([*before, last], [*(p.name for p in before), run], strict=True):
            training = together[own].training
            assert training.collections.items() >= phase.training.collections.items()
            shared = {"name": "cip-runs", "collections": training.collections}
            assert training == phase.training.model_copy(update=shared)
        chain = [run, together[run].after]
        while chain[-1] is not None:
            chain.append(together[chain[-1]].after)
        assert chain[-2] == "passage-v1" and len(chain) == len(alone) + 1


def test_medquads_cip_differs_from_cips_second_run_in_its_sets_and_lengths_alone():
    paper, small = phases_of("cip-run2").values(), phases_of("medquad-cip").values()
    for large, phase in zip(paper, small, strict=True):
        theirs, ours = large.training, phase.training
        assert ours.loss == theirs.loss
        for limit in ("query_limit", "total_limit", "head"):
            assert getattr(ours.model, limit) == getattr(theirs.model, limit)
        assert ours.validate_ and theirs.validate_
        assert ours.validate_.measure == theirs.validate_.measure
        (given,), (found,) = theirs.train.values(), ours.train.values()
        assert (found.documents is None) == (given.documents is None)
    assert (found.documents.passages, found.documents.best) == (32, 5)
    assert [phase.training.train["answers"].negatives.first for phase in [*small][:2]] == [1, 500]


def test_medquads_headings_which_repeat_its_questions_are_in_no_passage():
    documents = load_training(recipe_text("medquad-cip"), env=ENV).first.collections["documents"]
    for collection in (documents, packaged("medquad-cip-reranked").collection):
        split = collection.split
        assert split.headings_words == 0 and split.title_words in (None, 16)
    assert packaged("medquad-cip-documents").collection.fields.headings is None


def test_duobert_is_trained_on_the_texts_of_the_authors_code():
    (triples,) = load_training(recipe_text("duobert-2019"), env=ENV).train.values()
    assert triples.texts == "/msmarco/triples.train.small.tsv" and triples.triples is None


def test_the_kinds_of_presets_are_those_of_the_presets_themselves():
    from raypipe.config.training.rules import KINDS
    from raypipe.models.folder.presets import PRESETS

    assert KINDS == {name: found.kind for name, found in PRESETS.items()}


def test_the_models_that_need_no_path_are_those_that_come_with_raypipe():
    from raypipe.config.pipeline.parts import PACKAGED_MODELS
    from raypipe.models.folder.adapters import SHIPPED
    from raypipe.models.folder.model_folder import PACKAGED

    assert PACKAGED_MODELS == (PACKAGED, *SHIPPED)


def test_only_the_collection_they_were_tuned_on_has_tuned_bm25_parameters():
    for name in ("msmarco-passage", "msmarco-multistage"):
        assert bm25_of(packaged(name)) == (0.82, 0.68)
    for name in ("quickstart", "msmarco-v2-dl21", "nfcorpus"):
        assert bm25_of(packaged(name)) == (0.9, 0.4)


def test_the_multistage_recipe_has_the_papers_depths_and_aggregations():
    stages = packaged("msmarco-multistage").stages
    mono, duo = stages["mono"], stages["duo"]
    assert isinstance(mono, MonoScore) and mono.k0 == 1000
    assert isinstance(duo, DuoScore) and (duo.k1, duo.sample) == (50, None)
    methods = {s.method: s.k1 for s in stages.values() if isinstance(s, Aggregate)}
    assert methods == dict.fromkeys(["sum", "binary", "min", "max", "sample"], 50)


def test_the_recipes_of_trec_car_have_the_papers_depths_and_topics():
    for name in ("car-monobert", "car-multistage"):
        recipe = packaged(name)
        mono, duo = (recipe.stages.get(stage) for stage in ("mono", "duo"))
        assert bm25_of(recipe) == (0.9, 0.4)
        assert isinstance(mono, MonoScore) and mono.k0 == 1000
        assert (duo is None) == (name == "car-monobert")
        assert duo is None or (isinstance(duo, DuoScore) and duo.k1 == 50)
        car = recipe.queries["test"].car
        assert car is not None and car.level == "hierarchical" and not car.outlines
    folds = packaged("car-train").queries
    assert [len(folds[name].car.qrels) for name in ("train", "dev", "test")] == [4, 1, 1]
    training = load_training(recipe_text("car-mono"), env=ENV)
    (pairs,) = (train.pairs for train in training.train.values())
    assert pairs is not None and pairs.last == 10
    levels = [queries.car.level for queries in packaged("car-test200").queries.values()]
    assert levels == ["article", "top-level", "hierarchical"]


def test_the_quickstart_needs_nothing_from_outside():
    recipe = load_recipe(recipe_text("quickstart"), env={})
    assert missing_inputs(recipe) == []


def test_queries_without_judgements_are_ranked_all_the_same():
    queries = packaged("msmarco-v2-dl21").queries
    assert [(name, q.judged, q.report) for name, q in queries.items()] == [
        ("dl21", True, True),
        ("dl22", False, True),
    ]


def test_an_unknown_recipe_is_told_with_the_nearest():
    with pytest.raises(InputError, match="'quikstart'; did you mean quickstart?"):
        recipe_text("quikstart")


@pytest.mark.skipif(not DATA.is_dir(), reason="RAYPIPE_DATA names no folder")
@pytest.mark.parametrize("name", ["msmarco-v2-dl21", "nfcorpus", "car-test200"])
def test_the_files_of_the_data_recipes_are_there(name: str):
    recipe = load_recipe(recipe_text(name), env={"RAYPIPE_DATA": str(DATA.resolve())})
    assert missing_inputs(recipe) == []


def test_the_package_imports_only_light_things_and_reads_no_environment():
    imported: set[str] = set()
    for path in Path(raypipe.config.__file__).parent.rglob("*.py"):
        text = path.read_text()
        assert "os.environ" not in text and "getenv" not in text
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Import):
                imported |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                imported.add(node.module or "")
    ours = {name for name in imported if name.startswith("raypipe.")}
    beside = {
        f"raypipe.{name}"
        for name in ("errors", "names", "package", "regular", "uris", "vocabulary")
    }
    assert all(name in beside or name.startswith("raypipe.config.") for name in ours)
    outside = {name.split(".")[0] for name in imported}
    assert outside & {"yaml", "pydantic"} == {"yaml", "pydantic"}
    assert not outside & {"torch", "ray", "numpy", "pyarrow", "transformers", "faiss", "fsspec"}


BOMB = "a: &a {x: 1}\n" + "".join(
    f"{name}: &{name} {{<<: [{', '.join(9 * ['*' + before])}]}}\n"
    for before, name in zip("abcdefghi", "bcdefghij", strict=True)
)
"""Less than 500 bytes, which merge keys unfold to 9 ** 9 pairs."""


@pytest.mark.parametrize(
    "text",
    [
        "a: " + "[" * 900 + "]" * 900,
        "a: " + "{a: " * 900 + "}" * 900,
        "a: " + "9" * 5000,
        "a: 9999-99-99",
        "a: " + "1:" * 400_000 + "1.5",
        "a: &a [*a]",
        "a: [" + "1," * 5_000_000 + "1]",
        "\0",
        BOMB,
        "",
        "- loss",
    ],
    ids=lambda text: text[:12],
)
def test_a_hostile_recipe_has_a_verb_at_once_and_loading_it_tells_the_problem(text):
    began = time.monotonic()
    assert verb_of(text) == "pipeline"
    with pytest.raises(InputError, match="recipe: line 1|recipe: line 2"):
        load_recipe(text)
    assert time.monotonic() - began < 10


@pytest.mark.parametrize("value", ["9999-99-99", "9" * 5000, "[1, 2]"])
def test_a_hostile_training_recipe_is_still_one(value):
    assert verb_of(f"loss: {value}\n") == "train"
    with pytest.raises(InputError, match=r"recipe: line 1: loss: "):
        load_training(f"loss: {value}\n")
