"""The lines, bytes, seconds and inferences that a plan expects of runs and scores, by hand."""

from pytest import approx
from small_documents import document, recipe_of, write_inputs

from raypipe.config import load_recipe
from raypipe.driver.forecast.plan import make_plan
from raypipe.text.split import Splitting, passages_of


def stores_of(plan):
    return {line.store: line for line in plan.forecast.lines}


def test_runs_take_what_their_lines_take_and_scores_what_their_candidates_take(recipe, tmp_path):
    """12 queries over 230 passages, in several shards, of 32 numbers; the run file has 5 lines of
    each."""
    long = ("stages.dense.depth=400", "stages.fused.depth=300")
    plan = make_plan(recipe(*long), tmp_path / "work")
    stores = stores_of(plan)
    lines = {
        "parts@dense.dev": 12 * 230,  # no more than there are
        "dense.dev": 12 * 230,
        "given.dev": 12 * 5,
        "fused.dev": 12 * (230 + (230 + 5)) / 2,  # between the longer and the sum
        "mono.dev": 12 * 230,  # the tail is kept
        "duo-sum.dev": 12 * 230,
        "short.dev": 12 * 3,  # the tail is dropped
    }
    products = 12 * (230 * 32) * 4e-11
    for store, number in lines.items():
        seconds = number * 1.5e-6 + (products if store.startswith("parts") else 0.0)
        assert stores[store].other_seconds == approx(seconds), store
        assert stores[store].bytes == approx(11 * number + 1700 * stores[store].shards), store
    assert stores["parts@dense.dev"].shards > 1  # so that 230 is a sum over spans
    assert stores["dense.dev"].shards == 1
    candidates = {
        "scores@mono.dev": 12 * 10,
        "scores@deeper.dev": 12 * 15,
        "scores@duo.dev": 12 * 4 * 3,
        "scores@short.dev": 12 * 3,
    }
    for store, number in candidates.items():
        assert (stores[store].rows, stores[store].other_seconds) == (
            number,
            approx(number * 1.5e-6),
        )
    pairs = stores["duo.dev"]
    assert (pairs.rows, pairs.other_seconds) == (12, approx(12 * 4 * 3 * 1.5e-6))
    # Of each of the two requests over another run, a quarter of the 36 is taken to be shared.
    short = stores["scores@short.dev"]
    assert (short.least, short.inferences, short.most) == (0, 36 - 2 * 36 / 4, 36)
    own = "the models' rates are those of a probe on this machine"
    assert plan.forecast.notes[0] == own and len(plan.forecast.notes) == 2


def test_half_of_a_fused_runs_candidates_are_taken_to_be_scored_for_a_run_that_it_is_made_of(
    recipe, tmp_path
):
    stores = stores_of(make_plan(recipe("stages.short.run=fused"), tmp_path / "work"))
    short = stores["scores@short.dev"]
    assert (short.least, short.inferences, short.most) == (0, 0, 36)  # of two requests, a half each


def test_runs_of_documents_are_as_long_as_their_passages_runs_divided_and_the_other_way_round(
    tmp_path, tiny_model, tiny_mono
):
    """3 queries in shards of 2; of two of them the file has 4 documents."""
    write_inputs(tmp_path)
    body = recipe_of(tmp_path, tiny_model, tiny_mono)
    kept = ("embeddings", "dense", "dense-sump", "given", "windows")
    body["stages"] = {name: body["stages"][name] for name in kept}
    body["stages"]["long"] = {**body["stages"]["dense-sump"], "depth": 1000}
    body["stages"]["all"] = {"do": "passages", "run": "given", "documents": 100}
    body["models"] = {"encoder": body["models"]["encoder"]}
    body["evaluate"] = {"measures": ["RR@10"]}
    stores = stores_of(make_plan(load_recipe(body, source="documents"), tmp_path / "work"))
    splitting = Splitting("words", length=3, stride=2)
    texts = [t for n in range(12) for t in passages_of("", "", document(n)["body"], splitting)]
    assert stores["passages@collection"].rows == len(texts) == 34
    ids = 34 * ((10 * 2 + 2 * 3) / 12 + len("#00"))
    assert stores["passages@collection"].bytes == approx(sum(map(len, texts)) + ids)
    for store, number in {
        "dense-sump.test": 3 * 5,
        "long.test": 3 * 20 / (34 / 12),
        "given.test": 2 * 4,
        "windows.test": 2 * 3 * 2,  # of 3 documents the first 2 windows
        "all.test": 2 * 4 * 34 / 12,
    }.items():
        assert stores[store].bytes == approx(11 * number + 1700 * stores[store].shards), store
        assert stores[store].other_seconds == approx(number * 1.5e-6), store
