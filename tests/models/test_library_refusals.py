"""Folders that the library would open all the same, and would draw or run what they lack."""

import json
import os
import shutil

import numpy as np
import pytest
import sentence_transformers as library
import torch
from drawn_models import make
from json_files import changed, write
from library_layouts import (
    cross,
    decoder_reranker,
    dense,
    encoded,
    encoder,
    late,
    normal,
    routed,
    routes,
    scored,
    splade,
    stanford,
    static,
    words,
)
from safetensors.torch import load_file, save_file

from raypipe.errors import InputError
from raypipe.models import library_forward
from raypipe.models.convert.describe import describe
from raypipe.models.folder.model_folder import resolve_model
from raypipe.models.library import hash_of
from raypipe.models.load import load_encoder
from raypipe.models.machine import device

SETTINGS = "config_sentence_transformers.json"


def told(folder, **settings):
    with pytest.raises(InputError) as caught:
        resolve_model(str(folder), settings=settings or None)
    assert settings or describe(str(folder), None).problems
    return str(caught.value)


def without(folder, part):
    file = folder / "model.safetensors"
    tensors = load_file(file)
    lost = next(name for name in tensors if part in name)
    save_file({n: t for n, t in tensors.items() if n != lost}, file, metadata={"format": "pt"})
    return lost


@pytest.mark.parametrize(
    ("made", "part"),
    [
        (lambda f: encoder(f, "mpnet", normal), "layer.1.attention"),
        (lambda f: splade(f, "electra"), "generator_predictions"),
        (lambda f: cross(f, "electra"), "classifier.out_proj.weight"),
    ],
)
def test_a_missing_weight_is_named_and_not_drawn(tmp_path, made, part):
    folder = made(tmp_path)
    lost = without(folder, part)
    assert f"the checkpoint lacks the tensor {lost}" in told(folder)


@pytest.mark.parametrize("prefix", ["_orig_mod.", "module."])
def test_weights_under_the_names_of_a_compiler_or_trainer_are_named(tmp_path, prefix):
    file = encoder(tmp_path, "electra", normal) / "model.safetensors"
    tensors = {f"{prefix}{name}": tensor for name, tensor in load_file(file).items()}
    save_file(tensors, file, metadata={"format": "pt"})
    assert f"{prefix}embeddings.LayerNorm.bias: no such tensor in the model" in told(file.parent)


@pytest.mark.parametrize("kind", ["bert", "electra"])
@pytest.mark.parametrize("name", ["onnx/model.onnx", "model-q8_0.gguf"])
def test_weights_in_files_that_nobody_reads_are_named(tmp_path, kind, name):
    folder = encoder(tmp_path, kind, normal)
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / "model.safetensors").rename(folder / name)
    assert f"expected model.safetensors, found {name}, which raypipe does not read" in told(folder)


def test_an_activation_that_is_no_score_is_named_and_may_be_left_out(tmp_path):
    folder = cross(tmp_path, "electra", activation_fn=torch.nn.Tanh())
    assert "score: expected the activation Identity or Sigmoid, found Tanh" in told(folder)
    (folder / "raypipe.json").write_text('{"score": "raw"}')
    pairs = [[text for text in ("a zebra", "", "the lease")] for _ in range(2)]
    theirs = library.CrossEncoder(str(folder), device="cpu", activation_fn=torch.nn.Identity())
    expected = theirs.predict([*zip(*pairs, strict=True)])
    np.testing.assert_allclose(scored(folder, *pairs), expected, atol=1e-5)


def test_a_link_to_no_weights_is_named(tmp_path):
    folder = encoder(tmp_path, "bert", normal)
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors").symlink_to("../blobs/gone")
    assert "model.safetensors is a link to no file; fetch the model again" in told(folder)


def test_the_librarys_own_reason_is_told_whole_and_not_that_of_a_tokenizer_elsewhere(tmp_path):
    folder = encoder(tmp_path, "electra", normal)
    changed(folder / SETTINGS, requirements={"sentence-transformers": ">=99"})
    assert "requires: - sentence-transformers>=99, but" in told(folder)
    changed(folder / SETTINGS, requirements=None)
    (folder / "0_BERT").mkdir()
    for file in folder.glob("token*"):
        file.rename(folder / "0_BERT" / file.name)
    modules = json.loads((folder / "modules.json").read_text())
    modules[0] |= {"path": "0_BERT", "type": "sentence_transformers.models.BERT"}
    (folder / "modules.json").write_text(json.dumps(modules))
    assert 'does not define a "BERT"' in told(folder)


