"""Folders as libraries save them and as people change them: equal to the library, or not packed."""

import json
import shutil
import time
from dataclasses import replace

import drawn_models
import numpy as np
import pytest
from json_files import changed, write
from peer_encoders import ours, peer

from raypipe.driver.proof.proof import of_library, subject_of
from raypipe.driver.proof.reference import prove
from raypipe.errors import InputError
from raypipe.models.convert.convert import convert
from raypipe.models.folder.model_folder import resolve_model
from raypipe.stages.in_memory import score_texts

pytestmark = pytest.mark.slow
EVERY_CHARACTER = pytest.mark.every_character
KINDS = ("bert", "distilbert", "roberta", "xlm-roberta", "camembert")
TOKENIZER, CONFIG = "tokenizer_config.json", "config.json"
SETTINGS, LENGTH = "config_sentence_transformers.json", "sentence_bert_config.json"
POOLING = "1_Pooling/config.json"
IDENTITY = "torch.nn.modules.linear.Identity"
SIGMOID = "torch.nn.modules.activation.Sigmoid"
UNSEEN = ["a lease held by Two <pad> drivers", "rank the passage", "Zürich 東京", "query " * 40, ""]
ENCODERS = {
    "as it is": ({}, None),
    "truncation_side": ({TOKENIZER: {"truncation_side": "left"}}, "it reads"),
    "model_max_length": ({TOKENIZER: {"model_max_length": 20}}, None),
    "without segments": ({TOKENIZER: {"model_input_names": ["input_ids", "attention_mask"]}}, None),
    "split_special_tokens": ({TOKENIZER: {"split_special_tokens": True}}, "it reads"),
    "extra_special_tokens": ({TOKENIZER: {"extra_special_tokens": ["passage"]}}, "it reads"),
    "max_seq_length": ({LENGTH: {"max_seq_length": 11}}, None),
    "prompts": ({SETTINGS: {"prompts": {"query": "a: ", "document": "rank "}}}, None),
    "one for passages": ({SETTINGS: {"prompts": {"passage": "rank "}}}, None),
    "a default prompt": (
        {SETTINGS: {"prompts": {"query": "a: "}, "default_prompt_name": "query"}},
        None,
    ),
    "another default prompt": (
        {SETTINGS: {"prompts": {"web": "rank "}, "default_prompt_name": "web"}},
        None,
    ),
    "truncate_dim": ({SETTINGS: {"truncate_dim": 7}}, None),
    "dot": ({SETTINGS: {"similarity_fn_name": "dot"}}, None),
    "cls": ({POOLING: {"pooling_mode": "cls"}}, None),
    "max": ({POOLING: {"pooling_mode": "max"}}, None),
    "last": ({POOLING: {"pooling_mode": "lasttoken"}}, None),
    "another task": (
        {LENGTH: {"transformer_task": "fill-mask"}},
        "the checkpoint lacks the tensor",
    ),
}
OF_BERT = {
    "cased": ({TOKENIZER: {"tokenizer_class": "BertTokenizer", "do_lower_case": False}}, "reads"),
    "accents": ({TOKENIZER: {"tokenizer_class": "BertTokenizer", "strip_accents": False}}, "reads"),
    "chinese": (
        {TOKENIZER: {"tokenizer_class": "BertTokenizer", "tokenize_chinese_chars": False}},
        "it reads",
    ),
    "another class": ({TOKENIZER: {"tokenizer_class": "BertTokenizer"}}, None),
    "a class of none": ({TOKENIZER: {"tokenizer_class": "BertJapaneseTokenizer"}}, "cannot open"),
    "padding_side": ({TOKENIZER: {"padding_side": "left"}}, "it makes"),
}
RERANKERS = {
    "as it is": ({}, None),
    "truncation_side": ({TOKENIZER: {"truncation_side": "left"}}, "it reads"),
    "model_max_length": ({TOKENIZER: {"model_max_length": 20}}, None),
    "query's prompt": ({SETTINGS: {"prompts": {"query": "a: ", "document": "rank "}}}, None),
    "a default prompt": (
        {SETTINGS: {"prompts": {"document": "rank "}, "default_prompt_name": "document"}},
        None,
    ),
    "identity": ({SETTINGS: {"activation_fn": IDENTITY}}, None),
    "identity over sigmoid": (
        {SETTINGS: {"activation_fn": IDENTITY}, CONFIG: {"sentence_transformers": {"activation_fn":
         SIGMOID}}}, None,
    ),
    "identity of before": (
        {SETTINGS: {"activation_fn": None},
         CONFIG: {"sbert_ce_default_activation_function": IDENTITY}}, None,
    ),
    "an activation of its own": ({SETTINGS: {"activation_fn": "mine.Identity"}}, "it makes"),
}  # fmt: skip
NO_SEGMENTS = {TOKENIZER: {"model_input_names": ["input_ids", "attention_mask"]}}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A function that gives a fresh copy of an encoder or reranker of a kind, as libraries save."""
    root = tmp_path_factory.mktemp("made")

    def copy(kind, scores, place):
        made = root / f"{kind}-{scores}"
        if not made.exists() and scores:
            from sentence_transformers import CrossEncoder

            drawn_models.make(made, kind, units=1)
            CrossEncoder(str(made), device="cpu").save_pretrained(str(made))
        elif not made.exists():
            peer(made, kind, "mean")
        shutil.copytree(made, place)
        return place

    return copy


@pytest.fixture(autouse=True)
def characters_that_decide(request):
    """All of Unicode's, where a test is about them."""
    if request.node.get_closest_marker("every_character") is None:
        request.getfixturevalue("fewer_characters")


