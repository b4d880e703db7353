"""Candidates, their scores and the runs made of them, by numbers small enough to write down."""

import numpy as np
import pytest

from raypipe import schema
from raypipe.errors import IncompleteError, InputError
from raypipe.stages.scoring.candidates import (
    CandidatesStage,
    Part,
    Request,
    candidates_spec,
    find_scores,
    keys_of,
)
from raypipe.stages.scoring.rerank import AggregateStage, PairsStage, RerankStage
from raypipe.stages.stage import Sizing
from raypipe.storage.spec import StageSpec

BASE = StageSpec("scores", 1, {"weights_sha256": "w"})

# Query 0 ranks passages 30, 10, 20, 40; query 1 ranks 20, 30; query 2 ranks 50 alone.
BLOCKS = (
    [(0, 30, 9.0), (0, 10, 8.0), (0, 20, 7.0), (0, 40, 6.0)],
    [(1, 20, 5.0), (1, 30, 4.0), (2, 50, 3.0)],
)


@pytest.fixture
def run(stores):
    return stores.run(*BLOCKS)


def part_of(stores, lines, *, blocks=None, skipped=()):
    """A part whose candidates are the lines' keys; lines are (query, passage, other, score)."""
    keys = [[line[i] for line in lines] for i in range(3)]
    candidates = stores.tables(
        schema.CANDIDATES, keys, ranges=[(0, 1)], facts=[{"rows": len(lines)}]
    )
    edges = [0, *(blocks or []), len(lines)]
    tables, facts = [], []
    for start, stop in zip(edges, edges[1:], strict=False):
        own = [line for n, line in enumerate(lines[start:stop], start) if n not in skipped]
        tables.append([[line[i] for line in own] for i in range(4)])
        first, last = (own[0][0], own[-1][0]) if own else (-1, -1)
        facts.append({"rows": len(own), "first_query": first, "last_query": last})
    ranges = list(zip(edges, edges[1:], strict=False))
    scores = stores.tables(schema.SCORES, *tables, ranges=ranges, facts=facts, skipped=skipped)
    return Part(candidates, scores)


def lines_of(stored, columns=schema.RUN):
    return [tuple(row.values()) for row in stored.whole_table(columns).to_pylist()]


def test_a_request_is_of_k0_candidates_or_of_the_pairs_of_k1(run):
    table = run.whole_table(schema.RUN)
    mono = Request(k0=2).keys(table)
    assert [part.tolist() for part in mono] == [[0, 0, 1, 1, 2], [10, 30, 20, 30, 50], [-1] * 5]
    duo = Request(k1=2).keys(table)
    assert [part.tolist() for part in duo] == [[0, 0, 1, 1], [10, 30, 20, 30], [30, 10, 30, 20]]
    assert Request(k0=7).k == 7 and Request(k1=5).k == 5
    assert len(Request(k1=4, sample=2, seed=1).keys(table)[0]) == 4 * 2 + 2


def test_a_requests_name_holds_the_seed_of_a_draw_only(run):
    assert Request(k1=5, seed=3).to_json() == {"k0": None, "k1": 5, "sample": None, "seed": None}
    assert Request(k1=5, sample=2, seed=3).to_json()["seed"] == 3
    assert Request(k1=5, seed=3).digest(run) == Request(k1=5, seed=4).digest(run)
    drawn = {Request(k1=5, sample=2, seed=seed).digest(run) for seed in (3, 4)}
    assert len(drawn) == 2 and Request(k0=5).digest(run) != Request(k1=5).digest(run)


def test_a_part_gives_its_keys_by_row_and_its_scores_by_query(stores):
    lines = [(0, 10, -1, 0.5), (0, 30, -1, 0.25), (1, 20, -1, 0.75), (3, 5, -1, 1.0)]
    part = part_of(stores, lines, blocks=[2, 3])
    assert part.num_rows == 4
    assert [k.tolist() for k in part.keys(1, 3)] == [[0, 1], [30, 20], [-1, -1]]
    assert keys_of(part.scored())[0].tolist() == [0, 0, 1, 3]
    assert part.scored((1, 2))["score"].to_pylist() == [0.75]
    assert part.scored((0, 1))["score"].to_pylist() == [0.5, 0.25]
    assert part.scored((2, 3)).num_rows == 0 and part.scored((3, 9)).num_rows == 1
    assert part.scored((0, 2)).num_rows == 3
    assert Part(part.candidates, None).scored() == schema.SCORES.empty_table()
    assert [k.tolist() for k in part.failed()] == [[], [], []]


