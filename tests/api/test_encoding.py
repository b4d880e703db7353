import shutil

import numpy as np
import pyarrow as pa
import pytest

import raypipe
from raypipe.errors import InputError, RowsFailed


def test_embeddings_are_the_bytes_that_the_encode_stage_stores(
    passages, queries, tiny_model, stored
):
    for side, texts, name in (
        ("passage", passages, "embeddings"),
        ("query", queries, "embeddings.test"),
    ):
        store = stored(name)
        assert name != "embeddings" or len(store.manifest.records) > 1
        kept = np.concatenate([store.vectors(record) for record in store.manifest.records])
        found = raypipe.encode(texts, tiny_model, side=side)
        assert found.dtype == np.float16 and found.shape == kept.shape
        assert found.tobytes() == kept.tobytes()


def test_a_text_has_its_bytes_alone_and_in_any_order(passages, tiny_model):
    texts = list(passages.values())
    together = raypipe.encode(texts, tiny_model)
    assert raypipe.encode(texts[::-1], tiny_model)[::-1].tobytes() == together.tobytes()
    assert raypipe.encode([texts[7]], tiny_model).tobytes() == together[7].tobytes()


def test_texts_beyond_what_is_held_at_once_are_encoded_alike(passages, tiny_model, monkeypatch):
    from raypipe.stages import in_memory, tokenize

    whole = raypipe.encode(passages, tiny_model)
    monkeypatch.setattr(in_memory, "ENCODED_ROWS", 7)
    monkeypatch.setattr(tokenize, "BATCH_ROWS", 5)
    assert raypipe.encode(passages, tiny_model).tobytes() == whole.tobytes()


def test_texts_come_as_lists_dictionaries_columns_and_tables(tiny_model):
    texts = ["the lease", "", "a zebra"]
    wanted = raypipe.encode(texts, str(tiny_model)).tobytes()
    table = pa.table({"text": texts, "passage_id": [5, 6, 7]})
    for given in (
        tuple(texts),
        dict(zip("abc", texts, strict=True)),
        pa.array(texts),
        pa.chunked_array([texts[:1], texts[1:]]),
        table,
        Streamed(table),
        table.to_pandas()["text"],
    ):
        assert raypipe.encode(given, tiny_model).tobytes() == wanted


class Streamed:
    """What a DataFrame of another library hands out."""

    columns = ("text", "passage_id")

    def __init__(self, table):
        self._table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self._table.__arrow_c_stream__(requested_schema)


def test_no_text_gives_no_row(tiny_model):
    assert raypipe.encode([], tiny_model).shape == (0, 32)
    assert raypipe.encode([], tiny_model).dtype == np.float16


def test_prefixes_and_presets_are_the_models(tiny, tmp_path):
    prefixed = tiny.make_tiny_bert(tmp_path / "prefixed", query_prefix="run ", query_limit=62)
    plain = raypipe.encode(["a zebra"], prefixed, side="passage", preset=None)
    assert plain.tobytes() != raypipe.encode(["a zebra"], prefixed, side="query").tobytes()
    other = tiny.make_tiny_bert(
        tmp_path / "other", query_segment=1, query_limit=62, passage_segment=0
    )
    given = raypipe.encode(["run a zebra"], other, side="passage")
    assert raypipe.encode(["a zebra"], prefixed, side="query").tobytes() == given.tobytes()


def test_a_folder_that_changed_is_opened_again(tiny, tmp_path):
    folder = tiny.make_tiny_bert(tmp_path / "model", seed=3)
    before = raypipe.encode(["a zebra"], folder)
    other = tiny.make_tiny_bert(tmp_path / "other", seed=4)
    shutil.copy(other / "model.safetensors", folder / "model.safetensors")
    after = raypipe.encode(["a zebra"], folder)
    assert after.tobytes() == raypipe.encode(["a zebra"], other).tobytes() != before.tobytes()


def test_the_callers_threads_are_put_back(tiny_model):
    import torch

    before = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        raypipe.encode(["a zebra"], tiny_model)
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("texts", "told"),
    [
        ("one text", "found one text; expected several: put it in a list"),
        (7, "found int; expected a list or column of texts, a dictionary"),
        (np.array(["a"]), "found ndarray; expected a list or column of texts, a dictionary"),
        (iter(["a"]), "found list_iterator; expected a list or column of texts, a dictionary"),
        (["a", None], "passage 1 (id '1'): expected a text, found NoneType"),
        (["a", "\ud800"], "passage 1 (id '1'): not Unicode text"),
        ({"a b": "text"}, "passage 0: white space or a control character"),
        ({1.5: "text"}, "passage 0: expected a string as passage id, found 1.5"),
        ({1: "one", "1": "two"}, "passage 1: id '1' again, first at 0"),
        (pa.table({"id": ["1"], "text": ["a"]}), "expected a column passage_id; found id, text"),
    ],
)
def test_what_is_no_list_of_texts_is_refused(texts, told, tiny_model):
    with pytest.raises(InputError) as refused:
        raypipe.encode(texts, tiny_model)
    assert told in str(refused.value)


def test_what_is_no_encoder_is_refused(tiny_mono, tiny_model, tmp_path):
    with pytest.raises(InputError, match="expected an encoder, found kind mono"):
        raypipe.encode(["a"], tiny_mono)
    with pytest.raises(InputError, match="no such model folder"):
        raypipe.encode(["a"], tmp_path / "nothing")
    with pytest.raises(InputError, match="side: expected one of passage, query; found 'document'"):
        raypipe.encode(["a"], tiny_model, side="document")
    with pytest.raises(InputError, match="device: expected one of auto, cpu, cuda; found 'gpu'"):
        raypipe.encode(["a"], tiny_model, device="gpu")


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (1e6, "beyond 65,504, the range of fp16, .*; set normalise: true"),
        (1e-6, "below 6.1e-05, the range of fp16, .*; set normalise: true"),
        (0.0, None),
    ],
)
def test_rows_that_fp16_does_not_hold_are_named(tiny, tmp_path, monkeypatch, value, told):
    from raypipe.stages import in_memory

    folder = tiny.make_tiny_bert(tmp_path / "huge", seed=5)
    encode = in_memory.Encoder.encode

    def beyond(self, flat, offsets, *, side):
        found = encode(self, flat, offsets, side=side)
        found[-1] = value
        return found

    monkeypatch.setattr(in_memory, "ENCODED_ROWS", 2)
    monkeypatch.setattr(in_memory.Encoder, "encode", beyond)
    if told is None:
        assert not raypipe.encode(["a", "b", "c"], folder)[1].any()
        return
    with pytest.raises(RowsFailed, match=told) as failed:
        raypipe.encode(["a", "b", "c"], folder)
    assert failed.value.rows == (1,)
