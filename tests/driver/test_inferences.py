"""Inferences of systems that share scores, by hand and by brute force."""

from types import SimpleNamespace

import pytest
from given_stores import Stores
from run_with_tails import run_of

from raypipe import schema
from raypipe.driver.measure import BLOCK, _number, inferences
from raypipe.driver.recipe.graph import Chain, ScoreRequest
from raypipe.names import Role, of_stage
from raypipe.stages.scoring.candidates import Request

MONO, MORE, DUO = (of_stage(stage, "dev", Role.SCORES) for stage in ("mono", "more", "duo"))
LENGTHS = {0: 4, 1: 1, 3: 3, 2 * BLOCK + 5: 6}
"""Query row -> candidates; the query of row 2 has none."""


@pytest.fixture
def asked(tmp_path):
    """Makes a request for a run of these lengths, whose passages begin with a number."""
    stores = Stores(tmp_path)

    def make(table, begin=0, **request):
        lines = [
            (query, begin + rank, rank, -float(rank), "x")
            for query, length in LENGTHS.items()
            for rank in range(1, length + 1)
        ]
        run = stores.tables(schema.RUN, run_of(*lines), ranges=[(0, 2 * BLOCK + 6)])
        return ScoreRequest(table, Request(**request), f"run{begin}", run)

    return make


def test_the_numbers_are_those_of_the_candidates(asked):
    for request, expected in (
        ({"k0": 3}, 3 + 1 + 3 + 3),
        ({"k1": 3}, 6 + 0 + 6 + 6),
        ({"k1": 5, "sample": 2, "seed": 1}, 4 * 2 + 0 + 3 * 2 + 5 * 2),
    ):
        each = asked("t", **request)
        keys = each.request.keys(each.run.whole_table(schema.RUN))
        assert _number((each,)) == len(keys[0]) == expected


def test_candidates_that_two_requests_have_in_common_count_once(asked):
    """The first 3 of passages 1 to n, and of 3 to n + 2: only passage 3 is in both."""
    both = (asked("t", k0=3), asked("t", begin=2, k0=3))
    assert _number(both) == (3 + 3 - 1) + (1 + 1) + (3 + 3 - 1) + (3 + 3 - 1)
    assert _number((*both, both[0])) == _number(both)
    drawn = (asked("t", k1=6), asked("t", k1=6, sample=2))
    assert _number(drawn) == _number(drawn[:1])


def system(name, stores, asked):
    return SimpleNamespace(name=name, chain=Chain((of_stage(name, "dev"), *stores), asked))


def stored(rows, copied=0):
    return SimpleNamespace(num_rows=rows, num_copied=copied)


def test_a_store_counts_for_the_first_system_that_has_it(asked):
    mono, duo = asked("mono", k0=3), asked("duo", k1=3)
    drawn = asked("duo", k1=3, sample=1)
    systems = [
        system("first", (), ()),
        system("mono", (MONO,), (mono,)),
        system("sum", (MONO, DUO), (mono, duo)),
        system("sample", (MONO, DUO), (mono, drawn)),
        system("both", (MONO, MORE), (mono, asked("mono", begin=2, k0=3))),
    ]
    results = {MONO: stored(10, 4), DUO: stored(18), MORE: stored(7)}
    found = inferences(systems, results, results)
    assert found == {
        "mono": {"inferences": 10, "computed": 6, "copied": 4},
        "sum": {"inferences": 28, "computed": 18, "copied": 0},
        "sample": {"inferences": 10 + 9, "computed": 0, "copied": 0},
        "both": {"inferences": 17, "computed": 7, "copied": 0},
    }
    assert sum(each["computed"] + each["copied"] for each in found.values()) == 10 + 18 + 7
