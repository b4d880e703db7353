from stage_inputs import pieces, shards_of, text

from raypipe import schema
from raypipe.models.folder.loading import resolve_model
from raypipe.stages.stage import Sizing
from raypipe.stages.texts.tokenize import TokenizeStage


def test_each_row_is_tokenised_once_in_shards_that_leave_no_actor_idle(stores, tiny_model):
    model = resolve_model(str(tiny_model))
    texts = [text(n % 7) for n in range(5)]
    collection = stores.passages(texts[:2], texts[2:])
    stage = TokenizeStage(collection, schema.PASSAGES, model)
    beats = []
    stored = stores.finished(stage, Sizing(num_actors=2), beats=beats)
    assert shards_of(stored) == [(0, 2), (2, 5)] and beats == [[0, 1], [2, 3, 4]]
    assert shards_of(stores.finished(stage, Sizing(shard_rows=2))) == [(0, 1), (1, 3), (3, 5)]
    flat, offsets = stored.tokens(0, 5)
    assert [flat[a:b].tolist() for a, b in zip(offsets, offsets[1:], strict=False)] == pieces(
        model, texts
    )
    assert [r.facts["pieces"] for r in stored.manifest.records] == [3, 3 + 4 + 5]
    prefixed = TokenizeStage(collection, schema.PASSAGES, model, prefix="query ")
    assert prefixed.spec.fingerprint() != stage.spec.fingerprint()
    flat, offsets = stores.finished(prefixed).tokens(1, 2)
    assert flat.tolist() == pieces(model, ["query " + texts[1]])[0]


def test_no_rows_are_one_shard_without_pieces(stores, tiny_model):
    stage = TokenizeStage(stores.passages([]), schema.PASSAGES, resolve_model(str(tiny_model)))
    stored = stores.finished(stage)
    assert shards_of(stored) == [(0, 0)] and stored.manifest.records[0].facts["pieces"] == 0
