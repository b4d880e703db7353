"""Vectors of older stores, copied for equal texts; the others are computed, each text once."""

import numpy as np
import pytest
from stage_inputs import alone, pieces, vectors_of

from raypipe import schema
from raypipe.errors import RowsFailed
from raypipe.models.encoder import Encoder
from raypipe.models.folder.model_folder import resolve_model
from raypipe.models.load import load_encoder
from raypipe.stages.encode import EncodeStage
from raypipe.stages.stage import Site, Sizing
from raypipe.stages.tokenize import TokenizeStage
from raypipe.storage.payloads import read_vectors
from raypipe.storage.records import Shard

TEXTS_BEFORE = ["zebra run", "a lease", "shard", "", "of the run"]
AS_SOME = Sizing(shard_tokens=10)
"""They are in several shards."""


class Copying:
    """Stages over texts, an older store over TEXTS_BEFORE, and the pieces that are encoded."""

    def __init__(self, stores, model, monkeypatch):
        self.stores, self.model, self.encoded = stores, model, []
        encode = Encoder.encode

        def seen(encoder, flat, offsets, **settings):
            ends = zip(offsets, offsets[1:], strict=False)
            self.encoded += [flat[a:b].tolist() for a, b in ends]
            return encode(encoder, flat, offsets, **settings)

        monkeypatch.setattr(Encoder, "encode", seen)

    def stage(self, texts, *, hashed=True):
        collection = self.stores.passages(texts)
        hashes = self.stores.hashes(collection) if hashed else None
        tokens = self.stores.finished(
            TokenizeStage(collection, schema.PASSAGES, self.model, "", hashes), store="tokens@m"
        )
        return EncodeStage(tokens, self.model, "passage", hashes=hashes)

    def older(self, texts=TEXTS_BEFORE, **settings):
        return self.stores.finished(self.stage(texts), AS_SOME, **settings)

    def made(self, stage, *older, sizing=None, **settings):
        """The store that copies, after one from nothing with the same bytes."""
        expected = self.stores.finished(stage, sizing, **settings).manifest.records
        self.encoded.clear()
        made = self.stores.finished(stage.reusing(older), sizing, **settings)
        assert [r.to_json() for r in made.manifest.records] == [r.to_json() for r in expected]
        return made

    def computed(self):
        return sorted(self.encoded)

    def pieces(self, *texts):
        return sorted(pieces(self.model, texts))


@pytest.fixture
def copying(stores, tiny_model, monkeypatch):
    return Copying(stores, resolve_model(str(tiny_model)), monkeypatch)


@pytest.mark.parametrize("shard_tokens", [1, 20, 1000])
@pytest.mark.parametrize(
    ("texts", "computed"),
    [
        (["of the run", "query", "", "zebra run", "rank", "a lease"], ["query", "rank"]),
        (["shard", "zebra run", "shard"], []),
        (["rank", "query"], ["rank", "query"]),
        (TEXTS_BEFORE, []),
        ([*TEXTS_BEFORE[1:], "a"], ["a"]),
    ],
)
def test_vectors_of_equal_texts_are_copied_and_the_others_computed(
    copying, stores, texts, computed, shard_tokens
):
    older = copying.older()
    made = copying.made(copying.stage(texts), older, sizing=Sizing(shard_tokens=shard_tokens))
    assert copying.computed() == copying.pieces(*computed)
    assert stores.num_copied == len(texts) - len(computed)
    expected = alone(copying.model, pieces(copying.model, texts), "passage")
    assert vectors_of(made).tobytes() == expected.tobytes()


def test_a_shard_of_equal_texts_keeps_its_payload_unread(copying, stores, monkeypatch):
    older, stage = copying.older(), copying.stage(TEXTS_BEFORE)
    monkeypatch.setattr("raypipe.stages.encode.write_vectors", None)  # nothing is written ...
    monkeypatch.setattr("raypipe.stages.encode.read_vectors", None)  # ... or read
    made = stores.finished(stage.reusing([older]), AS_SOME)
    before = [record.sha256 for record in older.manifest.records]
    assert [record.sha256 for record in made.manifest.records] == before and len(before) > 1
    assert stores.num_copied == 5


def test_equal_texts_are_encoded_once_in_a_shard(copying, stores):
    texts = ["rank", "a", "rank", "", "a", "rank", ""]
    expected = alone(copying.model, pieces(copying.model, texts), "passage")
    for hashed, computed in ((True, ["rank", "a", ""]), (False, texts)):
        copying.encoded.clear()
        opened = copying.stage(texts, hashed=hashed).open(Site(stores.scratch))
        payload = opened.run(Shard(0, 0, 7), (), lambda rows: None)
        assert copying.computed() == copying.pieces(*computed)
        assert read_vectors(payload.path).tobytes() == expected.tobytes()