def finding(folder, edits, preset=None):
    for file, values in edits.items():
        changed(folder / file, **values)
    subject = subject_of(resolve_model(str(folder), preset))
    return subject, prove(subject, 1)


def check(found, expected):
    assert (found["problem"] == "") == (expected is None), found["problem"]
    if expected is None:
        assert found["inputs"] > 100 and found["values"] >= 16 and found["largest"] <= 1e-4
    else:
        assert expected in found["problem"]


READING = {"as it is", "truncation_side", "model_max_length", "without segments", "another task"}
READING |= {"split_special_tokens", "extra_special_tokens"}
"""Changes of how a text is read, which each kind does in its own way."""
FORMS = ("bert", "roberta", "xlm-roberta")
"""One kind of each form of tokenizer: distilbert has BERT's, camembert XLM-RoBERTa's."""


def with_kinds(names):
    """Each kind as it is, each form of tokenizer with what it reads, one kind with the others.

    All else is long.
    """
    cases = []
    for number, name in enumerate(names):
        tried = FORMS if name in READING else KINDS[number % len(KINDS)]
        tried = KINDS if name == "as it is" else tried
        marks = [EVERY_CHARACTER] if name == "as it is" else []
        by_hand = {kind: [] if kind in tried else [pytest.mark.long] for kind in KINDS}
        cases += [pytest.param(kind, name, marks=marks + by_hand[kind]) for kind in KINDS]
    return cases


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        *with_kinds(ENCODERS),
        *(pytest.param("bert", name, marks=EVERY_CHARACTER) for name in OF_BERT),
    ],
)
def test_an_encoder_is_its_librarys_or_its_proof_says_where_it_differs(
    folders, tmp_path, kind, name
):
    edits, expected = {**ENCODERS, **OF_BERT}[name]
    folder = folders(kind, False, tmp_path / "m")
    subject, found = finding(folder, edits)
    assert subject.own
    check(found, expected)
    if expected is not None:
        return
    from sentence_transformers import SentenceTransformer

    theirs = SentenceTransformer(str(folder), device="cpu")
    for side, encode in (("query", theirs.encode_query), ("passage", theirs.encode_document)):
        assert np.abs(ours(folder, UNSEEN, side)[0] - encode(UNSEEN)).max() < 1e-4


