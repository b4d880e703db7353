"""Word pieces as a stage; a tokenizer whose inputs cannot be sliced from them is refused."""

import gc
import itertools
import weakref
from types import SimpleNamespace

import pyarrow as pa
import pytest
import tiny
from stage_inputs import pieces, shards_of, text
from tokenizers import Tokenizer
from tokenizers.processors import TemplateProcessing

from raypipe import schema
from raypipe.errors import InputError
from raypipe.models.folder.model_folder import open_tokenizer, resolve_model
from raypipe.stages import tokenize
from raypipe.stages.prepare import ConvertStage, CountStage, counted
from raypipe.stages.stage import Site, Sizing
from raypipe.stages.tokenize import TokenizeStage
from raypipe.storage.ledger import Ledger
from raypipe.storage.payloads import concatenate, write_table
from raypipe.storage.posix import PosixStorage
from raypipe.storage.records import Shard
from raypipe.storage.spec import StageSpec
from raypipe.storage.store import Stored
from raypipe.text.inputs import Layout
from raypipe.text.word_pieces import WordPieces


def test_each_row_is_tokenised_once_whatever_the_number_of_actors(stores, tiny_model):
    model = resolve_model(str(tiny_model))
    texts = [text(n % 7) for n in range(5)]
    collection = stores.passages(texts[:2], texts[2:])
    stage = TokenizeStage(collection, schema.PASSAGES, model)
    beats = []
    stored = stores.finished(stage, Sizing(num_actors=9, shard_rows=3), beats=beats)
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


@pytest.fixture
def passages(tmp_path):
    ledger = Ledger(PosixStorage(tmp_path), "passages", StageSpec("x", 1), [Shard(0, 0, 3)])
    file = ledger.storage.scratch() / "payload"
    table = pa.table([["a", "b", "c"], ["zebra run", "", "a lease"]], schema=schema.PASSAGES)
    write_table(file, schema.PASSAGES, [table])
    ledger.commit(ledger.shards[0], file, {"rows": 3})
    return Stored(ledger.storage, ledger.publish())


@pytest.mark.parametrize(("template", "fits"), [("[CLS] $A [SEP]", True), ("[CLS] $A", False)])
def test_a_tokenizer_that_builds_other_inputs_is_refused(tmp_path, passages, template, fits):
    folder = tiny.make_tiny_bert(tmp_path / "model")
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    ids = [(token, tokenizer.token_to_id(token)) for token in ("[CLS]", "[SEP]")]
    tokenizer.post_processor = TemplateProcessing(single=template, special_tokens=ids)
    tokenizer.save(str(folder / "tokenizer.json"))
    stage = TokenizeStage(passages, schema.PASSAGES, resolve_model(str(folder)))
    site = Site(passages.storage.scratch())
    if fits:
        assert stage.open(site).run(Shard(0, 0, 3), (), lambda rows: None).facts["rows"] == 3
    else:
        with pytest.raises(InputError, match="zebra run"):
            stage.open(site)


def stage(num_rows):
    read = []

    def table(schema, start, stop):
        assert schema == "schema"
        read.append((start, stop))
        texts = SimpleNamespace(to_pylist=lambda: list(range(start, stop)))
        return {"text": texts}

    found = TokenizeStage(SimpleNamespace(num_rows=num_rows, table=table), "schema", "model")
    return found, read


@pytest.mark.parametrize(
    ("num_rows", "expected", "reads"),
    [
        (0, [], []),
        (5, [0, 1, 2, 3, 4], [(0, 5)]),
        (250, list(range(250)), [(0, 100), (100, 200), (200, 250)]),
        (1000, list(range(1000)), [(n, n + 100) for n in range(0, 1000, 100)]),
        (1001, list(range(0, 1001, 2)), [(n, min(n + 200, 1001)) for n in range(0, 1001, 200)]),
        (2500, list(range(0, 2500, 3)), [(n, min(n + 300, 2500)) for n in range(0, 2500, 300)]),
    ],
)
def test_at_most_a_thousand_texts_at_equal_distances_are_compared(
    monkeypatch, num_rows, expected, reads
):
    compared = []

    def refuse(tokenizer, texts, model):
        assert (tokenizer, model) == ("tokenizer", "model")
        compared.extend(texts)

    monkeypatch.setattr(tokenize, "refuse_other_inputs", refuse)
    found, read = stage(num_rows)
    found._check_slicing("tokenizer")
    assert compared == expected and read == reads
    assert len(compared) <= 1000 == tokenize.SAMPLED_TEXTS


