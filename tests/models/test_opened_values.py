"""Model folders opened or refused, and the probe of neighbours, by hand."""

import json
import shutil
from hashlib import sha256

import pytest
import torch
from safetensors.torch import save_file

from raypipe.errors import InputError
from raypipe.models import blas, neighbours, tokenizer
from raypipe.models.encoder import load_encoder
from raypipe.models.folder.adapters import adapter_facts, is_adapter
from raypipe.models.folder.loading import (
    layouts_of,
    load_weights,
    resolve_model,
    starting_weights,
)
from raypipe.models.neighbours import COMPANY, settled
from raypipe.models.scorer import load_scorer
from raypipe.models.tokenizer import read_tokenizer


def write(path, body):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(body))


def changed(path, **fields):
    write(path, {**json.loads(path.read_text()), **fields})


@pytest.fixture
def mono(tiny_mono, tmp_path):
    return shutil.copytree(tiny_mono, tmp_path / "mono")


@pytest.fixture
def encoder(tiny_model, tmp_path):
    return shutil.copytree(tiny_model, tmp_path / "encoder")


@pytest.mark.parametrize("lost", ["[CLS]", "[SEP]"])
def test_a_tokenizer_without_one_of_the_specials_feeds_no_model(encoder, lost):
    body = json.loads((encoder / "tokenizer.json").read_text())
    vocabulary = body["model"]["vocab"]
    vocabulary["gone"] = vocabulary.pop(lost)
    body["added_tokens"] = [each for each in body["added_tokens"] if each["content"] != lost]
    body["post_processor"] = None
    write(encoder / "tokenizer.json", body)
    with pytest.raises(InputError, match=r"the tokenizer has no \[CLS\] or no \[SEP\]"):
        layouts_of(resolve_model(str(encoder)))


def test_what_is_missing_of_a_folder_is_told_at_once(encoder):
    for name in ("config.json", "tokenizer.json", "model.safetensors"):
        (encoder / name).unlink()
    with pytest.raises(InputError) as told:
        resolve_model(str(encoder))
    assert [p.split(": ")[1].split(";")[0] for p in told.value.problems] == [
        "expected model.safetensors, none",
        "no config.json",
        "no tokenizer.json or vocab.txt",
    ]
    with pytest.raises(InputError, match="no such model folder"):
        resolve_model(str(encoder / "x"))


def test_the_packaged_weights_are_the_pinned_ones_or_refused(tmp_path, monkeypatch, encoder):
    from raypipe.models.folder import loading

    minilm = resolve_model("minilm")
    assert minilm.weights_sha256 == loading.PACKAGED_SHA256
    assert starting_weights(minilm).startswith("1B pairs")
    assert starting_weights(resolve_model("minilm", "repbert")).startswith("1B pairs")
    assert resolve_model("minilm", "repbert").encoder.query_limit == 20
    changed(encoder / "raypipe.json", start_weights_saw="books")
    assert starting_weights(resolve_model(str(encoder))) == "books"
    monkeypatch.setattr(loading, "packaged_folder", lambda: encoder)
    with pytest.raises(InputError, match="reinstall the package"):
        resolve_model("minilm")


def test_a_third_row_is_asked_of_rerankers_alone(encoder, mono):
    with pytest.raises(InputError, match="expected a mono or duo model"):
        resolve_model(str(encoder), segment_row="zero")
    assert resolve_model(str(mono), segment_row="copy").reranker.segment_row == "copy"
    assert resolve_model(str(mono)).reranker.segment_row is None


def test_a_reranker_needs_two_segment_rows_and_an_encoder_those_it_names(tiny, tmp_path):
    one = tiny.make_tiny_reranker(tmp_path / "one", segments=1)
    with pytest.raises(InputError, match="expected two segment rows, found 1"):
        load_scorer(resolve_model(str(one)))
    single = tiny.make_tiny_bert(tmp_path / "s", segments=1, passage_segment=0)
    assert load_encoder(resolve_model(str(single))).dim == 32
    for side in ("query", "passage"):
        given = {"passage_segment": 0, f"{side}_segment": 2}
        folder = tiny.make_tiny_bert(tmp_path / side, **given)
        with pytest.raises(InputError, match="use segment 2, the model has 2 segment rows"):
            load_encoder(resolve_model(str(folder)))


class PanicException(BaseException):
    """As the tokenizers' library names its own."""


def test_a_librarys_panic_is_an_input_error_and_an_interrupt_goes_its_way(encoder, monkeypatch):
    class Raising:
        error: BaseException = PanicException("broken\nlines")

        @classmethod
        def from_file(cls, path):
            raise cls.error

    monkeypatch.setattr(tokenizer, "Tokenizer", Raising)
    with pytest.raises(InputError, match=r"tokenizer\.json: expected .*, found: broken; put"):
        read_tokenizer(encoder)
    Raising.error = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        read_tokenizer(encoder)


def test_the_companies_are_those_in_which_rows_were_seen_to_mix():
    small = list(range(17, 34))
    assert list(COMPANY) == [1, *small, 57, 129, 500, 777, 2048, 4096, 8192, 16384]


def test_companies_end_with_the_rows_of_a_forward():
    rows = []

    def product(x, weights):
        rows.append(len(x))
        return x[:, :1]

    assert settled({(20, 10)}, device="cpu", threads=1, rows=5000, product=product).proven
    assert rows[: neighbours.DISTINCT] == [1] * neighbours.DISTINCT
    assert rows[neighbours.DISTINCT :] == [*list(COMPANY)[:-2], 5000]


@pytest.mark.parametrize(
    ("number", "name"),
    [
        (3, "COMPATIBLE"), (4, "SSE2"), (6, "SSSE3"), (7, "SSE4_1"), (8, "SSE4_2"), (9, "AVX"),
        (10, "AVX2"), (12, "AVX512"), (14, "AVX512_E1"), (5, "branch 5"),
    ],
)  # fmt: skip
def test_mkls_own_numbers_of_kernels(number, name):
    assert blas.mode_name(number, 14) == name
    assert blas.mode_name(1, number) == f"off ({name})"


# Adapters


def test_an_adapters_file_is_counted_by_hand_and_needs_a_classifier(tmp_path, encoder):
    adapter = tmp_path / "a"
    write(adapter / "adapter_config.json", {"r": 3})
    body = {"kind": "mono", "query_limit": 12, "passage_limit": None, "total_limit": 64}
    body |= {"relevant_label": 1, "score": "raw", "base": str(encoder)}
    write(adapter / "raypipe.json", body)
    tensors = {"up": torch.ones(2, 3), "down": torch.ones(4, dtype=torch.float16)}
    file = adapter / "adapter_model.safetensors"
    save_file(tensors, file)
    found = adapter_facts(adapter)
    assert found == {
        "file": "adapter_model.safetensors", "sha256": sha256(file.read_bytes()).hexdigest(),
        "bytes": file.stat().st_size, "dtypes": ["F16", "F32"], "tensors": 2, "parameters": 10,
        "rank": 3,
    }  # fmt: skip
    with pytest.raises(InputError, match="expected a classifier, found none"):
        load_weights(resolve_model(str(adapter)))
    assert is_adapter(adapter) and not is_adapter(encoder)
    (adapter / "model.safetensors").touch()  # a whole model beside it
    assert not is_adapter(adapter) and not is_adapter(tmp_path)
