"""The audit's stage: its plan, its bytes, what it leaves out, what it expects."""


import numpy as np
import pytest

from raypipe import schema
from raypipe.errors import RowsFailed
from raypipe.models.encoder import Encoder
from raypipe.models.folder.loading import resolve_model
from raypipe.models.scorer import Scorer
from raypipe.stages.audit import stage as audit
from raypipe.stages.audit.sample import Limits, Scored
from raypipe.stages.audit.stage import AuditStage
from raypipe.stages.in_memory import encode_texts, score_texts
from raypipe.stages.query_blocks import Sides
from raypipe.stages.stage import Sizing

TEXTS = ["zebra", "a lease of shards", "rank", "query the zebra", "model token batch"]
MOST = Limits(50, 1000)
ASKED = ["zebra shards", "rank", "lease query"]


@pytest.fixture
def made(stores):
    """A function that makes the stage of a model over two blocks of queries."""
    sides = Sides(stores.queries(*ASKED), stores.passages(TEXTS[:2], TEXTS[2:]))
    lines = [(q, p, float(9 - p)) for q in range(3) for p in range(5)]
    run = stores.run(lines[:10], lines[10:], scored_by="own")

    def stage(path, limits=MOST, first=None):
        model = resolve_model(str(path)).in_fp32()
        return AuditStage(Scored(run, "own", first=first), model, sides, limits)

    return stage


def scores_of(stored):
    table = stored.whole_table(schema.SCORES).to_pylist()
    return {(line["query_row"], line["passage_row"]): line["score"] for line in table}


def test_shards_and_their_number_change_no_score(made, stores, tiny_mono, monkeypatch):
    whole = scores_of(stores.finished(made(tiny_mono), Sizing()))
    keys = [np.array(column) for column in zip(*whole, strict=True)]
    model = resolve_model(str(tiny_mono)).in_precision("fp32")
    columns = (*keys, np.full(len(whole), -1))
    assert [*whole.values()] == score_texts(model, ASKED, TEXTS, columns, device="cpu").tolist()
    assert [*whole] == sorted(whole) and len(whole) == 15
    monkeypatch.setattr(audit, "INPUTS_A_SHARD", 6)
    stage = made(tiny_mono)
    assert [shard.num_rows for shard in stage.shards(Sizing())] == [1, 1, 1]


def test_products_are_those_of_stored_vectors(made, stores, tiny_model):
    found = scores_of(stores.finished(made(tiny_model, first=2), Sizing()))
    model = resolve_model(str(tiny_model)).in_precision("fp32")
    queries, passages = (
        encode_texts(model, texts, side=side, device="cpu").astype("f8")
        for texts, side in ((ASKED, "query"), (TEXTS, "passage"))
    )
    exact = (queries @ passages.T).astype("f4")
    assert found == {(q, p): exact[q, p] for q in range(3) for p in range(2)}


def test_a_score_or_vector_that_is_not_finite_is_left_out(
    made, stores, tiny_mono, tiny_model, monkeypatch
):
    score, encode = Scorer.score, Encoder.encode

    def without_one(self, query, passages, **named):
        scores = score(self, query, passages, **named)
        scores[1] = np.nan
        return scores

    def failing(self, flat, offsets, *, side, **named):
        if side == "passage" and len(offsets) == len(TEXTS) + 1:
            raise RowsFailed([3], "the vector is not finite")
        return encode(self, flat, offsets, side=side, **named)

    monkeypatch.setattr(Scorer, "score", without_one)
    monkeypatch.setattr(Encoder, "encode", failing)
    every = {(q, p) for q in range(3) for p in range(5)}
    found = scores_of(stores.finished(made(tiny_mono, Limits(2, 1000)), Sizing()))
    assert found.keys() == {(q, p) for q, p in every if q != 2} - {(0, 1)}
    found = scores_of(stores.finished(made(tiny_model), Sizing()))
    assert found.keys() == {(q, p) for q, p in every if p != 3}


def test_limits_depth_and_weights_are_in_the_fingerprint(made, tiny_mono, tiny_model):
    stages = [
        made(tiny_mono), made(tiny_mono, Limits(49, 1000)), made(tiny_mono, Limits(50, 999)),
        made(tiny_mono, first=3), made(tiny_model),
    ]  # fmt: skip
    assert len({stage.spec.fingerprint() for stage in stages}) == 5