def test_skipped_rows_are_never_copied(copying, stores):
    older = copying.older(skip=[1, 4])
    texts = ["zebra run", "a lease", "shard", "", "of the run"]
    made = copying.made(copying.stage(texts), older, sizing=AS_SOME)
    assert copying.computed() == copying.pieces("a lease", "of the run")
    assert vectors_of(made).any(axis=1).all() and stores.num_copied == 3


def test_rows_to_skip_stay_zeros_beside_copied_rows(copying, stores):
    made = copying.made(copying.stage(TEXTS_BEFORE), copying.older(), sizing=AS_SOME, skip=[0, 3])
    expected = alone(copying.model, pieces(copying.model, TEXTS_BEFORE), "passage")
    expected[[0, 3]] = 0
    assert vectors_of(made).tobytes() == expected.tobytes()
    assert made.manifest.skipped_rows == (0, 3) and stores.num_copied == 3


def test_vectors_of_another_numerics_class_are_computed(copying, stores, monkeypatch):
    older = copying.older()

    def elsewhere(*given, **settings):
        encoder = load_encoder(*given, **settings)
        encoder.numerics = "elsewhere"
        return encoder

    monkeypatch.setattr("raypipe.models.load.load_encoder", elsewhere)
    made = copying.made(copying.stage(TEXTS_BEFORE), older)
    assert stores.num_copied == 0 and made.manifest.numerics == ("elsewhere",)
    assert len(copying.encoded) == 5


def test_a_failing_row_names_all_rows_of_its_text(copying, stores, monkeypatch):
    stage = copying.stage(["a", "rank", "zebra", "rank", "run"])
    real = load_encoder(copying.model)

    class Bad:
        numerics, engine = real.numerics, None
        bad, value = 1, np.inf

        def encode(self, *given, **settings):
            vectors = real.encode(*given, **settings)
            vectors[self.bad, 0] = self.value
            if not np.isfinite(self.value):
                raise RowsFailed([self.bad], "not finite")
            return vectors

    bad = Bad()
    monkeypatch.setattr("raypipe.models.load.load_encoder", lambda *given, **settings: bad)
    opened = stage.open(Site(stores.scratch))
    for bad.value, said in ((70_000.0, "fp16"), (np.inf, "not finite")):
        for bad.bad, skip, rows in (
            (1, (), [1, 3]),
            (1, (0,), [2]),
            (1, (1,), [2]),
            (2, (1,), [3]),
        ):
            with pytest.raises(RowsFailed, match=said) as failed:
                opened.run(Shard(0, 0, 5), skip, lambda rows: None)
            assert sorted(failed.value.rows) == rows


def test_the_first_store_with_hashes_of_its_texts_is_copied_from(copying, stores):
    stage, older, other = copying.stage(["a"]), copying.older(), copying.older(["a"])
    assert stage.reusing([]).source is None
    without = stores.finished(copying.stage(["a"], hashed=False))
    found = stage.reusing([older, other]).source
    assert (found.older, found.hashes) == (older, stage.hashes)
    assert stage.reusing([stores.vectors(np.ones((1, 32))), other]).source.older == other
    assert copying.stage(["a"], hashed=False).reusing([older]).source is None
    manifest = without.manifest
    assert manifest.numerics and stage.reusing([without]).source is None


def test_every_setting_of_a_vector_decides_whether_it_is_copied(copying, tiny, tmp_path):
    stage = copying.stage(["a"])
    assert (
        stage.spec.reuse_key == copying.stage(["b", "c"]).spec.reuse_key
        and len(stage.spec.reuse_key) == 64
    )
    folders = {
        "weights": tiny.make_tiny_bert(tmp_path / "weights", seed=3),
        "prefix": tiny.make_tiny_bert(tmp_path / "prefix", passage_prefix="x "),
        "limit": tiny.make_tiny_bert(tmp_path / "limit", passage_limit=40),
    }
    digests = {
        EncodeStage(stage.tokens, resolve_model(str(folder)), "passage").spec.reuse_key
        for folder in folders.values()
    }
    digests.add(EncodeStage(stage.tokens, stage.model, "query").spec.reuse_key)
    assert len(digests) == 4 and stage.spec.reuse_key not in digests
