"""A tiny seeded BERT as a model folder, the same bytes for the same seed."""

import json

import torch
from tokenizers import Tokenizer, normalizers, pre_tokenizers
from tokenizers.models import WordPiece
from transformers import BertConfig, BertForSequenceClassification, BertModel

WORDS = ["the", "a", "of", "lease", "shard", "rank", "query", "passage", "zebra", "run", "##s"]


def make_tiny_bert(folder, *, seed=0, segments=2, sizes=None, **conventions):
    """2 layers, hidden 32, 4 heads, 64 positions, or other `sizes`; raypipe.json beside it."""
    config = tiny_config(folder, seed, segments, sizes)
    BertModel(config).save_pretrained(folder)
    body = {
        "kind": "encoder",
        "pooling": "mean",
        "normalise": False,
        "query_segment": 0,
        "passage_segment": 1,
        "query_limit": 20,
        "passage_limit": 62,
        **conventions,
    }
    (folder / "raypipe.json").write_text(json.dumps(body))
    return folder


def make_tiny_reranker(
    folder, *, kind="mono", seed=0, segments=None, units=2, sizes=None, **conventions
):
    """The same BERT with a pooler and a head of one or two units whose scores differ widely."""
    duo = kind == "duo"
    config = tiny_config(folder, seed, segments or (3 if duo else 2), sizes)
    config.num_labels = units
    model = BertForSequenceClassification(config)
    with torch.no_grad():
        model.classifier.weight.normal_(std=2.0)
        model.bert.pooler.dense.weight.normal_(std=0.5)
    model.save_pretrained(folder)
    body = {
        "kind": kind,
        "query_limit": 12,
        "passage_limit": 24 if duo else None,
        "total_limit": 64,
        "relevant_label": 1 if units == 2 else None,
        "score": "probability" if duo else "log-probability",
        **conventions,
    }
    (folder / "raypipe.json").write_text(json.dumps(body))
    return folder


def tiny_config(folder, seed, segments, sizes=None):
    """The folder with its tokenizer, and the configuration of the model; seeds torch."""
    folder.mkdir(parents=True)
    letters = [chr(c) for c in range(97, 123)]
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, *letters]
    tokens += [f"##{letter}" for letter in letters if f"##{letter}" not in WORDS]
    vocabulary = {token: number for number, token in enumerate(dict.fromkeys(tokens))}
    tokenizer = Tokenizer(WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.save(str(folder / "tokenizer.json"))
    torch.manual_seed(seed)
    small = {"hidden_size": 32, "num_hidden_layers": 2, "intermediate_size": 64}
    return BertConfig(
        vocab_size=len(vocabulary),
        num_attention_heads=4,
        max_position_embeddings=64,
        type_vocab_size=segments,
        **{**small, **(sizes or {})},
    )
