import pytest
from given_scores import BASE, BLOCKS, lines_of, scored_of

from raypipe import schema
from raypipe.errors import InputError
from raypipe.ranking.blend import Blend
from raypipe.stages.scoring.candidates import Request
from raypipe.stages.scoring.rerank import aggregate_stage, pairs_stage, rerank_stage
from raypipe.stages.stage import Sizing
from raypipe.storage.spec import StageSpec
from raypipe.storage.store import spec_over


@pytest.fixture
def run(stores):
    return stores.run(*BLOCKS)


MONO = [(0, 10, -1, 2.0), (0, 20, -1, 3.0), (0, 30, -1, 1.0), (1, 20, -1, 0.5), (1, 30, -1, 0.75),
        (2, 50, -1, 0.25)]  # fmt: skip


@pytest.mark.parametrize("block", [1, 2, 7])
def test_a_reranked_run_is_written_by_query_block_with_its_tail_below(stores, run, block):
    scored = scored_of(stores, MONO, blocks=[2])
    stage = rerank_stage("mono", run, BASE, Request(k0=3), "keep", stores.sides(3), scored)
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
    scored = scored_of(stores, MONO, skipped=[1])
    stage = rerank_stage("mono", run, BASE, Request(k0=3), "drop", stores.sides(3), scored)
    rows = [(query, row) for query, row, *_ in lines_of(stores.finished(stage))]
    assert rows == [(0, 10), (0, 30), (1, 30), (1, 20), (2, 50)]


def test_a_blended_run_is_ordered_by_the_runs_scores_too_over_the_first_k0(stores, run):
    """z of query 0 is 1, 1/2 and 0 for passages 30, 10 and 20; of query 1, 1 and 0."""
    scored = scored_of(stores, MONO, skipped=[3])
    sides = stores.sides(3)

    def blended(blend):
        return rerank_stage("mono", run, BASE, Request(k0=3), "keep", sides, scored, blend)

    plain, stage = blended(None), blended(Blend(4.0, "raw"))
    assert lines_of(stores.finished(stage)) == [
        (0, 30, 1, 5.0, "mono"), (0, 10, 2, 4.0, "mono"), (0, 20, 3, 3.0, "mono"),
        (0, 40, 4, 6.0, "bm25"),
        (1, 30, 1, 0.75, "mono"),
        (2, 50, 1, 4.25, "mono"),
    ]  # fmt: skip
    assert "blend" not in plain.spec.params
    assert stage.spec.params["blend"] == {"weight": 4.0, "scale": "raw"}
    (change,) = stage.spec.diff(blended(Blend(5.0, "raw")).spec)
    assert str(change) == "params.blend.weight 4.0 -> 5.0"


def test_what_names_a_reranked_run_is_its_request_tail_scores_and_run(stores, run):
    sides, none = stores.sides(3), scored_of(stores, [])
    stage = rerank_stage("mono", run, BASE, Request(k0=3), "keep", sides, none)
    names = {stage.spec.fingerprint()}
    for change in (
        rerank_stage("mono", run, BASE, Request(k0=2), "keep", sides, none),
        rerank_stage("mono", run, BASE, Request(k0=3), "drop", sides, none),
        rerank_stage("mono", run, StageSpec("scores", 1), Request(k0=3), "keep", sides, none),
        rerank_stage("mono", stores.run(*BLOCKS[:1]), BASE, Request(k0=3), "keep", sides, none),
    ):
        names.add(change.spec.fingerprint())
    assert len(names) == 5


@pytest.mark.parametrize("kind", ["rerank", "pairs"])
def test_other_texts_are_told_by_their_digests_alone(stores, run, kind):
    def spec():
        sides, none = stores.sides(3), scored_of(stores, [])
        base = spec_over("scores", 1, {}, sides.stores(), produces="scores")
        if kind == "rerank":
            return rerank_stage("mono", run, base, Request(k0=3), "keep", sides, none).spec
        return pairs_stage("duo", run, base, Request(k1=3), sides, none).spec

    sides = ["inputs.collection", "inputs.queries"]
    told = [change.field for change in spec().diff(spec())]
    assert told == [*sides, *(f"params.scores.{side}" for side in sides)]


# p(i, j) of query 0 over passages 10, 20, 30 and of query 1 over 20, 30.
DUO = [(0, 10, 20, 0.25), (0, 10, 30, 0.5), (0, 20, 10, 0.75), (0, 20, 30, 1.0),
       (0, 30, 10, 0.5), (0, 30, 20, 0.0), (1, 20, 30, 0.25), (1, 30, 20, 0.875)]  # fmt: skip


def pairs_of(stores, run, sides=None, **settings):
    scored = scored_of(stores, DUO, blocks=[4], **settings)
    sides = sides or stores.sides(3)
    stage = pairs_stage("duo", run, BASE, Request(k1=3), sides, scored)
    return stage, stores.finished(stage, Sizing(shard_queries=2))


def test_pairs_are_the_scores_of_the_first_k1_by_query_block(stores, run):
    sides = stores.sides(3)
    stage, made = pairs_of(stores, run, sides)
    assert lines_of(made, schema.SCORES) == DUO
    assert [dict(r.facts) for r in made.manifest.records] == [
        {"rows": 6, "failed": 0},
        {"rows": 2, "failed": 0},
    ]
    other = pairs_stage("duo", run, BASE, Request(k1=2), sides, scored_of(stores, []))
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
        ("max", [(20, 1.0), (30, 0.5), (10, 0.5)]),  # a tie keeps the order of the run
        ("binary", [(20, 2.0), (30, 0.0), (10, 0.0)]),
    ],
)
def test_aggregated_runs_have_the_order_of_their_sums(stores, run, method, expected):
    _, pairs = pairs_of(stores, run)
    stage = aggregate_stage("duo-x", run, pairs, Request(k1=3), method, "keep", stores.sides(3))
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
    stage = aggregate_stage("duo-sum", run, pairs, Request(k1=3), "sum", "drop", stores.sides(3))
    found = lines_of(stores.finished(stage))
    # 20 keeps p(20, 30) alone; 20 of query 1 has no pair left and is ranked nowhere.
    assert [(q, row, score) for q, row, _, score, _ in found] == [
        (0, 20, 1.0), (0, 10, 0.75), (0, 30, 0.5), (1, 30, 0.875), (2, 50, 0.0),
    ]  # fmt: skip


def test_a_pair_that_nobody_scored_is_never_made_up(stores, run):
    _, pairs = pairs_of(stores, run)
    stage = aggregate_stage("duo-sum", run, pairs, Request(k1=4), "sum", "keep", stores.sides(3))
    with pytest.raises(InputError, match="duo-sum: 6 of 14 pairs that sum needs"):
        stores.finished(stage)


def test_what_names_an_aggregate_is_its_method_tail_request_run_and_pairs(stores, run):
    sides = stores.sides(3)
    _, pairs = pairs_of(stores, run, sides)
    names = set()
    for request, method, tail in [
        (Request(k1=3), "sum", "keep"),
        (Request(k1=3), "min", "keep"),
        (Request(k1=3), "sum", "drop"),
        (Request(k1=2), "sum", "keep"),
    ]:
        stage = aggregate_stage("duo", run, pairs, request, method, tail, sides)
        names.add(stage.spec.fingerprint())
    assert len(names) == 4