@pytest.mark.parametrize(("kind", "name"), with_kinds([*RERANKERS, "without segments"]))
def test_a_reranker_is_its_librarys_or_its_proof_says_where_it_differs(
    folders, tmp_path, kind, name
):
    reads = "it reads segments 0, raypipe 0 and 1" if kind == "bert" else None
    edits, expected = RERANKERS.get(name, (NO_SEGMENTS, reads))
    folder = folders(kind, True, tmp_path / "m")
    subject, found = finding(folder, edits)
    assert subject.own
    check(found, expected)
    if expected is not None:
        return
    from sentence_transformers import CrossEncoder

    pairs = [(one, two) for one in UNSEEN for two in UNSEEN]
    theirs = CrossEncoder(str(folder), device="cpu").predict(pairs)
    rows = np.arange(len(pairs))
    columns = [[pair[place] for pair in pairs] for place in (0, 1)]
    scores = score_texts(resolve_model(str(folder)), *columns, (rows, rows, rows), device="cpu")
    assert np.abs(scores - theirs).max() < 1e-4


KEEPS_CASE = {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True,
              "strip_accents": None, "lowercase": False}  # fmt: skip
NO_SPECIALS = {"type": "TemplateProcessing", "single": [{"Sequence": {"id": "A", "type_id": 0}}],
               "pair": [{"Sequence": {"id": "A", "type_id": 0}},
                        {"Sequence": {"id": "B", "type_id": 1}}],
               "special_tokens": {}}  # fmt: skip
OF_FILE = {TOKENIZER: {"tokenizer_class": "PreTrainedTokenizerFast"}}


@pytest.mark.parametrize(
    ("edits", "expected"),
    [
        ({POOLING: {"include_prompt": False}, SETTINGS: {"prompts": {"query": "a: "}}}, "it makes"),
        ({**OF_FILE, "tokenizer.json": {"normalizer": KEEPS_CASE},
          LENGTH: {"do_lower_case": True}}, "it reads"),
        ({**OF_FILE, "tokenizer.json": {"post_processor": NO_SPECIALS}}, "is not [CLS] pieces"),
        ({"2_Normalize/config.json": {"module_input_name": "token_embeddings",
                                      "module_output_name": "token_embeddings"}}, "it makes"),
    ],
)  # fmt: skip
def test_unusual_settings_that_raypipe_does_not_read_are_the_librarys(tmp_path, edits, expected):
    from sentence_transformers.base.modules import Normalize

    peer(tmp_path, "bert", "mean", Normalize())
    write(tmp_path / "2_Normalize" / "config.json", {})
    subject, found = finding(tmp_path, edits)
    assert subject.own
    check(found, expected)
    theirs = of_library(resolve_model(str(tmp_path)))
    assert theirs is not None and theirs.by_library


@EVERY_CHARACTER
@pytest.mark.parametrize(
    ("rule", "read"),
    [
        (
            {"type": "Replace", "pattern": {"String": "\u2116"}, "content": " rank "},
            r"a\u2116b \u2116",
        ),
        ({"type": "Replace", "pattern": {"String": "shard"}, "content": "lease"}, "ashardb shard"),
    ],
)
def test_a_rule_of_tokenizer_json_that_the_library_does_not_apply_is_seen(tmp_path, rule, read):
    """transformers makes a BertTokenizer of the vocabulary alone, with BERT's rules."""
    peer(tmp_path, "bert", "mean")
    normalizer = {"type": "Sequence", "normalizers": [rule, {**KEEPS_CASE, "lowercase": True}]}
    edits = {TOKENIZER: {"tokenizer_class": "BertTokenizer"}}
    subject, found = finding(tmp_path, {**edits, "tokenizer.json": {"normalizer": normalizer}})
    assert subject.own
    assert found["problem"].startswith(f"of the text '{read}' it reads ")
    _, of_file = finding(tmp_path, OF_FILE)
    check(of_file, None)


def test_a_sparse_encoder_of_another_pooling_is_the_librarys(tmp_path):
    folder = sparse(tmp_path, routed=False)
    (file,) = folder.glob("*Pooling/config.json")
    edits = {str(file.relative_to(folder)): {"pooling_strategy": "sum"}}
    check(finding(folder, edits)[1], "it makes")
    theirs = of_library(resolve_model(str(folder)))
    assert theirs is not None and theirs.by_library


