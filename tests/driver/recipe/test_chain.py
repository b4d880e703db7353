from raypipe.driver.recipe.chain import Chain
from raypipe.names import Role, of_stage, scoring_of

ONE, TWO = of_stage("a", "dev"), of_stage("b", "dev")


SCORES = scoring_of(Role.SCORES, "m", "dev", 1)


def test_chains_are_joined_once_each_in_order():
    joined = Chain((ONE,)).then(Chain((TWO, ONE)), Chain((SCORES,), held=True))
    assert joined == Chain((ONE, TWO, SCORES), held=True)
    assert Chain().then() == Chain((), held=False)
