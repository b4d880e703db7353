from raypipe.driver.recipe.system import Chain
from raypipe.names import Role, of_stage

ONE, TWO, SCORES = of_stage("a", "dev"), of_stage("b", "dev"), of_stage("a", "dev", Role.SCORES)


def test_chains_are_joined_once_each_in_order():
    joined = Chain((ONE,)).then(Chain((TWO, ONE)), Chain((SCORES,)))
    assert joined == Chain((ONE, TWO, SCORES))
    assert Chain().then() == Chain(())
