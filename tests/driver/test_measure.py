from types import SimpleNamespace

from raypipe.config.parts import Evaluate
from raypipe.driver.execute import StoreCost
from raypipe.driver.measure import _ms, notes_of
from raypipe.driver.recipe.graph import Chain
from raypipe.names import Role, of_stage

ONE, TWO = of_stage("a", "dev"), of_stage("b", "dev")


def stored(rows=5):
    return SimpleNamespace(num_rows=rows)


def test_a_systems_time_is_that_of_its_chain_where_all_is_known():
    costs = {ONE: StoreCost(1.0), TWO: StoreCost(0.5)}
    assert _ms(Chain((ONE, TWO)), costs, 4) == 375.0  # 1500 ms over 4 queries
    assert _ms(Chain((ONE,)), {ONE: StoreCost(1.0)}, 3) == 333.33
    scores = of_stage("a", "dev", Role.SCORES)
    assert _ms(Chain((ONE, scores)), {**costs, scores: StoreCost(0.5)}, 4) == 375.0
    copied = {**costs, scores: StoreCost(0.5, 1)}  # a copied score took its time elsewhere
    assert _ms(Chain((ONE, scores)), copied, 4) is None and _ms(Chain((ONE,)), copied, 4) == 250.0
    assert (
        _ms(Chain((ONE,)), {ONE: StoreCost(1.0, 9)}, 4) == 250.0
    )  # copied rows that are no scores
    assert _ms(Chain((ONE, TWO)), {ONE: StoreCost(1.0)}, 4) is None
    assert _ms(Chain((ONE, TWO)), {ONE: StoreCost(1.0), TWO: StoreCost(None)}, 4) is None
    assert _ms(Chain(()), costs, 4) is None and _ms(Chain((ONE,)), costs, 0) is None
    assert _ms(Chain((ONE,)), {ONE: StoreCost(0.0)}, 4) == 0.0


def test_a_table_without_its_baseline_says_so():
    graph = SimpleNamespace(
        recipe=SimpleNamespace(collection=SimpleNamespace(format="msmarco-doc-v1")),
        collection=lambda: stored(),
        documents=lambda: stored(),
        queries=lambda name: stored(),
    )
    measured = {"maxp": SimpleNamespace(missing_queries=())}
    told = {}
    for baseline in ("bm25", "maxp", None):
        wanted = Evaluate(measures=("RR@10",), baseline=baseline)
        told[baseline] = notes_of(graph, wanted, "dev", measured, {"maxp": {}}, "documents")
    line = "no differences: the baseline, bm25, is not in this table"
    assert told["bm25"] == [*told["maxp"], line] and told["maxp"] == told[None]
