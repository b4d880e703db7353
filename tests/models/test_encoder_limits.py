import numpy as np
import pytest

from raypipe.errors import InputError
from raypipe.models.encoder import load_encoder
from raypipe.models.folder.loading import open_tokenizer, resolve_model
from raypipe.text.tokenize import tokenize_batch

LONG = "zebra " * 100
"""More word pieces than the 64 positions of the tiny models."""


@pytest.mark.parametrize("side", ["query", "passage"])
def test_an_encoders_limit_leaves_room_for_the_two_specials(tiny, tmp_path, side):
    """64 positions: 62 pieces fit with [CLS] and [SEP], 63 and 64 do not."""
    limits = {"query_limit": 20, "passage_limit": 20, f"{side}_limit": 62}
    model = resolve_model(str(tiny.make_tiny_bert(tmp_path / "62", **limits)))
    flat, offsets = tokenize_batch(open_tokenizer(model), [LONG], max_pieces=512)
    assert len(flat) > 64
    vectors = load_encoder(model).encode(flat, offsets, side=side)
    assert vectors.shape == (1, 32) and np.isfinite(vectors).all()
    for limit in (63, 64):
        limits[f"{side}_limit"] = limit
        folder = tiny.make_tiny_bert(tmp_path / str(limit), **limits)
        with pytest.raises(InputError, match=f"allow {limit + 2} tokens, the model has 64 pos"):
            load_encoder(resolve_model(str(folder)))
