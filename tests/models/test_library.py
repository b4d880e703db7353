"""Models in the layouts that people bring give their own library's numbers."""

import numpy as np
import pytest
import sentence_transformers as library
import torch
from drawn_models import make
from json_files import changed
from library_layouts import (
    IDENTITY,
    PROMPTS,
    cross,
    decoder_reranker,
    dense,
    encoded,
    encoder,
    ettin,
    late,
    mono_t5,
    normal,
    pylate,
    routed,
    scored,
    sentence_t5,
    splade,
    stanford,
    static,
    words,
)
from loaded_packages import loaded_after
from safetensors.torch import load_file, save_file
from sentence_transformers.base.modules import Normalize
from tiny_t5 import their_logits, theirs

from raypipe.errors import InputError
from raypipe.models.folder.model_folder import resolve_model
from raypipe.models.load import load_encoder

TEXTS = [
    "The lease of a shard is held by one driver.",
    "rank",
    "",
    "Zürich, 東京 and naïve cafés: 42 queries/s!",
    "it's <s> not [SEP] </s> the end, rank a.",
    "a b  c\td\n e",
    "passage " * 60,
    "zebra " * 9,
]
ENCODERS = {
    "BERT, mean, length 1": lambda f: encoder(f, "bert", normal),
    "BERT, cls, prompts": lambda f: encoder(f, "bert", pooling="cls", prompts=PROMPTS),
    "BERT, Dense": lambda f: encoder(f, "bert", dense(8), normal),
    "BERT, Matryoshka": lambda f: encoder(f, "bert", normal, truncate_dim=8),
    "XLM-R, max": lambda f: encoder(f, "xlm-roberta", pooling="max"),
    "RoBERTa, weighted mean": lambda f: encoder(f, "roberta", pooling="weightedmean"),
    "DistilBERT": lambda f: encoder(f, "distilbert", normal),
    "BERT with ReLU": lambda f: encoder(f, "bert", normal, config={"hidden_act": "relu"}),
    "BERT, a decoder": lambda f: encoder(f, "bert", config={"is_decoder": True}),
    "RoBERTa of two segments": lambda f: encoder(f, "roberta", config={"type_vocab_size": 2}),
    "MPNet, prompts": lambda f: encoder(f, "mpnet", normal, prompts=PROMPTS),
    "ELECTRA, two poolings": lambda f: encoder(f, "electra", pooling=["cls"]),
    "DeBERTa": lambda f: encoder(f, "deberta-v2", pooling="cls"),
    "ModernBERT": lambda f: encoder(f, "modernbert", normal, prompts=PROMPTS),
    "Qwen3, last": lambda f: encoder(f, "qwen3", normal, pooling="lasttoken", prompts=PROMPTS),
    "Gemma3 in parts, Dense twice": lambda f: encoder(
        f,
        "gemma3_text",
        dense(64, IDENTITY),
        lambda w: dense(16, IDENTITY)(64),
        normal,
        part="20KB",
    ),
    "MPNet, length 1 beside the embedding": lambda f: encoder(f, "mpnet", beside),
    "StaticEmbedding": static,
    "WordEmbeddings": words,
    "Sentence-T5": sentence_t5,
}
SPARSE = {
    "SPLADE of BERT": lambda f: splade(f, "bert"),
    "SPLADE of RoBERTa": lambda f: splade(f, "roberta", "log1p_relu"),
    "SPLADE of ModernBERT": lambda f: splade(f, "modernbert"),
    "Router": routed,
}
RERANKERS = {
    "BERT with GELU of tanh": lambda f: cross(f, "bert", {"hidden_act": "gelu_new"}),
    "BERT": lambda f: cross(f, "bert", activation_fn=IDENTITY()),
    "ELECTRA with a prompt": lambda f: cross(
        f, "electra", prompts={"web": "rank: "}, default_prompt_name="web"
    ),
    "Ettin": ettin,
    "Qwen3-Reranker": decoder_reranker,
}
LATE = {
    "sentence-transformers": late,
    "MPNet, shorter than its own limit": lambda f: late(f, "mpnet", max_seq_length=10),
    "MPNet, fewer positions than its limit": lambda f: late(
        f, "mpnet", max_seq_length=512, query_length=20
    ),
    "passages without a token that counts": lambda f: late(f, kept=[5]),
    "PyLate": pylate,
    "Stanford": stanford,
}


def beside(width):
    return Normalize(module_output_name="other")


def pairs_of(texts):
    return [a for a in texts for _ in texts], [b for _ in texts for b in texts]


LONG = "Gemma3 in parts, Dense twice"


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] * (n == LONG)) for n in ENCODERS]
)
def test_vectors_are_those_of_encode_query_and_encode_document(tmp_path, name):
    folder = ENCODERS[name](tmp_path)
    model = library.SentenceTransformer(str(folder), device="cpu")
    for side, encode in (("query", model.encode_query), ("passage", model.encode_document)):
        np.testing.assert_allclose(
            encoded(folder, TEXTS, side), encode(TEXTS), atol=1e-5, rtol=1e-5
        )


