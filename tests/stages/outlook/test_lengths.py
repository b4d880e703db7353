"""Tokens of inputs against those of the inputs that a model really gets."""

import numpy as np
import pytest

from raypipe.models.encoder import load_encoder
from raypipe.models.folder.loading import resolve_model
from raypipe.models.scorer import load_scorer
from raypipe.stages.outlook.lengths import encoder_inputs, pair_inputs, texts_of

FLAT = np.arange(5, 200, dtype=np.uint16) % 20 + 5
OFFSETS = np.array([0, 0, 3, 43, 100, 195])


def test_an_encoders_inputs_are_cut_to_its_limit_with_special_tokens(tiny_model):
    model = resolve_model(str(tiny_model), None)
    rows = np.array([0, 1, 2, 4])
    for side in ("query", "passage"):
        found = encoder_inputs(model, side, texts_of(FLAT, OFFSETS, rows), 8.0)
        limit = model.encoder.limit(side)
        assert found.lengths.tolist() == [min(n, limit) + 2 for n in (0, 3, 40, 95)]
        assert found.num_tokens == pytest.approx(2 * found.lengths.sum())
    encoder = load_encoder(model)
    whole = encoder_inputs(model, "passage", texts_of(FLAT, OFFSETS, np.arange(5)), 5.0)
    assert whole.num_tokens == encoder.num_tokens(OFFSETS, "passage")


@pytest.mark.parametrize("kind", ["mono", "duo"])
def test_pairs_are_as_long_as_those_that_a_scorer_reads(kind, tiny_mono, tiny_duo):
    model = resolve_model(str({"mono": tiny_mono, "duo": tiny_duo}[kind]), None)
    sides = [np.array([1, 2, 3]), np.array([4, 1, 0]), np.array([2, 2, 4])]
    texts = [texts_of(FLAT, OFFSETS, rows) for rows in sides][: 3 if kind == "duo" else 2]
    found = pair_inputs(model, texts, 3.0)
    assert found.num_tokens == load_scorer(model).num_tokens(texts[0], texts[1:])
    assert found.side == "pair" and max(found.lengths) <= model.reranker.total_limit


def test_no_inputs_have_no_tokens(tiny_model):
    model = resolve_model(str(tiny_model), None)
    none = texts_of(FLAT, OFFSETS, np.array([], np.int64))
    assert encoder_inputs(model, "query", none, 5.0).num_tokens == 0