@pytest.mark.parametrize(
    ("kind", "units"), [("bert", 1), *((kind, 1 + n % 2) for n, kind in enumerate(KINDS, 1))]
)
def test_a_bare_folder_with_a_preset_is_compared_with_transformers(tmp_path, kind, units):
    drawn_models.make(tmp_path, kind, units=units)
    changed(tmp_path / CONFIG, architectures=[f"{kind}Model"] if units == 2 else None)
    settings = {**drawn_models.MONO, "relevant_label": 1 if units == 2 else None}
    write(tmp_path / "raypipe.json", settings)
    subject, found = finding(tmp_path, {})
    assert not subject.own and subject.library.startswith("transformers ")
    check(found, None)
    changed(tmp_path / "raypipe.json", query_prefix="rank ", score="log-probability")
    check(finding(tmp_path, {})[1], None)


@pytest.mark.parametrize("kind", KINDS)
def test_hidden_states_of_a_bare_encoder_are_transformers(tmp_path, kind):
    drawn_models.make(tmp_path, kind)
    write(tmp_path / "raypipe.json", {**drawn_models.ENCODER, "passage_limit": 40})
    subject, found = finding(tmp_path, {})
    assert not subject.own
    check(found, None)
    lower = {"tokenizer_class": "BertTokenizer", "do_lower_case": False}
    if kind == "bert":
        check(finding(tmp_path, {TOKENIZER: lower})[1], "it reads")


@pytest.mark.parametrize("settings", [{}, {"pooling": "splade", "normalise": False}])
def test_a_bare_model_with_one_limit_for_queries_and_passages_is_transformers(tmp_path, settings):
    drawn_models.make(tmp_path, "bert", words=True)
    limits = {"query_limit": 40, "passage_limit": 40}
    write(tmp_path / "raypipe.json", {**drawn_models.ENCODER, **limits, **settings})
    check(finding(tmp_path, {})[1], None)


@pytest.mark.parametrize(
    ("kind", "pooling"),
    [("bert", "splade"), ("distilbert", "splade-log1p"), ("roberta", "splade")],
)
def test_weights_of_words_of_a_bare_sparse_model_are_transformers(tmp_path, kind, pooling):
    drawn_models.make(tmp_path, kind, words=True)
    write(tmp_path / "raypipe.json", {**drawn_models.ENCODER, "pooling": pooling})
    check(finding(tmp_path, {})[1], None)


def test_a_splade_decoder_that_is_not_the_word_embeddings_is_for_the_library_to_compute(tmp_path):
    drawn_models.make(tmp_path, "bert", words=True, tie_word_embeddings=False)
    write(tmp_path / "raypipe.json", {**drawn_models.ENCODER, "pooling": "splade"})
    check(finding(tmp_path, {})[1], "decoder.weight: expected the tensor that it is tied to, found")


def sparse(folder, *, routed):
    """A SparseEncoder, whose queries have the weights of a table if it is routed."""
    import torch
    from sentence_transformers import SparseEncoder
    from sentence_transformers.base.modules import Router
    from sentence_transformers.sparse_encoder import modules

    drawn_models.make(folder / "drawn", "bert", words=True)
    model = modules.MLMTransformer(str(folder / "drawn"))
    parts = [model, modules.SpladePooling(activation_function="log1p_relu" if routed else "relu")]
    if routed:
        weight = torch.rand(model.config.vocab_size, generator=torch.Generator().manual_seed(1))
        table = modules.SparseStaticEmbedding(model.tokenizer, weight * 5)
        parts = [Router.for_query_document([table], parts)]
    SparseEncoder(modules=parts, device="cpu").save_pretrained(str(folder / "saved"))
    return folder / "saved"


def test_a_sparse_encoder_is_its_librarys(tmp_path):
    folder = sparse(tmp_path, routed=False)
    subject, found = finding(folder, {})
    assert subject.own
    check(found, None)
    check(finding(folder, {SETTINGS: {"max_active_dims": 3}})[1], None)
    subject, _ = finding(folder, {SETTINGS: {"max_active_dims": 3}})
    own = replace(subject.model.conventions, max_terms=5)
    other = subject._replace(model=replace(subject.model, conventions=own))
    assert prove(other, 1)["problem"] == "it keeps 3 words of a text, raypipe 5"
    check(finding(folder, {TOKENIZER: {"truncation_side": "left"}})[1], "it reads")


