"""Random BERTs of any shape as model folders; a text of n words is n word pieces.

Needs torch, transformers, tokenizers and safetensors alone: the GPU's tests and benchmark use it.
"""

import json
from dataclasses import dataclass

import numpy as np
import torch
from tokenizers import Tokenizer, pre_tokenizers, processors
from tokenizers.models import WordPiece
from transformers import BertConfig, BertForSequenceClassification, BertModel

SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


@dataclass(frozen=True)
class Shape:
    layers: int
    hidden: int
    heads: int
    words: int = 30522
    positions: int = 512

    @property
    def inner(self):
        return 4 * self.hidden


def make_random_bert(folder, shape, *, kind="encoder", units=2, seed=0, **conventions):
    """The folder with drawn weights, a tokenizer and raypipe.json.

    Wider than BERT's own start (N(0, 0.02), biases 0, norms 1): so attention and scores differ
    between texts, and a bias that is left out shows.
    """
    folder.mkdir(parents=True)
    torch.manual_seed(seed)
    config = BertConfig(
        vocab_size=shape.words,
        hidden_size=shape.hidden,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        intermediate_size=shape.inner,
        max_position_embeddings=shape.positions,
        type_vocab_size=3 if kind == "duo" else 2,
        initializer_range=1.4 / shape.hidden**0.5,
        num_labels=units,
    )
    maker = BertModel if kind == "encoder" else BertForSequenceClassification
    model = maker(config)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter += torch.randn_like(parameter) * 0.1
        if kind != "encoder":
            model.classifier.weight *= 3
    model.save_pretrained(folder)
    _write_tokenizer(folder, shape)
    body = encoder_body() if kind == "encoder" else reranker_body(kind, units)
    (folder / "raypipe.json").write_text(json.dumps({**body, **conventions}))
    return folder


def encoder_body():
    return {
        "kind": "encoder",
        "pooling": "mean",
        "normalise": True,
        "query_segment": 0,
        "passage_segment": 0,
        "query_limit": 32,
        "passage_limit": 256,
    }


def reranker_body(kind, units):
    duo = kind == "duo"
    return {
        "kind": kind,
        "query_limit": 62 if duo else 64,
        "passage_limit": 223 if duo else None,
        "total_limit": 512,
        "relevant_label": 1 if units == 2 else None,
        "score": "probability" if duo else "log-probability",
    }


def _write_tokenizer(folder, shape):
    tokens = [*SPECIALS, *(word(number) for number in range(len(SPECIALS), shape.words))]
    tokenizer = Tokenizer(WordPiece({t: n for n, t in enumerate(tokens)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    tokenizer.add_special_tokens(list(SPECIALS))
    tokenizer.save(str(folder / "tokenizer.json"))
    names = zip(("pad", "unk", "cls", "sep", "mask"), SPECIALS, strict=True)
    settings = {f"{name}_token": token for name, token in names}
    settings |= {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 512}
    settings |= {"model_input_names": ["input_ids", "token_type_ids", "attention_mask"]}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))


def word(number):
    return f"w{number}"


def pieces_of(counts, shape, *, seed):
    """Random word pieces of texts of these sizes: flat uint16, offsets int64 [N + 1]."""
    counts = np.asarray(counts)
    rng = np.random.default_rng(seed)
    flat = rng.integers(len(SPECIALS), shape.words, counts.sum()).astype(np.uint16)
    return flat, np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


def text_of(flat):
    return " ".join(word(number) for number in flat.tolist())
