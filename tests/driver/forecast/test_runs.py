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
        "fused.dev": 12 * (230 + 5),  # as if no passage were in both
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
    assert stores["scores@short.dev"].inferences == 36  # though some may have scores by then
    own = "the models' rates are those of a probe on this machine"
    assert plan.forecast.notes == [own]


def test_runs_of_documents_have_no_more_lines_than_passages_runs_and_the_other_way_round(
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
        "long.test": 3 * 12,  # no more than there are documents
        "given.test": 2 * 4,
        "windows.test": 2 * 4 * 2,  # of the first documents the first 2 windows
        "all.test": 2 * 4 * 3,  # 34 passages of 12 documents, rounded up
    }.items():
        assert stores[store].bytes == approx(11 * number + 1700 * stores[store].shards), store
        assert stores[store].other_seconds == approx(number * 1.5e-6), store