def test_what_is_in_quarantine_has_failed_and_has_no_score(stores):
    lines = [(0, 10, -1, 0.5), (0, 30, -1, 0.25), (1, 20, -1, 0.75)]
    part = part_of(stores, lines, skipped=[1])
    assert [k.tolist() for k in part.failed()] == [[0], [30], [-1]]
    wanted = part.keys()
    scores, failed = find_scores([part], wanted, (0, 2), what="x")
    assert failed.tolist() == [False, True, False]
    assert scores[[0, 2]].tolist() == [0.5, 0.75] and np.isnan(scores[1])


def test_a_candidate_that_failed_once_and_was_scored_by_another_part_has_a_score(stores):
    first = part_of(stores, [(0, 10, -1, 0.5), (0, 30, -1, 0.25)], skipped=[1])
    second = part_of(stores, [(0, 30, -1, 0.125)])
    scores, failed = find_scores([first, second], first.keys(), (0, 1), what="x")
    assert scores.tolist() == [0.5, 0.125] and not failed.any()


def test_candidates_without_a_score_are_counted_and_refused(stores):
    part = part_of(stores, [(0, 10, -1, 0.5)])
    wanted = (np.array([0, 0, 1]), np.array([10, 30, 10]), np.array([-1, -1, -1]))
    with pytest.raises(IncompleteError, match="x: 2 of 3 candidates have no score"):
        find_scores([part], wanted, (0, 2), what="x")
    with pytest.raises(IncompleteError, match="3 of 3"):
        find_scores([], wanted, (0, 2), what="x")


def test_a_part_is_what_the_request_wants_and_no_part_before_has(stores, run):
    held = part_of(stores, [(0, 30, -1, 0.5), (1, 20, -1, 0.25), (2, 50, -1, 0.125)], skipped=[1])
    first = CandidatesStage(BASE, 1, run, Request(k0=2), ())
    made = stores.finished(first)
    assert lines_of(made, schema.CANDIDATES) == [
        (0, 10, -1), (0, 30, -1), (1, 20, -1), (1, 30, -1), (2, 50, -1),
    ]  # fmt: skip
    beats = []
    second = CandidatesStage(BASE, 2, run, Request(k0=3), (held,))
    left = stores.finished(second, beats=beats)
    # Of 20 for query 1 the score failed: it is not tried again.
    assert lines_of(left, schema.CANDIDATES) == [(0, 10, -1), (0, 20, -1), (1, 30, -1)]
    facts = left.manifest.records[0].facts
    assert facts["rows"] == 3 and facts["wanted"] == 6 and beats == [[], []]
    assert facts["request"] == Request(k0=3).digest(run)
    assert left.manifest.records[0].shard.num_rows == 1


def test_the_number_of_a_part_and_its_table_name_it_and_the_request_does_not(stores, run):
    one = CandidatesStage(BASE, 1, run, Request(k0=2), ()).spec
    assert one == CandidatesStage(BASE, 1, run, Request(k0=3), ()).spec == candidates_spec(BASE, 1)
    assert one.fingerprint() != candidates_spec(BASE, 2).fingerprint()
    other = StageSpec("scores", 1, {"weights_sha256": "v"})
    assert one.fingerprint() != candidates_spec(other, 1).fingerprint()


MONO = [(0, 10, -1, 2.0), (0, 20, -1, 3.0), (0, 30, -1, 1.0), (1, 20, -1, 0.5), (1, 30, -1, 0.75),
        (2, 50, -1, 0.25)]  # fmt: skip


@pytest.mark.parametrize("block", [1, 2, 7])
def test_a_reranked_run_is_written_by_query_block_with_its_tail_below(stores, run, block):
    part = part_of(stores, MONO, blocks=[2])
    stage = RerankStage("mono", run, BASE, Request(k0=3), "keep", 3, (part,))
    made = stores.finished(stage, Sizing(shard_queries=block))
    assert lines_of(made) == [
        (0, 20, 1, 3.0, "mono"), (0, 10, 2, 2.0, "mono"), (0, 30, 3, 1.0, "mono"),
        (0, 40, 4, 6.0, "bm25"),
        (1, 30, 1, 0.75, "mono"), (1, 20, 2, 0.5, "mono"),
        (2, 50, 1, 0.25, "mono"),
    ]  # fmt: skip
    assert [r.facts["rows"] for r in made.manifest.records] == {
        1: [4, 2, 1], 2: [4, 3], 7: [7],
    }[block]  # fmt: skip


def test_a_reranked_run_without_its_tail_and_with_a_failed_candidate(stores, run):
    part = part_of(stores, MONO, skipped=[1])
    stage = RerankStage("mono", run, BASE, Request(k0=3), "drop", 3, (part,))
    rows = [(query, row) for query, row, *_ in lines_of(stores.finished(stage))]
    assert rows == [(0, 10), (0, 30), (1, 30), (1, 20), (2, 50)]


