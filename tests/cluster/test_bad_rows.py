import pytest
from scripted_loop import SHARDS
from simulated import SimulatedLedger

from raypipe.cluster.failures import Case, evidence_name, read_evidence
from raypipe.storage.records import Shard


def test_evidence_is_read_once():
    ledger = SimulatedLedger(SHARDS)
    assert evidence_name(ledger, SHARDS[2]) == "nonce/simulated-0/2.rows"
    assert read_evidence(ledger, SHARDS[2]) == ()
    ledger.storage.replace("nonce/simulated-0/2.rows", b"[20, 21]")
    assert read_evidence(ledger, SHARDS[2]) == (20, 21) and read_evidence(ledger, SHARDS[2]) == ()


@pytest.mark.parametrize(("width", "deaths"), [(2, 1), (3, 1), (4, 2), (5, 2)])
def test_a_row_alone_is_bad_after_one_death_and_of_a_large_batch_after_two(width, deaths):
    case = Case(careful=True)
    assert case.died(tuple(range(width)), "x") is None
    assert (case.width, case.alone) == (width, 0)
    found, alone = None, 0
    while found is None:
        assert case.probe() == case.suspects[: -(-len(case.suspects) // 2)]
        alone += len(case.probed) == 1
        found = case.died(case.probed, "x")
    assert alone == deaths
    assert found == 0 and case.bad == {0: "its worker died: x"} and case.suspects == ()


def test_what_is_bad_is_left_out_in_order_and_probes_leave_out_all_others():
    case = Case(bad={14: "x", 11: "y"})
    assert case.skip(SHARDS[1]) == (11, 14)
    case.suspects = (12, 13, 15)
    assert case.skip(SHARDS[1]) == (10, 11, 14, 15, 16, 17, 18, 19)
    assert case.survived() and case.suspects == (15,)
    assert not Case(suspects=(1,), probed=(1,)).survived()


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