def test_weights_that_are_not_finite_are_named_and_nobody_computes_them(folders, tmp_path):
    from safetensors.torch import load_file, save_file

    folder = folders("bert", False, tmp_path / "m")
    tensors = load_file(folder / "model.safetensors")
    tensors["encoder.layer.1.output.dense.bias"][3] = float("nan")
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    _, found = finding(folder, {})
    assert found["refused"] and "values that are not finite of the query" in found["problem"]
    assert "the weights hold NaN or infinity" in found["problem"]


def test_queries_by_a_table_are_the_librarys_and_a_converted_folders_are_its_tokenizers(tmp_path):
    folder = sparse(tmp_path, routed=True)
    convert(folder, tmp_path / "converted")
    subject, found = finding(tmp_path / "converted", {})
    assert not subject.own and subject.model.query_table is not None
    check(found | {"values": found["values"] * 2}, None)  # of passages alone
    (inner,) = folder.glob("document_0_*")
    for file in inner.iterdir():  # the model beside the router, where raypipe reads it
        file.rename(folder / file.name)
    routes = folder / "router_config.json"
    routes.write_text(routes.read_text().replace(f'"{inner.name}"', '""'))
    subject, found = finding(folder, {})
    assert subject.own and subject.model.query_table is not None
    check(found, None)
    (file,) = folder.glob("query_0_*/tokenizer.json")
    body = json.loads(file.read_text())
    vocabulary = body["model"]["vocab"]
    vocabulary["the"], vocabulary["rank"] = vocabulary["rank"], vocabulary["the"]
    file.write_text(json.dumps(body))
    check(finding(folder, {})[1], "it reads")


@pytest.mark.parametrize("row", ["zero", "copy"])
def test_a_duobert_of_two_segment_rows_is_compared_with_the_third_that_it_gets(tmp_path, row):
    drawn_models.make(tmp_path, "bert", units=2)
    settings = {"kind": "duo", "query_limit": 12, "passage_limit": 20, "total_limit": 64}
    settings |= {"relevant_label": 1, "score": "probability", "segment_row": row}
    write(tmp_path / "raypipe.json", settings)
    check(finding(tmp_path, {})[1], None)


@EVERY_CHARACTER
@pytest.mark.parametrize("name", ["minilm-mono", "minilm-duo", "minilm"])
def test_packaged_models_are_their_libraries(name):
    began = time.monotonic()
    found = prove(subject_of(resolve_model(name)), 1)
    check(found, None)
    assert 0 < found["seconds"] <= time.monotonic() - began


def test_tensors_of_a_training_in_fp16_are_computed_in_fp32_on_both_sides(folders, tmp_path):
    import torch
    from safetensors.torch import load_file, save_file

    file = folders("bert", False, tmp_path / "m") / "model.safetensors"
    save_file({n: t.to(torch.float16) for n, t in load_file(file).items()}, file, {"format": "pt"})
    check(finding(tmp_path / "m", {CONFIG: {"dtype": "float16"}})[1], None)


def test_a_head_of_three_units_is_refused_and_one_of_two_is_compared_by_its_logits(tmp_path):
    drawn_models.make(tmp_path / "three", "bert", units=3)
    with pytest.raises(InputError, match="a head of one or two units, found 3"):
        resolve_model(str(tmp_path / "three"))
    drawn_models.make(tmp_path / "two", "bert", units=2)
    write(tmp_path / "two" / "raypipe.json", {"relevant_label": 0, "score": "probability"})
    subject, found = finding(tmp_path / "two", {})
    assert not subject.own
    check(found, None)


def test_weights_under_names_that_the_library_does_not_find_are_to_be_converted(folders, tmp_path):
    from safetensors.torch import load_file, save_file

    folder = folders("bert", True, tmp_path / "m")
    tensors = load_file(folder / "model.safetensors")
    renamed = {f"_orig_mod.{name}": tensor for name, tensor in tensors.items()}
    save_file(renamed, folder / "model.safetensors", metadata={"format": "pt"})
    _, found = finding(folder, {})
    check(found, "the checkpoint lacks the tensor bert.embeddings")
    convert(folder, tmp_path / "out")
    _, found = finding(tmp_path / "out", {})
    check(found, None)