def test_weights_of_further_layers_or_other_sizes_are_named(tmp_path):
    folder = encoder(tmp_path, "mpnet", dense(8))
    rows = json.loads((folder / "config.json").read_text())["vocab_size"]
    changed(folder / "config.json", vocab_size=rows + 1)
    expected = f"embeddings.word_embeddings.weight: expected shape [{rows + 1}, 32] from"
    assert f"{expected} config.json, found [{rows}, 32]" in told(folder)
    changed(folder / "config.json", vocab_size=rows)
    changed(folder / "2_Dense" / "config.json", out_features=4)
    assert "for Dense: size mismatch for linear.weight" in told(folder)
    changed(folder / "2_Dense" / "config.json", out_features=8)
    changed(folder / "config.json", num_hidden_layers=1)
    assert "layer.1." in told(folder) and "of the sizes in config.json" in told(folder)


@pytest.mark.parametrize("name", ["config.json", "tokenizer_config.json"])
def test_code_of_the_folder_is_not_run(tmp_path, name):
    folder = encoder(tmp_path, "mpnet", normal)
    changed(folder / name, auto_map={"AutoModel": "own.Model"})
    assert "found code of the model's own" in told(folder)


def test_a_module_of_another_package_is_not_imported(tmp_path):
    folder = encoder(tmp_path, "mpnet", normal)
    modules = json.loads((folder / "modules.json").read_text())
    modules[-1]["type"] = "own_code.Module"
    (folder / "modules.json").write_text(json.dumps(modules))
    assert "sentence-transformers cannot open it as SentenceTransformer" in told(folder)


@pytest.mark.parametrize("route", ["text", "other"])
def test_weights_of_each_route_of_a_router_are_in_the_hash_of_its_model(tmp_path, route):
    folder = routes(tmp_path, "text", "other")
    before, file = resolve_model(str(folder)), folder / f"{route}_0_StaticEmbedding"
    tensors = load_file(file / "model.safetensors")
    save_file({name: 2 * tensor for name, tensor in tensors.items()}, file / "model.safetensors")
    assert resolve_model(str(folder)).weights_sha256 != before.weights_sha256
    with pytest.raises(InputError, match="expected files"):
        load_encoder(before)
    (file / "model.safetensors").rename(file / "pytorch_model.bin")
    assert "expected safetensors, found a pickle" in told(folder)


def test_a_router_without_a_route_of_passages_is_refused_before_any_work(tmp_path):
    folder = routes(tmp_path, "query", "other")
    found = told(folder)
    assert "cannot read a passage as SentenceTransformer: No route found" in found
    assert "'query'" in found and "'other'" in found


@pytest.mark.parametrize("made", [static, words, lambda f: routes(f, "query", "document")])
def test_a_limit_is_refused_where_the_library_reads_texts_whole(tmp_path, made):
    folder = made(tmp_path)
    assert "passage_limit: expected none, since sentence-transformers" in told(
        folder, passage_limit=3
    )
    longest = resolve_model(str(folder)).encoder.passage_limit
    assert resolve_model(str(folder), settings={"passage_limit": longest}).by_library


@pytest.mark.parametrize(
    ("made", "own", "other"),
    [
        (lambda f: encoder(f, "mpnet", normal), "mean", "cls"),
        (lambda f: encoder(f, "mpnet", pooling="cls"), "cls", "mean"),
        (lambda f: splade(f, "mpnet"), "splade", "splade-log1p"),
    ],
)
def test_settings_of_another_pooling_than_the_modules_are_refused(tmp_path, made, own, other):
    folder = made(tmp_path)
    assert f"pooling: expected {own}, since" in told(folder, pooling=other)
    stated = resolve_model(str(folder), settings={"pooling": own})
    assert stated == resolve_model(str(folder))
    assert "pooling: expected mean, cls" in told(folder, pooling=["mean"])