@pytest.mark.parametrize("name", SPARSE)
def test_weights_are_those_of_a_sparse_encoder(tmp_path, name):
    folder = SPARSE[name](tmp_path)
    model = library.SparseEncoder(str(folder), device="cpu")
    for side, encode in (("query", model.encode_query), ("passage", model.encode_document)):
        expected = encode(TEXTS, convert_to_sparse_tensor=False).numpy()
        np.testing.assert_allclose(encoded(folder, TEXTS, side), expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", RERANKERS)
def test_scores_are_those_of_predict(tmp_path, name):
    folder = RERANKERS[name](tmp_path)
    queries, passages = pairs_of(TEXTS)
    model = library.CrossEncoder(str(folder), device="cpu")
    expected = model.predict([*zip(queries, passages, strict=True)])
    np.testing.assert_allclose(scored(folder, queries, passages), expected, atol=2e-5, rtol=1e-5)


def test_a_decoder_without_a_padding_token_scores_each_pair_as_alone(tmp_path):
    """transformers itself takes no two pairs together: its users call it with one at a time."""
    make(tmp_path, "llama", units=1)
    changed(tmp_path / "config.json", pad_token_id=None)
    theirs = library.CrossEncoder(str(tmp_path), device="cpu")
    pairs = [(query, passage) for query in TEXTS[:2] for passage in TEXTS if passage]
    expected = np.concatenate([theirs.predict([pair]) for pair in pairs])
    found = scored(tmp_path, *([pair[place] for pair in pairs] for place in (0, 1)))
    assert np.abs(found - expected).max() <= 1e-5


@pytest.mark.parametrize("name", LATE)
def test_scores_of_late_interaction_are_those_of_similarity_pairwise(tmp_path, name):
    folder = LATE[name](tmp_path)
    queries, passages = pairs_of(TEXTS)
    model = library.MultiVectorEncoder(str(folder), device="cpu")
    expected = model.similarity_pairwise(
        model.encode_query(queries),
        model.encode_document(passages),
    )
    np.testing.assert_allclose(
        scored(folder, queries, passages), expected.numpy(), atol=1e-5, rtol=1e-5
    )


@pytest.mark.parametrize(
    ("layout", "file", "lengths", "limits"),
    [
        ("PyLate", "config_sentence_transformers.json", {"document_length": 40}, 60),
        ("Stanford", "artifact.metadata", {"doc_maxlen": 300}, None),
    ],
)
def test_a_passages_own_length_stands_beside_limits_and_positions(
    tmp_path, layout, file, lengths, limits
):
    folder = LATE[layout](tmp_path)
    changed(folder / file, **lengths)
    model = library.MultiVectorEncoder(str(folder), device="cpu")
    model[0].document_length = min(model[0].document_length, 64)  # which the model has positions of
    passages = ["passage " * 70, "rank"]
    theirs = model.similarity_pairwise(
        model.encode_query(["a zebra"] * 2), model.encode_document(passages)
    )
    found = scored(folder, ["a zebra"] * 2, passages, **{"total_limit": limits} if limits else {})
    np.testing.assert_allclose(found, theirs.numpy(), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    ("own", "most"),
    [
        ({"query_length": 9, "document_length": 20}, 9),
        ({"processing_kwargs": {"text": {"max_length": 15}}}, 15),
    ],
)
def test_an_encoders_own_lengths_are_its_limits(tmp_path, own, most):
    folder = encoder(tmp_path, "electra", normal)
    changed(folder / "sentence_bert_config.json", **own)
    model = library.SentenceTransformer(str(folder), device="cpu")
    for side, encode in (("query", model.encode_query), ("passage", model.encode_document)):
        np.testing.assert_allclose(encoded(folder, TEXTS, side), encode(TEXTS), atol=1e-5)
    with pytest.raises(InputError, match=f"the model reads at most {most}"):
        encoded(folder, TEXTS, "query", query_limit=40, passage_limit=40)


def test_a_query_prefix_of_the_settings_takes_the_place_of_a_default_prompt(tmp_path):
    folder = RERANKERS["ELECTRA with a prompt"](tmp_path)
    model = library.CrossEncoder(str(folder), device="cpu")
    queries, passages = pairs_of(TEXTS[:3])
    pairs = [*zip(queries, passages, strict=True)]
    for prefix in ("find: ", ""):
        found = scored(folder, queries, passages, query_prefix=prefix)
        np.testing.assert_allclose(found, model.predict(pairs, prompt=prefix), atol=2e-5)


def test_a_model_of_the_library_computes_on_so_many_threads(tmp_path):
    model, before = resolve_model(str(encoder(tmp_path, "electra"))), torch.get_num_threads()
    try:
        for threads in (3, 1):
            load_encoder(model, threads=threads)
            assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)


def test_a_table_saved_in_fp16_is_computed_in_fp32(tmp_path):
    folder = static(tmp_path)
    (file,) = folder.rglob("model.safetensors")
    halves = {name: tensor.half() for name, tensor in load_file(file).items()}
    save_file(halves, file)
    model = library.SentenceTransformer(str(folder), device="cpu").float()
    np.testing.assert_allclose(encoded(folder, TEXTS, "query"), model.encode(TEXTS), atol=1e-6)


def test_scores_of_a_t5_are_the_softmax_of_its_answers(tmp_path):
    folder = mono_t5(tmp_path)
    opened = theirs(folder)
    short = [text for text in TEXTS if "passage" not in text and text]
    queries, passages = pairs_of(short[:4])
    found = scored(folder, queries, passages, query_limit=150, total_limit=400)
    for score, query, passage in zip(found, queries, passages, strict=True):
        logits = their_logits(opened, f"Query: {query} Document: {passage} Relevant:")
        assert score == pytest.approx(float(torch.log_softmax(logits, 0)[1]), abs=2e-5)


@pytest.mark.slow
def test_a_packed_model_loads_neither_the_library_nor_transformers():
    code = """
import raypipe
assert raypipe.encode(["the lease"]).shape == (1, 384)"""
    assert loaded_after(code, "sentence_transformers", "transformers") == []
