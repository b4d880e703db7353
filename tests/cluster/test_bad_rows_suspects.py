from raypipe.cluster.bad_rows import Case
from raypipe.storage.records import Shard


def test_a_death_of_another_cause_during_a_probe_convicts_nobody():
    """The worker dies over row 5, but once: the second try alone survives."""
    case = Case()
    shard = Shard(0, 0, 16)
    assert case.died((), "x") is None and case.careful
    assert case.died(tuple(range(16)), "x") is None
    while len(case.suspects) > 1:
        kept = set(range(16)) - set(case.skip(shard))
        assert case.died(tuple(sorted(kept)), "x") is None
    assert len(set(range(16)) - set(case.skip(shard))) == 1
    assert not case.survived(), "no suspect is left, and nothing is explained"
    assert case.bad == {}


def test_a_row_without_a_value_found_during_a_probe_is_suspected_no_more():
    case = Case(careful=True)
    shard = Shard(0, 0, 8)
    case.died(tuple(range(8)), "x")
    case.skip(shard)
    case.exclude({0: "not finite", 5: "not finite"})
    assert case.suspects == (1, 2, 3, 4, 6, 7)
    assert not {0, 5} & (set(range(8)) - set(case.skip(shard)))
