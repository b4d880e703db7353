from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

from raypipe import schema
from raypipe.errors import InputError
from raypipe.kinds.aggregate import Aggregate
from raypipe.report.cells import (
    DRAWS,
    K0S,
    K1S,
    NUM_SEEDS,
    Cell,
    MeasuredCosts,
    Setting,
    Stages,
    cell_run,
    cheapest,
    costs_of,
    settings,
    wanted_pairs,
)


@pytest.mark.parametrize(
    ("setting", "on_paper"),
    [
        (Setting(1000), 1000),
        (Setting(1000, 50, "sum"), 1000 + 50 * 49),
        (Setting(1000, 50, "sample", 20), 1000 + 50 * 19),
    ],
)
def test_inferences_on_the_papers_axes(setting, on_paper):
    assert setting.on_paper == on_paper


def test_inferences_really_needed_are_those_of_the_lists():
    assert Cell(Setting(1000, 50, "sum"), 700.5, 2000, {}).needed == 2700.5


def test_the_grid_has_every_method_and_only_draws_that_leave_pairs_out():
    found = settings([50, 100], [10, 30])
    assert [s for s in found if s.k0 == 50 and not s.k1] == [Setting(50)]
    of_ten = [(s.method, s.m) for s in found if s.k0 == 100 and s.k1 == 10]
    assert of_ten == [(name, None) for name in ("sum", "binary", "min", "max")]
    assert [s.m for s in found if s.k0 == 50 and s.k1 == 30 and s.m] == [10, 20]
    assert [s.m for s in settings([50], [11]) if s.m] == [], "10 of the 10 others are all pairs"


RUN = pa.table(
    [
        pa.array([0, 0, 0], pa.int32()),
        pa.array([5, 6, 7], pa.int64()),
        pa.array([1, 2, 3], pa.int32()),
        pa.array([3.0, 2.0, 1.0], pa.float32()),
        pa.array(["mono"] * 3),
    ],
    schema=schema.RUN,
)
HELD = tuple(np.array(c, np.int64) for c in ([0] * 4, [5, 5, 6, 7], [6, 7, 5, 5]))
SCORES = np.array([0.2, 0.9, 0.8, 0.1], np.float32)


def test_a_cell_is_made_of_the_pairs_that_are_held():
    pair = Setting(3, 2, "sum")
    assert [c.tolist() for c in wanted_pairs(RUN, pair, 0)] == [[0, 0], [5, 6], [6, 5]]
    wanted = wanted_pairs(RUN, pair, 0)
    found = cell_run(RUN, pair, wanted, HELD, SCORES)
    assert found["passage_row"].to_pylist() == [6, 5, 7]
    alone = cell_run(RUN, pair, wanted, HELD, SCORES, tail="drop")
    assert alone["passage_row"].to_pylist() == [6, 5]


def test_a_draw_asks_for_m_pairs_of_each_and_depends_on_the_seed():
    run = pa.table(
        [
            pa.array([0] * 9, pa.int32()),
            pa.array(range(9), pa.int64()),
            pa.array(range(1, 10), pa.int32()),
            pa.array([1.0] * 9, pa.float32()),
            pa.array(["mono"] * 9),
        ],
        schema=schema.RUN,
    )
    draws = [wanted_pairs(run, Setting(9, 6, "sample", 2), seed) for seed in (0, 1)]
    for queries, first, second in draws:
        assert first.tolist() == [i for i in range(6) for _ in range(2)]
        assert set(second.tolist()) <= set(range(6)) and not any(first == second)
        assert len(queries) == 12
    assert draws[0][2].tolist() != draws[1][2].tolist()


def test_a_draw_is_charged_only_the_pairs_that_it_needs():
    """43 queries, k0 100, k1 10, m 5: 43 (100 + 10 * 5), and not 43 (100 + 10 * 9)."""
    lines = [(q, p, p + 1, 1.0, "mono") for q in range(43) for p in range(100)]
    run = pa.Table.from_pylist(
        [dict(zip(schema.RUN.names, line, strict=True)) for line in lines], schema=schema.RUN
    )
    needed = {
        method: len(run) + len(wanted_pairs(run, Setting(100, 10, method, m), 0)[0])
        for method, m in (("sample", 5), ("sum", None))
    }
    assert needed == {"sample": 6450, "sum": 8170}
    assert Setting(100, 10, "sample", 5).on_paper == 100 + 10 * 4


def test_the_grid_is_the_papers():
    assert (K0S, K1S) == ((50, 100, 200, 500, 1000), (10, 20, 30, 40, 50))
    assert (DRAWS, NUM_SEEDS) == ((10, 20, 30, 40), 10)


def test_pairs_that_were_not_scored_are_named_and_never_made_up():
    whole = Setting(3, 3, "sum")
    wanted = wanted_pairs(RUN, whole, 0)
    with pytest.raises(InputError, match="2 of 6 pairs"):
        cell_run(RUN, whole, wanted, HELD, SCORES)


def test_the_cheapest_cell_within_a_loss_of_the_best():
    told = [(Setting(50), 50, 0, 0.30), (Setting(50, 10, "sum"), 50, 90, 0.38),
            (Setting(50, 10, "min"), 50, 90, 0.39), (Setting(100, 50, "sum"), 100, 2450, 0.40),
            (Setting(100, 40, "sum"), 20, 9, 0.395)]  # fmt: skip
    cells = [Cell(setting, k0, pairs, {"RR@10": mean}) for setting, k0, pairs, mean in told]
    assert cheapest(cells, "RR@10", 0.0) == cells[3]
    assert cheapest(cells, "RR@10", 0.009) == cells[4], "its lists were short"
    assert cheapest(cells[:4], "RR@10", 0.02) == cells[2], "as cheap as sum, and better"
    assert cheapest(cells[:4], "RR@10", 0.2) == cells[0]
    assert cheapest([], "RR@10", 0.1) is None


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