@pytest.mark.parametrize(("kind", "pairs"), [("mono", True), ("duo", False), ("encoder", False)])
def test_a_mono_is_compared_on_pairs_and_what_differs_is_named(monkeypatch, kind, pairs):
    family = SimpleNamespace(layout=lambda tokenizer, segments: Layout(1, (2,), 2, tuple(segments)))
    model = SimpleNamespace(
        conventions=SimpleNamespace(kind=kind), folder="folder", family=family, by_library=False
    )
    tokenizer = SimpleNamespace(id_to_token=["[PAD]", "[CLS]", "[SEP]"].__getitem__)
    asked, answer = [], [None]

    def first_difference(tokenizer, texts, single, pair):
        assert single.segments == (0,)
        asked.append((texts, pair is not None and pair.segments == (0, 1)))
        return answer[0]

    monkeypatch.setattr("raypipe.text.prompts.first_difference", first_difference)
    tokenize.refuse_other_inputs(tokenizer, ["a"], model)
    assert asked == [(["a"], pairs)]
    answer[0] = "x" * 70
    told = r"folder: the tokenizer's own input for 'x{60}' is not \[CLS\] pieces \[SEP\]"
    told += r" \(of a pair, with segments \(0, 1\)\)," if pairs else ","
    with pytest.raises(InputError, match=told):
        tokenize.refuse_other_inputs(tokenizer, ["a"], model)


@pytest.mark.parametrize(
    ("num_rows", "rows", "sizes"),
    [
        (10, 100, [10]),
        (10, 2, [2] * 5),
        (0, 2, [0]),
        (32_768, 100_000, [16_384, 16_384]),  # of about three seconds
    ],
)
def test_shards_are_of_the_wanted_rows_or_a_few_seconds(num_rows, rows, sizes):
    found, _ = stage(num_rows)
    for actors in (1, 9):
        shards = found.shards(Sizing(num_actors=actors, shard_rows=rows))
        assert [s.num_rows for s in shards] == sizes
    assert tokenize.BATCH_ROWS == 2048


@pytest.mark.parametrize(
    ("limits", "kept"),
    [
        ({"query_limit": 20, "passage_limit": 62}, 512),
        ({"query_limit": 20, "passage_limit": 513}, 513),
        ({"query_limit": 700, "passage_limit": 600}, 700),
    ],
)
def test_as_many_pieces_are_kept_as_inputs_hold_and_512_of_shorter_ones(
    stores, tmp_path, limits, kept
):
    """So that models of usual limits share the pieces of one tokenizer."""
    model = resolve_model(str(tiny.make_tiny_bert(tmp_path / "m", **limits)))
    stage = TokenizeStage(stores.passages(["a " * 900, "a"]), schema.PASSAGES, model)
    assert stage.spec.params["max_pieces"] == model.max_pieces == kept
    batches, word_pieces = [pa.array(["a " * 900])], WordPieces(open_tokenizer(model))
    flat, _ = concatenate([*tokenize.pieces_of(word_pieces, batches, model, "")])
    assert len(flat) == kept


def test_a_rerankers_pieces_are_those_of_its_whole_input(tmp_path):
    folder = tiny.make_tiny_reranker(tmp_path / "m", total_limit=800)
    assert resolve_model(str(folder)).max_pieces == 800


def test_words_are_remembered_from_shard_to_shard_and_freed_with_the_opened_stage(
    stores, tiny_model, monkeypatch
):
    made = []

    class Kept(WordPieces):
        def __init__(self, tokenizer):
            super().__init__(tokenizer)
            made.append(weakref.ref(self))

    monkeypatch.setattr("raypipe.text.word_pieces.WordPieces", Kept)
    model = resolve_model(str(tiny_model))
    stage = TokenizeStage(stores.passages(["zebra run", "run zebra"]), schema.PASSAGES, model)
    opened = stage.open(Site(stores.storage.scratch()))
    opened.run(Shard(0, 0, 1), (), lambda rows: None)
    opened.run(Shard(1, 1, 2), (), lambda rows: None)
    (pieces,) = made
    assert {b"zebra", b"run"} < set(pieces()._memo._rows)
    del opened
    gc.collect()
    assert pieces() is None


def test_a_text_gets_the_pieces_of_its_whole_with_the_prefix(stores, tiny_model):
    texts = ["zebra", "", "bra run", "\u0301run", "[SEP]run " * 300]
    model = resolve_model(str(tiny_model))
    for prefix in ("ze", "query: ", "[SE", "\u0301"):
        stage = TokenizeStage(stores.passages(texts), schema.PASSAGES, model, prefix=prefix)
        flat, offsets = stores.finished(stage).tokens(0, len(texts))
        found = [flat[a:b].tolist() for a, b in itertools.pairwise(offsets)]
        assert found == [row[:512] for row in pieces(model, [prefix + text for text in texts])]


@pytest.mark.fault(31, "3 of 3 empty and blank texts are rows without word pieces, and counted")
def test_empty_and_blank_texts_are_rows_without_pieces(stores, tiny_model, tmp_path):
    file = tmp_path / "passages.tsv"
    file.write_text("a\t\nb\t  \nc\tzebra\nd\t\u00a0\u2003\n")
    facts = counted(stores.finished(CountStage([file], "msmarco-v1")))
    collection = stores.finished(ConvertStage([file], facts, "msmarco-v1"))
    assert collection.manifest.records[0].facts["blank"] == 3
    model = resolve_model(str(tiny_model))
    _, offsets = stores.finished(TokenizeStage(collection, schema.PASSAGES, model)).tokens(0, 4)
    assert [int(n) for n in offsets[1:] - offsets[:-1]] == [0, 0, 1, 0]