@pytest.mark.parametrize("made", [static, lambda f: cross(f, "electra"), late])
def test_settings_with_a_pooling_are_refused_where_no_module_pools_so(tmp_path, made):
    assert "pooling: " in told(made(tmp_path), pooling="mean")


def test_only_the_side_that_a_table_reads_has_no_limit(tmp_path):
    folder = routed(tmp_path)
    assert "query_limit: expected none" in told(folder, query_limit=3)
    own = resolve_model(str(folder), settings={"passage_limit": 3}).encoder
    assert own.passage_limit == 3


def test_a_model_that_reads_no_tokens_is_refused_before_any_work(tmp_path):
    bag = library.sentence_transformer.modules.BoW(vocab=["lease", "shard"])
    library.SentenceTransformer(modules=[bag], device="cpu").save_pretrained(str(tmp_path))
    assert "reads tokens and their attention_mask, found BoW without it" in told(tmp_path)
    folder = cross(tmp_path / "cross", "mpnet")
    changed(folder / "tokenizer_config.json", model_input_names=["input_ids"])
    assert "reads tokens and their attention_mask, found Transformer without it" in told(folder)


def test_a_token_without_an_embedding_is_refused_before_any_work(tmp_path):
    folder = encoder(tmp_path, "mpnet", normal)
    rows = json.loads((folder / "config.json").read_text())["vocab_size"]
    changed(folder / "tokenizer_config.json", extra_special_tokens=["driverless"])
    found = told(folder)
    assert f"word pieces 0 to {rows - 1}" in found and f"found {rows}, 'driverless'" in found


def test_a_pipe_in_the_place_of_weights_is_refused_and_not_waited_for(tmp_path):
    folder = encoder(tmp_path, "mpnet", normal)
    (folder / "model.safetensors").rename(tmp_path / "weights")
    os.mkfifo(folder / "model.safetensors")
    assert "model.safetensors: expected a file of a model, found a pipe" in told(folder)


def test_pickles_parts_elsewhere_and_quantised_weights_are_refused(tmp_path):
    folder = encoder(tmp_path, "mpnet", normal)
    (folder / "3_Dense").mkdir()
    (folder / "3_Dense" / "pytorch_model.bin").write_bytes(b"pickle")
    assert "expected safetensors, found a pickle" in told(folder)
    shutil.rmtree(folder / "3_Dense")
    changed(folder / "sentence_bert_config.json", tokenizer_name_or_path="../other")
    assert "tokenizer_name_or_path: expected none" in told(folder)
    changed(folder / "sentence_bert_config.json", tokenizer_name_or_path=None)
    write(folder / "sentence_roberta_config.json", {"tokenizer_name_or_path": "../other"})
    assert "tokenizer_name_or_path: expected none" in told(folder)
    (folder / "sentence_roberta_config.json").unlink()
    resolve_model(str(folder))
    tensors = load_file(folder / "model.safetensors")
    name = next(name for name in tensors if "layer.1" in name)
    save_file(tensors | {name: tensors[name].to(torch.int8)}, folder / "model.safetensors")
    assert f"those of a quantisation (model.safetensors: {name} of I8)" in told(folder)


@pytest.mark.parametrize("place", ["", "query_0_SparseStaticEmbedding"])
def test_an_adapter_beside_weights_whose_base_no_hash_covers_is_refused(tmp_path, place):
    folder = routed(tmp_path)
    write(folder / place / "adapter_config.json", {"base_model_name_or_path": "../start"})
    (folder / "model.safetensors").touch()
    assert "expected a whole model, found an adapter (adapter_config.json)" in told(folder)


def test_a_quantised_bert_is_refused_too(mono):
    changed(mono / "config.json", quantization_config={"quant_method": "bitsandbytes"})
    assert "config.json: quantization_config of bitsandbytes" in told(mono)


def test_an_hf_colbert_without_its_metadata_is_refused(tmp_path):
    folder = stanford(tmp_path)
    (folder / "artifact.metadata").unlink()
    assert "expected artifact.metadata" in told(folder)


