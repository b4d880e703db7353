"""A model folder of a few kilobytes, without torch: files as Python objects, and written."""

import json

import numpy as np
from safetensors.numpy import save
from tokenizers import Tokenizer, normalizers, pre_tokenizers
from tokenizers.models import WordPiece

from raypipe.models.family import family_of

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
