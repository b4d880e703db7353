"""Drift between two runs, and the limits on it, by hand."""

import pyarrow as pa
import pytest

from raypipe import schema
from raypipe.driver.generations.drift import (
    Drift,
    DriftLimit,
    counterpart,
    drift,
    limits_of,
)
from raypipe.errors import InputError
from raypipe.evaluation.overlap import rank_biased_overlap
from raypipe.storage.generations import Generation
from raypipe.storage.ledger import Ledger
from raypipe.storage.posix import PosixStorage
from raypipe.storage.records import Manifest, Shard
from raypipe.storage.spec import StageSpec
from raypipe.storage.store import Stored


def run(**rankings):
    lines = [
        (query, passage, rank, float(-rank))
        for query, ranking in rankings.items()
        for rank, passage in enumerate(ranking, start=1)
    ]
    return pa.table([list(column) for column in zip(*lines, strict=True)], schema=schema.RUN_FILE)


def judged(*lines):
    columns = [list(column) for column in zip(*lines, strict=True)]
    return pa.table(columns, names=["query_id", "passage_id", "relevance"])


OLDER = run(q="abc", r="xyz")
NEWER = run(q="abd", r="xyz")


def test_overlaps_are_means_over_queries_and_passages_are_counted():
    found = drift(OLDER, NEWER)
    rbo = rank_biased_overlap("abc", "abd", p=0.9)
    assert found.means == {
        "overlap@10": pytest.approx((2 / 3 + 1) / 2),
        "overlap@100": pytest.approx((2 / 3 + 1) / 2),
        "rbo": pytest.approx((rbo + 1) / 2),
    }
    assert (found.gained, found.lost, found.measures) == (1, 1, {})
    assert found.moved == (("q", pytest.approx(rbo)), ("r", pytest.approx(1.0)))


def test_a_query_of_one_run_alone_has_moved_wholly():
    found = drift(run(q="ab"), run(q="ab", r="c"))
    assert found.means["overlap@10"] == 0.5 and found.moved[0] == ("r", 0.0)
    assert (found.gained, found.lost) == (1, 0)


def test_only_the_first_ten_count_as_gained_and_lost():
    letters = "abcdefghijklm"
    found = drift(run(q=letters), run(q=letters[:10] + "nop"))
    assert (found.gained, found.lost) == (0, 0)
    assert found.means["overlap@10"] == 1 and found.means["overlap@100"] == pytest.approx(10 / 13)


def test_measures_are_given_raw_and_over_judged_passages():
    # Query q: c alone is relevant. Before it stands at 3 of abc, after a new passage at 4.
    qrels = judged(("q", "c", 1), ("q", "b", 0))
    found = drift(run(q="abc"), run(q="nabc"), qrels, ["RR@10"]).measures
    assert found["RR@10"] == pytest.approx((1 / 3, 1 / 4))
    assert found["judged RR@10"] == pytest.approx((1 / 2, 1 / 2))  # b, c
    assert found["Judged@10"] == pytest.approx((2 / 3, 2 / 4))


def test_a_run_without_judged_passages_has_measures_of_0():
    found = drift(run(q="abc"), run(q="xyz"), judged(("q", "c", 1)), ["RR@10"]).measures
    assert found["judged RR@10"] == (1.0, 0.0) and found["RR@10"] == (pytest.approx(1 / 3), 0.0)
    found = drift(run(q="abc"), run(r="xyz"), judged(("q", "c", 1)), ["RR@10"]).measures
    assert found["RR@10"] == (pytest.approx(1 / 3), 0.0)


def test_limits_on_overlap_are_floors_and_on_a_measure_a_fall():
    found = Drift(means={"overlap@10": 0.8, "rbo": 0.7}, measures={"RR@10": (0.5, 0.375)})
    assert DriftLimit("overlap@10", 0.8).problem(found) is None
    assert DriftLimit("overlap@10", 0.81).problem(found) == "overlap@10 0.8000 < 0.81"
    assert DriftLimit("RR@10", 0.125).problem(found) is None
    assert DriftLimit("RR@10", 0.1).problem(found) == "RR@10 fell by 0.1250 > 0.1"
    assert DriftLimit("AP", 0.0).problem(found) is None
    risen = Drift(means={}, measures={"RR@10": (0.375, 0.5)})
    assert DriftLimit("RR@10", 0.0).problem(risen) is None


def test_limits_are_read_from_texts_and_all_wrong_ones_are_named():
    assert limits_of(["overlap@100=.5", "nDCG@10=0.02"], ["nDCG@10"]) == [
        DriftLimit("overlap@100", 0.5),
        DriftLimit("nDCG@10", 0.02),
    ]
    assert limits_of(["RR(rel=2)@10=1"], ["RR(rel=2)@10"]) == [DriftLimit("RR(rel=2)@10", 1.0)]
    wrong = ["overlap@5=0.5", "rbo", "rbo=", "rbo=nan", "rbo=1.5", "rbo=-1", "AP=0.1"]
    with pytest.raises(InputError) as caught:
        limits_of([*wrong, "rbo=0.5"], ["nDCG@10"])
    assert len(caught.value.problems) == len(wrong)
    assert "overlap@10, overlap@100, rbo, nDCG@10" in caught.value.problems[0]


def test_a_store_of_the_same_name_that_is_no_run_is_not_compared(tmp_path):
    """As of a stage that scored pairs, and fuses runs now."""
    storage, spec = PosixStorage(tmp_path), StageSpec("score", 1, {}, produces="pairs")
    Ledger(storage, "one.dev", spec, [Shard(0, 0, 1)])
    base = Generation("nightly", 1, {"one.dev": spec.fingerprint()})
    now = Stored(storage, Manifest("one.dev", "other", (), ()))
    with pytest.raises(LookupError, match=r"its one\.dev is no run"):
        counterpart(storage, base, now, now)


def test_drift_is_plain_json():
    body = drift(OLDER, NEWER, judged(("q", "a", 1)), ["RR@10"]).to_json()
    assert body["measures"]["RR@10"] == [1.0, 1.0] and body["moved"][1] == ["r", 1.0]
