"""The settings of the papers in the packaged recipes."""

from itertools import permutations

from packaged_recipes import ENV, experiment, packaged

from raypipe.config.load import load_recipe, load_training, recipe_names, recipe_text
from raypipe.config.phases import Phase, PhasedTraining, trainings_of
from raypipe.config.recipe import Recipe
from raypipe.kinds.aggregate import Aggregate
from raypipe.kinds.fuse import Fuse
from raypipe.kinds.score import DuoScore, MonoScore
from raypipe.kinds.search import Bm25Search, Fixed


def bm25_of(recipe: Recipe) -> tuple[float | None, float | None]:
    stage = recipe.stages["bm25"]
    assert isinstance(stage, Bm25Search) and isinstance(stage.bm25, Fixed)
    return stage.bm25.k1, stage.bm25.b


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


def phases_of(text: str) -> dict[str, Phase]:
    recipe = load_training(text, env=ENV)
    assert isinstance(recipe, PhasedTraining)
    return {phase.name: phase for phase in recipe.phases}


def test_cips_three_runs_in_one_training_have_the_phases_of_the_three_recipes():
    together = phases_of(recipe_text("cip-runs"))
    for run in ("run1", "run2", "run3"):
        *before, last = alone = list(phases_of(recipe_text(f"cip-{run}")).values())
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
    paper, small = (
        phases_of(recipe_text("cip-run2")).values(),
        phases_of(experiment("medquad-cip")).values(),
    )
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
    trained = load_training(experiment("medquad-cip"), env=ENV).first.collections["documents"]
    reranked, documents = (
        load_recipe(experiment(f"medquad-cip-{name}"), env=ENV).collection
        for name in ("reranked", "documents")
    )
    for split in (trained.split, reranked.split):
        assert split.headings_words == 0 and split.title_words in (None, 16)
    assert documents.fields.headings is None


def test_duobert_is_trained_on_the_texts_of_the_authors_code():
    (triples,) = load_training(recipe_text("duobert-2019"), env=ENV).train.values()
    assert triples.texts == "/msmarco/triples.train.small.tsv" and triples.triples is None


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
