import numpy as np
from given_scores import Given
from stage_inputs import pieces, shards_of, text

from raypipe.models.folder.model_folder import resolve_model
from raypipe.stages.scoring.token_rows import PassageTokensStage, TokenRows
from raypipe.stages.stage import Sizing


def test_scattered_rows_of_mapped_shards_come_in_the_order_asked(stores):
    rows = [[1, 2, 3], [], [4], [5, 6], [7], [8, 9]]
    tokens = TokenRows(stores.tokens(rows[:2], rows[2:3], rows[3:]))
    asked = [5, 0, 3, 2, 1, 0]
    part = tokens.part(np.array(asked))
    found = [
        part.flat[start : start + count].tolist()
        for start, count in zip(part.starts, part.counts, strict=True)
    ]
    assert found == [rows[row] for row in asked]
    assert tokens.part(np.array([4])).counts.tolist() == [1]
    none = tokens.part(np.empty(0, np.int64))
    assert len(none.flat) == len(none.starts) == len(none.counts) == 0


def test_only_passages_that_candidates_name_are_tokenised_in_row_order(stores, tiny_mono):
    model = resolve_model(str(tiny_mono))
    texts = [text(n) for n in range(6)]
    collection = stores.passages(texts[:3], texts[3:])
    part = Given((0, 5, -1), (0, 1, -1), (1, 5, -1), (1, 3, -1))
    beats = []
    stage = PassageTokensStage(collection, part, model)
    stored = stores.finished(stage, Sizing(num_actors=9, shard_rows=2), beats=beats)
    assert shards_of(stored) == [(0, 1), (1, 3)] and beats == [[0], [1, 2]]
    flat, offsets = stored.tokens(0, 3)
    assert [flat[a:b].tolist() for a, b in zip(offsets, offsets[1:], strict=False)] == pieces(
        model, [texts[1], texts[3], texts[5]]
    )
    other = PassageTokensStage(collection, Given((0, 4, -1)), model)
    assert other.spec.fingerprint() != stage.spec.fingerprint()
    nothing = stores.finished(PassageTokensStage(collection, Given(), model))
    assert shards_of(nothing) == [(0, 0)] and nothing.manifest.records[0].facts["pieces"] == 0


def test_passages_that_candidates_name_get_the_passages_prefix(stores, tiny, tmp_path):
    folder = tiny.make_tiny_reranker(tmp_path / "m", passage_prefix="zebra ", query_prefix="run ")
    model = resolve_model(str(folder))
    stage = PassageTokensStage(stores.passages(["a", "rank"]), Given((0, 1, -1)), model)
    flat, _ = stores.finished(stage).tokens(0, 1)
    assert flat.tolist() == pieces(model, ["zebra rank"])[0]
