"""Word pieces of equal texts come from an older store, and the others are computed."""

from dataclasses import replace

import pytest

from raypipe import schema
from raypipe.models.folder.model_folder import resolve_model
from raypipe.stages import tokenize
from raypipe.stages.stage import Sizing
from raypipe.stages.tokenize import TokenizeStage
from raypipe.text.word_pieces import WordPieces

TEXTS_BEFORE = ["zebra run", "a lease", "shard", "", "of the run"]


class Copying:
    """A stage over other texts, an older store over TEXTS_BEFORE, and what is tokenised."""

    def __init__(self, stores, model, monkeypatch):
        self.stores, self.model, self.asked = stores, model, []

        class Asked(WordPieces):
            def of(found, texts, *, max_pieces):
                self.asked += texts.to_pylist()
                return super().of(texts, max_pieces=max_pieces)

        monkeypatch.setattr("raypipe.text.word_pieces.WordPieces", Asked)
        self.older = stores.finished(self.stage(TEXTS_BEFORE, prefix="rank "), Sizing(shard_rows=3))

    def stage(self, texts, prefix="rank "):
        collection = self.stores.passages(texts)
        hashes = self.stores.hashes(collection)
        return TokenizeStage(collection, schema.PASSAGES, self.model, prefix, hashes)

    def made(self, stage, sizing=None):
        """The store that copies, after one from nothing with the same bytes."""
        expected = self.stores.finished(stage, sizing).manifest.records
        self.asked.clear()
        made = self.stores.finished(stage.reusing([self.older]), sizing)
        assert [r.to_json() for r in made.manifest.records] == [r.to_json() for r in expected]
        return made


@pytest.fixture
def copying(stores, tiny_model, monkeypatch):
    return Copying(stores, resolve_model(str(tiny_model)), monkeypatch)


@pytest.mark.parametrize("shard_rows", [1, 2, 100])
@pytest.mark.parametrize(
    ("texts", "asked"),
    [
        (["of the run", "new", "", "zebra run", "new", "a lease"], ["new", "new"]),
        (["shard", "zebra run", "shard"], []),
        (["x", "y"], ["x", "y"]),
        (TEXTS_BEFORE, []),
        ([*TEXTS_BEFORE[1:], "a"], ["a"]),
    ],
)
def test_pieces_of_equal_texts_are_copied_and_the_others_computed(
    copying, stores, texts, asked, shard_rows
):
    copying.made(copying.stage(texts), Sizing(shard_rows=shard_rows))
    assert copying.asked == [f"rank {text}" for text in asked]
    assert stores.num_copied == len(texts) - len(asked)


def test_a_shard_of_equal_texts_keeps_its_payload_unread(copying, stores, monkeypatch):
    stage = copying.stage(TEXTS_BEFORE)
    monkeypatch.setattr(tokenize, "write_tokens", None)  # nothing is written ...
    monkeypatch.setattr(tokenize, "map_tokens", None)  # ... or read
    made = stores.finished(stage.reusing([copying.older]), Sizing(shard_rows=3))
    before = [record.sha256 for record in copying.older.manifest.records]
    assert [record.sha256 for record in made.manifest.records] == before
    assert stores.num_copied == 5


def test_only_stores_with_hashes_of_their_texts_are_copied_from(copying, stores):
    stage = copying.stage(["zebra run"])
    assert stage.reusing([]).source is None
    without = stores.tokens([[1]])
    found = stage.reusing([without, copying.older, without]).source
    assert found.older == copying.older and found.hashes == stage.hashes
    queries = TokenizeStage(stores.queries("a"), schema.QUERIES, copying.model, "rank ")
    assert queries.reusing([copying.older]).source is None


def test_what_a_text_is_split_by_decides_whether_it_is_copied(copying, tiny, tmp_path):
    same, other = copying.stage(["a"]), copying.stage(["a"], prefix="")
    assert same.spec.reuse_key == copying.stage(TEXTS_BEFORE).spec.reuse_key != other.spec.reuse_key
    assert same.spec.fingerprint() != copying.stage(TEXTS_BEFORE).spec.fingerprint()
    assert len(same.spec.reuse_key) == 64
    folder = tiny.make_tiny_bert(tmp_path / "other")
    file = folder / "tokenizer.json"
    file.write_text(file.read_text().replace("lease", "lend"))
    other = replace(same, model=resolve_model(str(folder)))
    assert other.spec.reuse_key != same.spec.reuse_key


def test_rows_to_compute_are_read_in_batches(copying, stores, monkeypatch):
    monkeypatch.setattr(tokenize, "BATCH_ROWS", 2)
    texts = ["n0", "shard", "n1", "n2", "", "n3", "n4"]
    beats = []
    stores.finished(copying.stage(texts).reusing([copying.older]), beats=beats)
    assert beats == [[0, 2], [3, 5], [6]]
    copying.made(copying.stage(texts))
    assert copying.asked == [f"rank n{n}" for n in range(5)]