def test_queries_that_are_filled_up_beyond_the_positions_are_refused_before_any_work(tmp_path):
    folder = stanford(tmp_path)
    changed(folder / "artifact.metadata", query_maxlen=70)
    assert "each query is filled up to 70 tokens, and the model has 64 positions" in told(folder)


def test_limits_of_a_side_are_refused_where_a_tokenizer_does_not_say_where_pieces_end(tmp_path):
    make(tmp_path, "electra", units=1)
    for file in tmp_path.glob("token*"):
        file.unlink()
    (tmp_path / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *"abc"]))
    own = {"tokenizer_class": "BertJapaneseTokenizer", "word_tokenizer_type": "basic"}
    own |= {"subword_tokenizer_type": "character", "model_max_length": 64}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(own))
    assert scored(tmp_path, ["a b"], ["c"]).shape == (1,)
    assert "query_limit: expected none, since BertJapanese" in told(tmp_path, query_limit=9)


def test_a_transformer_alone_says_nothing_of_its_use(tmp_path):
    make(tmp_path / "qwen", "qwen3")
    changed(tmp_path / "qwen" / "config.json", architectures=["Qwen3ForCausalLM"])
    found = told(tmp_path / "qwen")
    assert "nothing says what this model of type 'qwen3' is for" in found
    assert 'needs {"kind": "mono"}' in found


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"passage_limit": 63}, "the settings allow 65 tokens, the model reads at most 64"),
        ({"passage_segment": 1}, "query_segment, passage_segment: expected 0"),
        ({"normalise": False}, "normalise: expected true, as in modules.json, found false"),
        ({"truncate_dim": 33}, "truncate_dim: expected at most 32"),
        ({"query_table": "a"}, "query_table: only for a model that raypipe computes itself"),
        (
            {"precision": "int8"},
            "precision: int8: expected a reranker that raypipe computes itself",
        ),
        ({"kind": "duo"}, "kind duo: expected a BERT or a relative"),
        ({"poolign": "cls"}, "poolign: did you mean pooling"),
    ],
)
def test_settings_that_the_model_cannot_have_are_refused(tmp_path, settings, problem):
    folder = encoder(tmp_path, "electra", normal)
    assert problem in told(folder, **settings)


@pytest.mark.parametrize("body", [{"max_seq_length": "64"}, {"max_seq_length": -3}])
def test_a_limit_that_is_no_count_is_refused(tmp_path, body):
    folder = encoder(tmp_path, "electra", normal)
    changed(folder / "sentence_bert_config.json", **body)
    assert "max_seq_length" in told(folder) or "cannot open" in told(folder)


def test_modules_that_state_no_dimensions_or_begin_with_none_that_reads_are_refused(tmp_path):
    folder = encoder(tmp_path, "mpnet")
    config = folder / "1_Pooling" / "config.json"
    before = config.read_text()
    changed(config, embedding_dimension="")
    assert "expected modules that state the number of their dimensions, found ''" in told(folder)
    config.write_text(before)
    modules = json.loads((folder / "modules.json").read_text())
    (folder / "modules.json").write_text(json.dumps(modules[1:]))
    assert "sentence-transformers cannot" in told(folder)


@pytest.mark.parametrize(("stated", "settings"), [(16, {}), (48, {}), (48, {"truncate_dim": 40})])
def test_other_dimensions_than_the_modules_state_are_refused(tmp_path, stated, settings):
    folder = encoder(tmp_path, "mpnet")
    changed(folder / "1_Pooling" / "config.json", embedding_dimension=stated)
    expected = f"expected embeddings of {settings.get('truncate_dim', stated)} dimensions, as its"
    with pytest.raises(InputError, match=f"{expected} modules state, found 32"):
        encoded(folder, ["a zebra"], "query", **settings)
    assert encoded(folder, ["a zebra"], "query", truncate_dim=8).shape == (1, 8)


