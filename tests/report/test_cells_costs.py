from types import SimpleNamespace

import pytest

from raypipe.config.stages import Aggregate
from raypipe.report.cells import Cell, MeasuredCosts, Setting, Stages, costs_of

ALONE = Cell(Setting(8), 6.5, 0, {})
PAIRED = Cell(Setting(8, 5, "sum"), 6.5, 20, {})
FIRST = {"ms_per_query": 2.0, "inferences": None}
MONO = {"ms_per_query": 8.0, "inferences": 30}
DUO = {"ms_per_query": 20.0, "inferences": 60}


def of(first=FIRST, mono=MONO, duo=DUO):
    """Of one chain; `duo` is None where its stage was not run. The pairs are in two shards."""
    told = {"first": first, "mono": mono, **({} if duo is None else {"duo": duo})}
    records = [SimpleNamespace(facts={"rows": number}) for number in (60, 40)]
    pairs = SimpleNamespace(manifest=SimpleNamespace(records=records))
    finished = SimpleNamespace(
        summary={"systems": {"test": told}},
        queries=lambda query_set: range(10),
        recipe=SimpleNamespace(stages={"duo": Aggregate(do="aggregate", pairs="p", method="sum")}),
        stored=lambda name: {"p.test": pairs}[str(name)],
    )
    stages = Stages("p", duo=SimpleNamespace(run="mono"), mono=SimpleNamespace(run="first"))
    return costs_of(finished, "test", stages)


def test_times_add_each_rerankers_inferences():
    """60 ms for 30 inferences over 10 queries; 120 ms for 100 pairs, of which it needs 30."""
    costs = of()
    assert (costs.first, costs.single, costs.pair) == (2.0, pytest.approx(2), pytest.approx(1.2))
    assert costs.of(ALONE) == pytest.approx(2 + 6.5 * 2)
    assert costs.of(PAIRED) == pytest.approx(2 + 6.5 * 2 + 20 * 1.2)


def test_a_time_that_is_not_known_is_not_told():
    unknown = {"ms_per_query": None, "inferences": 30}
    assert of(mono=unknown) == MeasuredCosts(2.0, None, None) and of(mono=unknown).of(ALONE) is None
    assert of(mono=FIRST).single is None, "no inference more than below it"
    assert of(duo=None).of(PAIRED) is None
    assert of(duo=None).of(ALONE) == pytest.approx(15)
    assert of(first=unknown).of(ALONE) is None
