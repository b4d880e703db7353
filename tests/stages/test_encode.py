"""Vectors of texts: those of each row alone, in shards by tokens; rows that fail are named."""

from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from stage_inputs import alone, pieces, shards_of, text, vectors_of
from transformers import BertModel

from raypipe.errors import RowsFailed
from raypipe.models.folder.model_folder import open_tokenizer, resolve_model
from raypipe.models.gpu.opening import FixedSettings
from raypipe.models.load import load_encoder
from raypipe.stages.encode import EncodeStage
from raypipe.stages.open_model import Stopwatch
from raypipe.stages.stage import Site, Sizing
from raypipe.stages.tokenize import QueryTokens
from raypipe.storage.records import Shard


@pytest.fixture
def encoded(stores, tiny_model):
    """(model, its tokens in two shards: rows of 1, 2, ... pieces)."""
    model = resolve_model(str(tiny_model))
    rows = pieces(model, [text(n) for n in range(6)])
    return model, rows, stores.tokens(rows[:4], rows[4:])


@pytest.mark.parametrize("side", ["passage", "query"])
def test_embeddings_are_those_of_each_row_alone_in_shards_by_tokens(stores, encoded, side):
    model, rows, tokens = encoded
    stage = EncodeStage(tokens, model, side)
    # 1 + 2 + ... + 6 pieces and 12 specials are 33 tokens: 3 shards of at most 11 or 2 rows.
    stored = stores.finished(stage, Sizing(shard_tokens=11))
    assert shards_of(stored) == [(0, 2), (2, 4), (4, 6)]
    for tokens_of_shard, num_shards in ((33, 1), (32, 2), (17, 2), (16, 3), (7, 3), (6, 6), (1, 6)):
        assert len(stage.shards(Sizing(shard_tokens=tokens_of_shard))) == num_shards
    assert vectors_of(stored).tobytes() == alone(model, rows, side).tobytes()
    assert [r.facts["rows"] for r in stored.manifest.records] == [2, 2, 2]


def test_a_worker_tells_plain_texts_which_a_driver_reads_without_torch(encoded, tmp_path):
    model, _, tokens = encoded
    opened = EncodeStage(tokens, model, "passage").open(Site(tmp_path))
    assert {type(value) for value in opened.facts.values()} == {str}
    assert opened.facts["torch"] == torch.__version__
    opened.close()


def test_sides_have_stores_of_their_own(stores, encoded):
    model, _, tokens = encoded
    names = {EncodeStage(tokens, model, side).spec.fingerprint() for side in ("passage", "query")}
    assert len(names) == 2


def test_queries_have_the_vectors_of_their_stored_word_pieces(stores, encoded):
    model, rows, tokens = encoded
    queries = stores.queries(*(text(n) for n in range(6)))
    stage = EncodeStage(QueryTokens(queries, model), model, "query")
    sizing = Sizing(shard_tokens=11)
    assert stage.shards(sizing) == EncodeStage(tokens, model, "query").shards(sizing)
    assert vectors_of(stores.finished(stage, sizing)).tobytes() == (
        alone(model, rows, "query").tobytes()
    )


def test_vectors_of_queries_are_named_by_the_texts_and_the_tokenizer(stores, encoded):
    model, _, _ = encoded
    one, other = stores.queries("zebra"), stores.queries("lease")
    settings = replace(model.encoder, query_prefix="query ")
    specs = {
        EncodeStage(QueryTokens(queries, each), each, "query").spec.fingerprint()
        for queries in (one, other)
        for each in (
            model,
            replace(model, tokenizer_sha256="0" * 64),
            replace(model, conventions=settings),
        )
    }
    assert len(specs) == 6


def test_rows_to_skip_are_zeros_and_the_others_stay_as_they_are(stores, encoded):
    model, rows, tokens = encoded
    beats = []
    stored = stores.finished(EncodeStage(tokens, model, "passage"), skip=[1, 4], beats=beats)
    expected = alone(model, rows, "passage")
    expected[[1, 4]] = 0
    assert vectors_of(stored).tobytes() == expected.tobytes()
    assert sorted(row for batch in beats for row in batch) == [0, 2, 3, 5]


@pytest.mark.fault(23, "a value of 70,000 is no infinity: its row is named")
def test_vectors_beyond_fp16_or_not_finite_are_told_by_their_rows(stores, encoded, monkeypatch):
    model, _, tokens = encoded
    stage = EncodeStage(tokens, model, "passage")
    shard = stage.shards(Sizing(shard_tokens=11))[1]
    real = load_encoder(model)

    class Bad:
        numerics, engine = real.numerics, None

        def encode(self, flat, offsets, **settings):
            vectors = real.encode(flat, offsets, **settings)
            vectors[1, 0] = self.value
            if not np.isfinite(self.value):
                raise RowsFailed([1], "not finite")
            return vectors

    bad = Bad()
    monkeypatch.setattr("raypipe.models.load.load_encoder", lambda *given, **settings: bad)
    opened = stage.open(Site(stores.scratch))
    for bad.value, said in ((70_000.0, "fp16"), (np.inf, "not finite")):
        with pytest.raises(RowsFailed, match=said) as failed:
            opened.run(shard, (), lambda rows: None)
        assert list(failed.value.rows) == [3]
        with pytest.raises(RowsFailed, match=said) as failed:
            opened.run(Shard(0, 1, 5), (1,), lambda rows: None)
        assert list(failed.value.rows) == [3]


@pytest.mark.fault(31, "a row without word pieces has the vector of its special tokens alone")
def test_a_row_without_pieces_has_the_vector_of_its_special_tokens(stores, tiny_model):
    model = resolve_model(str(tiny_model))
    stored = stores.finished(EncodeStage(stores.tokens([[], pieces(model, ["zebra"])[0]]), model,
                                         "passage"))  # fmt: skip
    reference = BertModel.from_pretrained(tiny_model).eval()
    tokenizer = open_tokenizer(model)
    ids = [[tokenizer.token_to_id("[CLS]"), tokenizer.token_to_id("[SEP]")]]
    with torch.no_grad():
        hidden = reference(torch.tensor(ids), token_type_ids=torch.ones(1, 2, dtype=torch.long))
    expected = hidden.last_hidden_state.mean(1)[0].numpy()
    found = vectors_of(stored)[0].astype(np.float32)
    assert np.isfinite(found).all() and np.abs(found - expected).max() < 2e-3


def test_a_payload_says_how_long_a_device_computed_where_that_is_measured(
    stores, encoded, monkeypatch
):
    """Of this shard alone, though a worker's model counts all of them; a CPU's are not measured."""
    model, _, tokens = encoded
    stage = EncodeStage(tokens, model, "passage")
    shard = stage.shards(Sizing(shard_tokens=11))[1]
    assert stage.open(Site(stores.scratch)).run(shard, (), quiet).computing_seconds is None
    monkeypatch.setattr(
        "raypipe.models.load.load_encoder", partial(load_encoder, fixed=FixedSettings())
    )
    opened = stage.open(Site(stores.scratch))
    seconds = [opened.run(shard, (), quiet).computing_seconds for _ in range(2)]
    assert all(0 < each < 60 for each in seconds)
    engine = SimpleNamespace(computed_seconds=5.0)
    watch = Stopwatch(SimpleNamespace(engine=engine))
    engine.computed_seconds = 7.5
    assert watch.seconds() == 2.5


def quiet(rows):
    """A beat that nobody hears."""
