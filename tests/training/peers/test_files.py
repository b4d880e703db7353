"""What is written for sentence-transformers, and what cannot be."""

from dataclasses import replace

import pytest

from raypipe.models.folder.settings import PRESETS
from raypipe.training.peer_files import PeerFiles, peer_files, peer_notes

MINILM, MONO, DUO = PRESETS["minilm"], PRESETS["monobert"], PRESETS["duobert"]


def test_pooling_length_and_prompts_of_an_encoder():
    found = peer_files(
        replace(MINILM, pooling="cls", query_prefix="q: ", passage_prefix="p: "),
        width=32,
        num_specials=2,
    )
    kinds = [
        (each["type"].rpartition(".")[2], each["path"]) for each in found.files["modules.json"]
    ]
    assert kinds == [("Transformer", ""), ("Pooling", "1_Pooling"), ("Normalize", "2_Normalize")]
    pooling = found.files["1_Pooling/config.json"]
    assert [key for key, value in pooling.items() if value is True] == ["pooling_mode_cls_token"]
    assert pooling["word_embedding_dimension"] == 32
    assert found.files["sentence_bert_config.json"]["max_seq_length"] == 256 == found.longest
    prompts = found.files["config_sentence_transformers.json"]["prompts"]
    assert prompts == {"query": "q: ", "document": "p: "}
    assert peer_notes(MINILM) == [] and found.config == {}


@pytest.mark.parametrize(
    ("pooling", "key"), [("mean", "mean_tokens"), ("max", "max_tokens"), ("last", "lasttoken")]
)
def test_a_pooling_is_written_under_its_older_key(pooling, key):
    found = peer_files(replace(MINILM, pooling=pooling), width=8, num_specials=2)
    written = found.files["1_Pooling/config.json"]
    assert [name for name, value in written.items() if value is True] == [f"pooling_mode_{key}"]


def test_without_length_one_there_is_no_normalize():
    found = peer_files(replace(MINILM, normalise=False), width=8, num_specials=2)
    assert len(found.files["modules.json"]) == 2


def test_the_larger_of_two_limits_is_the_one_and_the_note_has_both():
    model = replace(MINILM, query_limit=30)
    assert peer_files(model, width=8, num_specials=2).longest == 256
    (note,) = peer_notes(model)
    assert "queries at 30 word pieces and passages at 254" in note


def test_a_splade_model_is_a_sparse_encoder():
    model = replace(PRESETS["splade"], max_terms=9, passage_prefix="p: ")
    found = peer_files(model, width=8, num_specials=2).files
    kinds = [(each["type"].rpartition(".")[2], each["path"]) for each in found["modules.json"]]
    assert kinds == [("MLMTransformer", ""), ("SpladePooling", "1_SpladePooling")]
    pooling = {"pooling_strategy": "max", "activation_function": "relu"}
    pooling["word_embedding_dimension"] = 8
    assert found["1_SpladePooling/config.json"] == pooling
    settings = found["config_sentence_transformers.json"]
    assert (settings["max_active_dims"], settings["similarity_fn_name"]) == (9, "dot")
    assert (settings["model_type"], settings["prompts"]["document"]) == ("SparseEncoder", "p: ")


@pytest.mark.parametrize("segments", [(0, 1), (1, 0)])
def test_a_segment_that_they_do_not_give_is_told_and_nothing_is_written(segments):
    query, passage = segments
    model = replace(MINILM, query_segment=query, passage_segment=passage)
    assert peer_files(model, width=8, num_specials=2) == PeerFiles()
    (note,) = peer_notes(model)
    assert f"segment {query}, its passages in segment {passage}" in note


@pytest.mark.parametrize(
    ("score", "activation"),
    [("raw", "Identity"), ("probability", "Sigmoid"), ("log-probability", "LogSigmoid")],
)
def test_the_activation_of_one_unit(score, activation):
    model = replace(MONO, relevant_label=None, score=score, query_limit=None)
    found = peer_files(model, width=8, num_specials=2)
    (config,) = found.config.values()
    assert config["activation_fn"].endswith(f".{activation}")
    assert (found.files, found.longest, peer_notes(model)) == ({}, 512, [])


def test_two_units_are_both_returned_and_the_note_says_which_counts():
    model = replace(MONO, relevant_label=0)
    assert peer_files(model, width=8, num_specials=2) == PeerFiles({}, {}, 512)
    cut, units = peer_notes(model)
    assert "queries at 64 word pieces" in cut and "the log-probability of unit 0 after" in units
    assert peer_notes(replace(MONO, score="raw"))[1].endswith("the logit of unit 1.")
    assert peer_notes(replace(MONO, blend=6.0))[2].startswith(
        "raypipe ranks by the model's log odds and 6 times the first stage's score"
    )


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"query_prefix": "q: "}, "raypipe puts 'q: ' before queries and '' before passages"),
        ({"passage_prefix": "p: "}, "raypipe puts '' before queries and 'p: ' before passages"),
        ({"first_tokenizer": True}, "a run of Chinese characters as one word"),
    ],
)
def test_inputs_that_a_cross_encoder_does_not_make_are_told(changed, told):
    plain, more = peer_notes(MONO), peer_notes(replace(MONO, **changed))
    (note,) = set(more) - set(plain)
    assert told in note and len(more) == len(plain) + 1


def test_a_duobert_is_nobody_elses():
    assert peer_files(DUO, width=8, num_specials=2) == PeerFiles() and peer_notes(DUO) == []