def test_what_names_a_reranked_run_is_its_request_tail_scores_and_run(stores, run):
    stage = RerankStage("mono", run, BASE, Request(k0=3), "keep", 3)
    names = {stage.spec.fingerprint()}
    for change in (
        RerankStage("mono", run, BASE, Request(k0=2), "keep", 3),
        RerankStage("mono", run, BASE, Request(k0=3), "drop", 3),
        RerankStage("mono", run, StageSpec("scores", 1), Request(k0=3), "keep", 3),
        RerankStage("mono", stores.run(*BLOCKS[:1]), BASE, Request(k0=3), "keep", 3),
    ):
        names.add(change.spec.fingerprint())
    assert len(names) == 5


# p(i, j) of query 0 over passages 10, 20, 30 and of query 1 over 20, 30.
DUO = [(0, 10, 20, 0.25), (0, 10, 30, 0.5), (0, 20, 10, 0.75), (0, 20, 30, 1.0),
       (0, 30, 10, 0.5), (0, 30, 20, 0.0), (1, 20, 30, 0.25), (1, 30, 20, 0.875)]  # fmt: skip


def pairs_of(stores, run, **settings):
    part = part_of(stores, DUO, blocks=[4], **settings)
    stage = PairsStage("duo", run, BASE, Request(k1=3), 3, (part,))
    return stage, stores.finished(stage, Sizing(shard_queries=2))


def test_pairs_are_the_scores_of_the_first_k1_by_query_block(stores, run):
    stage, made = pairs_of(stores, run)
    assert lines_of(made, schema.SCORES) == DUO
    assert [dict(r.facts) for r in made.manifest.records] == [
        {"rows": 6, "failed": 0},
        {"rows": 2, "failed": 0},
    ]
    other = PairsStage("duo", run, BASE, Request(k1=2), 3)
    assert other.spec.fingerprint() != stage.spec.fingerprint()


def test_pairs_in_quarantine_are_left_out_and_counted(stores, run):
    _, made = pairs_of(stores, run, skipped=[0, 5])
    assert lines_of(made, schema.SCORES) == [DUO[i] for i in (1, 2, 3, 4, 6, 7)]
    assert [r.facts["failed"] for r in made.manifest.records] == [2, 0]


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        ("sum", [(20, 1.75), (10, 0.75), (30, 0.5)]),
        ("min", [(20, 0.75), (10, 0.25), (30, 0.0)]),
        ("max", [(20, 1.0), (10, 0.5), (30, 0.5)]),
        ("binary", [(20, 2.0), (10, 0.0), (30, 0.0)]),
    ],
)
def test_aggregated_runs_have_the_order_of_their_sums(stores, run, method, expected):
    _, pairs = pairs_of(stores, run)
    stage = AggregateStage("duo-x", run, pairs, Request(k1=3), method, "keep", 3)
    found = lines_of(stores.finished(stage, Sizing(shard_queries=2)))
    assert [(row, score) for query, row, _, score, _ in found if query == 0] == [
        *expected, (40, 6.0),
    ]  # fmt: skip
    assert [row for query, row, *_ in found if query == 1] == [30, 20]
    # A lone candidate was compared with nothing and keeps its place, with 0.
    assert [line for line in found if line[0] == 2] == [(2, 50, 1, 0.0, "duo-x")]
    assert [line[4] for line in found[:4]] == ["duo-x"] * 3 + ["bm25"]


def test_an_aggregate_of_failed_pairs_uses_the_others_and_drops_who_has_none(stores, run):
    _, pairs = pairs_of(stores, run, skipped=[2, 6])
    stage = AggregateStage("duo-sum", run, pairs, Request(k1=3), "sum", "drop", 3)
    found = lines_of(stores.finished(stage))
    # 20 keeps p(20, 30) alone; 20 of query 1 has no pair left and is ranked nowhere.
    assert [(q, row, score) for q, row, _, score, _ in found] == [
        (0, 20, 1.0), (0, 10, 0.75), (0, 30, 0.5), (1, 30, 0.875), (2, 50, 0.0),
    ]  # fmt: skip


def test_a_pair_that_nobody_scored_is_never_made_up(stores, run):
    _, pairs = pairs_of(stores, run)
    stage = AggregateStage("duo-sum", run, pairs, Request(k1=4), "sum", "keep", 3)
    with pytest.raises(InputError, match="duo-sum: 6 of 14 pairs that sum needs"):
        stores.finished(stage)


def test_what_names_an_aggregate_is_its_method_tail_request_run_and_pairs(stores, run):
    _, pairs = pairs_of(stores, run)
    names = set()
    for request, method, tail in [
        (Request(k1=3), "sum", "keep"),
        (Request(k1=3), "min", "keep"),
        (Request(k1=3), "sum", "drop"),
        (Request(k1=2), "sum", "keep"),
    ]:
        stage = AggregateStage("duo", run, pairs, request, method, tail, 3)
        names.add(stage.spec.fingerprint())
    assert len(names) == 4
