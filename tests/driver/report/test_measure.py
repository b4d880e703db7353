from types import SimpleNamespace

from raypipe.driver.recipe.chain import Chain
from raypipe.driver.report.measure import _inferences, _ms
from raypipe.names import Role, of_stage, scoring_of

ONE, TWO = of_stage("a", "dev"), of_stage("b", "dev")


SCORES = scoring_of(Role.SCORES, "m", "dev", 1)


def stored(seconds, rows=5):
    return SimpleNamespace(working_seconds=seconds, num_rows=rows)


def test_a_systems_time_is_that_of_its_chain_where_all_is_known():
    results = {ONE: stored(1.0), TWO: stored(0.5)}
    assert _ms(Chain((ONE, TWO)), results, 4) == 375.0  # 1500 ms over 4 queries
    assert _ms(Chain((ONE,)), {ONE: stored(1.0)}, 3) == 333.33
    assert _ms(Chain((ONE, TWO), held=True), results, 4) is None
    assert _ms(Chain((ONE, TWO)), {ONE: stored(1.0)}, 4) is None
    assert _ms(Chain((ONE, TWO)), {ONE: stored(1.0), TWO: stored(None)}, 4) is None
    assert _ms(Chain(()), results, 4) is None and _ms(Chain((ONE,)), results, 0) is None
    assert _ms(Chain((ONE,)), {ONE: stored(0.0)}, 4) == 0.0


def test_inferences_are_the_rows_of_scores_alone():
    results = {ONE: stored(1.0), SCORES: stored(1.0, 7)}
    assert _inferences(Chain((ONE, SCORES)), results) == 7
    assert _inferences(Chain((ONE, SCORES), held=True), results) is None
    assert _inferences(Chain((ONE,)), results) is None
