from types import SimpleNamespace

from raypipe.config import Evaluate
from raypipe.driver.measure import _ms, notes_of
from raypipe.driver.recipe.system import Chain
from raypipe.names import Role, of_stage

ONE, TWO = of_stage("a", "dev"), of_stage("b", "dev")


def stored(seconds, rows=5):
    return SimpleNamespace(working_seconds=seconds, num_rows=rows)


def test_a_systems_time_is_that_of_its_chain_where_all_is_known():
    results = {ONE: stored(1.0), TWO: stored(0.5)}
    assert _ms(Chain((ONE, TWO)), results, 4) == 375.0  # 1500 ms over 4 queries
    assert _ms(Chain((ONE,)), {ONE: stored(1.0)}, 3) == 333.33
    scores = of_stage("a", "dev", Role.SCORES)
    made = {**results, scores: SimpleNamespace(**vars(stored(0.5)), num_copied_when_made=0)}
    assert _ms(Chain((ONE, scores)), made, 4) == 375.0
    made[scores].num_copied_when_made = 1  # a copied score took its time elsewhere
    assert _ms(Chain((ONE, scores)), made, 4) is None and _ms(Chain((ONE,)), made, 4) == 250.0
    assert _ms(Chain((ONE, TWO)), {ONE: stored(1.0)}, 4) is None
    assert _ms(Chain((ONE, TWO)), {ONE: stored(1.0), TWO: stored(None)}, 4) is None
    assert _ms(Chain(()), results, 4) is None and _ms(Chain((ONE,)), results, 0) is None
    assert _ms(Chain((ONE,)), {ONE: stored(0.0)}, 4) == 0.0


def test_a_table_without_its_baseline_says_so():
    graph = SimpleNamespace(
        recipe=SimpleNamespace(collection=SimpleNamespace(format="msmarco-doc-v1")),
        collection=lambda: stored(0.0),
        documents=lambda: stored(0.0),
        queries=lambda name: stored(0.0),
    )
    measured = {"maxp": SimpleNamespace(missing_queries=())}
    told = {}
    for baseline in ("bm25", "maxp", None):
        wanted = Evaluate(measures=("RR@10",), baseline=baseline)
        told[baseline] = notes_of(graph, wanted, "dev", measured, {}, "documents")
    line = "no differences: the baseline, bm25, is not in this table"
    assert told["bm25"] == [*told["maxp"], line] and told["maxp"] == told[None]