def test_other_similarities_are_refused_and_a_cosine_without_length_one_is_noted(tmp_path):
    folder = encoder(tmp_path, "electra")
    changed(folder / SETTINGS, similarity_fn_name="cosine")
    assert "similarity_fn_name cosine" in " ".join(describe(str(folder), None).notes)
    changed(folder / SETTINGS, prompts={"passage": "p: ", "web": "w: "}, default_prompt_name="web")
    notes = " ".join(describe(str(folder), None).notes)
    assert "the prompt 'passage', which" in notes and "default_prompt_name 'web', which" in notes
    changed(folder / SETTINGS, similarity_fn_name="euclidean")
    assert "similarity_fn_name: expected cosine or dot, found euclidean" in told(folder)


def test_a_long_passage_leaves_the_end_of_the_chat_template(tmp_path):
    folder = decoder_reranker(tmp_path)
    model = library.CrossEncoder(str(folder), device="cpu")
    queries, passages = ["a zebra"] * 3, ["rank " * n for n in (1, 30, 300)]
    expected = model.predict([*zip(queries, passages, strict=True)])
    assert len({*expected.tolist()}) > 1
    np.testing.assert_allclose(scored(folder, queries, passages), expected, atol=1e-5)
    cut = model.predict([*zip(queries, passages, strict=True)],
                        processing_kwargs={"text": {"max_length": 40}})  # fmt: skip
    np.testing.assert_allclose(scored(folder, queries, passages, total_limit=40), cut, atol=1e-5)


def test_limits_of_a_pair_cut_the_query_first_and_then_the_passage(tmp_path):
    folder = cross(tmp_path, "electra")
    model = library.CrossEncoder(str(folder), device="cpu")
    found = scored(
        folder, ["a b c d e"], ["rank " * 40], query_limit=2, passage_limit=5, total_limit=30
    )
    np.testing.assert_allclose(found, model.predict([("a b", "rank " * 5)]), atol=1e-6)


@pytest.mark.parametrize(
    ("made", "key", "value"),
    [
        (lambda f: splade(f, "mpnet"), "normalise", True),
        (lambda f: splade(f, "mpnet"), "truncate_dim", 4),
        (lambda f: encoder(f, "mpnet", normal), "max_terms", 2),
        (lambda f: encoder(f, "mpnet", normal), "impact_scale", 7.0),
    ],
)
def test_settings_of_the_other_kind_of_vectors_are_refused(tmp_path, made, key, value):
    assert f"{key}: " in told(made(tmp_path), **{key: value})


def test_late_interaction_takes_no_other_score(tmp_path):
    folder = late(tmp_path)
    assert "score: expected raw, as late" in told(folder, score="probability")
    assert "relevant_label: expected null" in told(folder, relevant_label=1)


def test_limits_of_late_interaction_cut_queries_and_passages(tmp_path):
    folder = late(tmp_path)
    queries, passages = ["a b c d e", "a"], ["rank the lease " * 9, "a zebra"]
    found = scored(folder, queries, passages, query_limit=2, passage_limit=4)
    cut = scored(folder, ["a b", "a"], ["rank the lease rank", "a zebra"])
    np.testing.assert_array_equal(found, cut)
    other = scored(folder, queries, passages, query_limit=9, passage_limit=4)
    assert not np.array_equal(found, other)
    assert not np.array_equal(found, scored(folder, queries, passages, query_limit=2))
    long = scored(folder, queries, ["rank the lease " * 30, "a zebra"])
    limit = resolve_model(str(folder)).reranker.total_limit - 1  # above the own one of passages
    same = scored(folder, queries, ["rank the lease " * 30, "a zebra"], total_limit=limit)
    np.testing.assert_array_equal(long, same)


@pytest.mark.slow
def test_rows_have_their_bits_in_any_company_where_the_class_says_so(tmp_path):
    folder = encoder(tmp_path, "electra", normal)
    opened = load_encoder(resolve_model(str(folder)))
    texts = ["a b c", "rank " * 9, "a zebra", "the lease of a shard", "rank " * 9, "d e f"]
    alone = np.concatenate([encoded(folder, [text], "passage") for text in texts])
    together = encoded(folder, texts, "passage")
    np.testing.assert_allclose(together, alone, atol=1e-6)
    assert "unproven" in opened.numerics or np.array_equal(together, alone)
    assert "sentence-transformers" in opened.numerics


