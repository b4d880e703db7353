"""Mutants of a model folder's files are refused in words, or make a model that can be opened."""

import json

import numpy as np
import pytest
from fuzzing import fuzz, many, read_or_refused
from hypothesis import strategies as st
from mutants_of import BEYOND_JSON, as_json, mutants_of, structures_of
from safetensors.numpy import save
from sparse_models import make_routed
from tokenizers import Tokenizer, normalizers, pre_tokenizers
from tokenizers.models import WordPiece

from raypipe.models.convert.describe import describe
from raypipe.models.family import family_of
from raypipe.models.folder.model_folder import layouts_of, resolve_model
from raypipe.models.tokenizer import read_tokenizer

TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "lease", "##s", "é", "a", "b"]
CONFIG = {
    "architectures": ["BertModel"],
    "model_type": "bert",
    "hidden_act": "gelu",
    "hidden_size": 4,
    "intermediate_size": 8,
    "layer_norm_eps": 1e-12,
    "max_position_embeddings": 16,
    "num_attention_heads": 2,
    "num_hidden_layers": 1,
    "position_embedding_type": "absolute",
    "type_vocab_size": 2,
    "vocab_size": len(TOKENS),
}
ENCODER = {
    "kind": "encoder",
    "pooling": "mean",
    "normalise": False,
    "query_segment": 0,
    "passage_segment": 1,
    "query_limit": 6,
    "passage_limit": 14,
}
MODULES = [
    {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
    {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
    {
        "idx": 2,
        "name": "2",
        "path": "2_Normalize",
        "type": "sentence_transformers.models.Normalize",
    },
]
POOLING = {"word_embedding_dimension": 4, "pooling_mode_mean_tokens": True, "include_prompt": True}
PROMPTS = {
    "prompts": {"query": "q: ", "document": ""},
    "default_prompt_name": None,
    "similarity_fn_name": "cosine",
}
LENGTH = {"max_seq_length": 12, "do_lower_case": False}
TOKENIZER_CONFIG = {"do_lower_case": True, "model_max_length": 512, "cls_token": "[CLS]"}


def tokenizer_json():
    """The content of tokenizer.json."""
    numbers = {token: number for number, token in enumerate(TOKENS)}
    tokenizer = Tokenizer(WordPiece(numbers, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return json.loads(tokenizer.to_str())


def weights(**more):
    """The bytes of model.safetensors for CONFIG."""
    shapes = family_of(CONFIG).files.expected_shapes(CONFIG, num_labels=None)
    tensors = {name: np.full(shape, 0.5, np.float32) for name, shape in shapes.items()}
    return save({**tensors, **more})


def write_model(folder, *, sentence_transformer=False, vocabulary=False):
    """The folder with settings in raypipe.json, or with sentence-transformers' files."""
    folder.mkdir(parents=True)
    bodies = {"config.json": CONFIG}
    if sentence_transformer:
        (folder / "1_Pooling").mkdir()
        bodies |= {
            "modules.json": MODULES,
            "1_Pooling/config.json": POOLING,
            "config_sentence_transformers.json": PROMPTS,
            "sentence_bert_config.json": LENGTH,
        }
    else:
        bodies["raypipe.json"] = ENCODER
    if vocabulary:
        (folder / "vocab.txt").write_text("\n".join(TOKENS) + "\n")
        bodies["tokenizer_config.json"] = TOKENIZER_CONFIG
    else:
        bodies["tokenizer.json"] = tokenizer_json()
    for name, body in bodies.items():
        (folder / name).write_text(json.dumps(body))
    (folder / "model.safetensors").write_bytes(weights())
    return folder


MONO = {
    "kind": "mono",
    "query_limit": None,
    "passage_limit": None,
    "total_limit": 16,
    "relevant_label": None,
    "score": "raw",
}
DUO = {**MONO, "kind": "duo", "query_limit": 3, "passage_limit": 2, "score": "probability"}
CROSS = {**CONFIG, "architectures": ["BertForSequenceClassification"], "num_labels": 1}
OF_BOTH = {"config.json": [CONFIG], "tokenizer.json": [tokenizer_json()]}
OF_RAYPIPE = {"raypipe.json": [ENCODER, MONO, DUO, {"kind": "encoder"}], **OF_BOTH}
OF_SENTENCES = {
    "modules.json": [MODULES],
    "1_Pooling/config.json": [POOLING, {"pooling_mode": "cls"}],
    "config_sentence_transformers.json": [PROMPTS],
    "sentence_bert_config.json": [LENGTH],
    "raypipe.json": [{}, {"normalise": True}],
    "config.json": [CONFIG, CROSS],
}
FILES = [(False, name) for name in OF_RAYPIPE] + [(True, name) for name in OF_SENTENCES]


def opened(folder):
    """What every command does with a folder before it computes anything."""
    model = resolve_model(str(folder))
    layouts_of(model)
    json.dumps([model.conventions.to_json(), model.forward_config()])
    numbers = read_tokenizer(folder).get_vocab().values()
    assert max(numbers) < model.config()["vocab_size"], "a token beyond the table of embeddings"
    return model


def opens(folder):
    """Whether it opens; `model show` tells of it either way."""
    _, refused = read_or_refused(lambda: opened(folder))
    read_or_refused(lambda: describe(str(folder), None))
    return refused is None


def changes_of(bodies):
    """A file of JSON with changed bytes, or of another structure."""
    objects = structures_of(*bodies, beyond=BEYOND_JSON).map(lambda each: as_json(each) or b"{}")
    return st.one_of(mutants_of(*(json.dumps(body).encode() for body in bodies)), objects)


@many
@pytest.mark.parametrize(("sentences", "name"), FILES)
def test_a_folder_with_a_changed_file_is_refused_or_opens(sentences, name, num_mutants, tmp_path):
    folder = write_model(tmp_path / "model", sentence_transformer=sentences)
    bodies = (OF_SENTENCES if sentences else OF_RAYPIPE)[name]

    def check(data):
        (folder / name).write_bytes(data)
        return opens(folder)

    fuzz(changes_of(bodies), check, num_mutants)


QUERY = "query_0_SparseStaticEmbedding"


@many
@pytest.mark.parametrize("name", ["router_config.json", f"{QUERY}/tokenizer_config.json"])
def test_a_folder_with_changed_routes_is_refused_or_opens(name, num_mutants, tmp_path):
    folder = make_routed(tmp_path / "model")
    body = json.loads((folder / name).read_text())

    def check(data):
        (folder / name).write_bytes(data)
        return opens(folder)

    fuzz(changes_of([body]), check, num_mutants)


@many
def test_changed_weights_are_refused_or_open(num_mutants, tmp_path):
    folder, whole = write_model(tmp_path / "model"), weights()
    num_header = int.from_bytes(whole[:8], "little")
    header = json.loads(whole[8 : 8 + num_header])

    def check(data):
        (folder / "model.safetensors").write_bytes(data)
        return opens(folder)

    def with_length(body):
        text = as_json(body) or b"{}"
        return len(text).to_bytes(8, "little") + text + whole[8 + num_header :]

    sizes = st.sampled_from([0, 1, num_header - 1, num_header + 1, 2**31, 2**63, 2**64 - 1])
    lengths = sizes.map(lambda size: size.to_bytes(8, "little") + whole[8:])
    headers = structures_of(header).map(with_length)
    fuzz(st.one_of(mutants_of(whole), headers, headers, lengths), check, num_mutants)


@pytest.mark.slow
@many
@pytest.mark.parametrize("name", ["vocab.txt", "tokenizer_config.json"])
def test_a_changed_vocabulary_is_refused_or_opens(name, num_mutants, tmp_path):
    folder = write_model(tmp_path / "model", vocabulary=True)
    text = ("\n".join(TOKENS) + "\n").encode()

    def check(data):
        (folder / name).write_bytes(data)
        return opens(folder)

    changed = mutants_of(text) if name == "vocab.txt" else changes_of([TOKENIZER_CONFIG])
    fuzz(changed, check, num_mutants)


def test_word_pieces_beyond_the_models_embeddings_are_refused(tmp_path):
    folder = write_model(tmp_path / "model")
    body = tokenizer_json()
    body["model"]["vocab"]["##s"] = len(TOKENS)
    (folder / "tokenizer.json").write_text(json.dumps(body))
    _, refused = read_or_refused(lambda: opened(folder))
    assert "expected word pieces 0 to 10" in refused and "found 11" in refused