def test_low_precision_is_near_and_its_class_says_so(tmp_path):
    folder = encoder(tmp_path, "electra", normal)
    low = encoded(folder, ["a zebra", "rank"], "query", precision="bf16")
    exact = encoded(folder, ["a zebra", "rank"], "query")
    assert not np.array_equal(low, exact)
    np.testing.assert_allclose(low, exact, atol=0.1)
    opened = load_encoder(resolve_model(str(folder), settings={"precision": "bf16"}))
    assert ", bf16" in opened.numerics


def test_late_interaction_in_parts_is_late_interaction(tmp_path, monkeypatch):
    folder = late(tmp_path)
    queries, passages = ["a zebra", "rank"] * 4, ["the lease, a b", "c", "d. e", "rank"] * 2
    whole = scored(folder, queries, passages)
    monkeypatch.setattr(library_forward, "PAIRS", 3)
    monkeypatch.setattr(library_forward, "WINDOW", 2)
    monkeypatch.setitem(device.BUDGET_TOKENS, "cpu", 1)
    np.testing.assert_allclose(scored(folder, queries, passages), whole, atol=1e-6)


@pytest.mark.parametrize(
    "name",
    [
        *(
            "spiece.model",
            "source.spm",
            "vocab.vocab",
            "merges.txt",
            "chat_template.jinja",
            "a.bpe",
        ),
        "additional_chat_templates/rank.jinja",
    ],
)
def test_each_file_that_a_tokenizer_may_read_is_in_the_hash_of_its_model(tmp_path, name):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_bytes(b"one")
    before = hash_of(tmp_path)
    (tmp_path / name).write_bytes(b"two")
    assert hash_of(tmp_path) != before


@pytest.mark.parametrize("settings", [{"query_limit": float("nan")}, {"blend": float("inf")}])
def test_what_is_no_number_in_the_settings_is_told_as_of_a_packed_model(tmp_path, settings):
    folder = encoder(tmp_path, "mpnet", normal)
    (folder / "raypipe.json").write_text(json.dumps(settings))
    assert f"{folder}: {next(iter(settings))}: " in told(folder)


@pytest.mark.parametrize("value", [["a"], "x", -1, 0, True, 1.5, float("nan")])
def test_a_limit_or_dimension_of_a_route_that_is_no_count_is_named(tmp_path, value):
    folder = routed(tmp_path)
    table, text = "SparseStaticEmbedding", "expected a count of tokens as its longest input, found"
    for place, name, problem in (
        (f"query_0_{table}/tokenizer_config.json", "model_max_length", f"{table}: {text}"),
        ("document_0_Transformer/sentence_bert_config.json", "max_seq_length", text),
        ("document_1_SpladePooling/config.json", "embedding_dimension", "of their dimensions"),
    ):
        before = (folder / place).read_text()
        changed(folder / place, **{name: value})
        found = told(folder)
        assert problem in found and name in found
        (folder / place).write_text(before)
    resolve_model(str(folder))


def test_a_model_that_the_library_opens_and_cannot_compute_is_refused(tmp_path):
    folder = encoder(tmp_path, "mpnet", normal)
    changed(folder / "config.json", hidden_dropout_prob=float("nan"))
    with pytest.raises(InputError, match="cannot compute it as SentenceTransformer: dropout"):
        load_encoder(resolve_model(str(folder)))


def test_what_the_library_raises_over_some_texts_alone_names_the_model(tmp_path, monkeypatch):
    monkeypatch.setattr(library_forward, "TESTED_WORDS", (3,))
    folder = cross(tmp_path, "mpnet")
    only = {"text": {"truncation": "only_second"}}
    changed(folder / "sentence_bert_config.json", processing_kwargs=only)
    assert len(scored(folder, ["a zebra"], ["rank " * 90])) == 1
    with pytest.raises(InputError, match="compute it as CrossEncoder: Truncation error"):
        scored(folder, ["rank " * 90], ["a zebra"])


def test_the_own_test_of_a_model_without_a_stated_limit_is_within_its_positions(tmp_path):
    folder = encoder(tmp_path, "mpnet")
    changed(folder / "tokenizer_config.json", model_max_length=10**30)
    load_encoder(resolve_model(str(folder)))
