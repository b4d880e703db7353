"""Random models of every family as transformers saves them, opened here and computed by it."""

import json

import torch
import transformers
from tokenizers import (
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

from raypipe.models.folder.model_folder import resolve_model

TEXTS = [
    "The lease of a shard is held by one driver.",
    "",
    "rank",
    "Zürich, 東京 and naïve cafés: 42 queries/s!",
    "a b  c\td\n e",
    "passage " * 30,
    "it's <s> not [SEP] </s> the end",
]
DECODERS = ("gemma3_text", "llama", "mistral", "qwen2", "qwen3")
ROBERTAS = ("roberta", "xlm-roberta", "camembert")
RENAMED = (*ROBERTAS, "distilbert")
PACKED = (*RENAMED, "modernbert")
"""What raypipe computes itself beside BERT."""
POSITIONS = 64
"""Of the longest input."""
LIMIT = POSITIONS - 2
ENCODER = {"kind": "encoder", "pooling": "mean", "normalise": False, "query_segment": 0,
           "passage_segment": 0, "query_limit": 8, "passage_limit": LIMIT}  # fmt: skip
MONO = {"kind": "mono", "query_limit": None, "passage_limit": None, "total_limit": POSITIONS,
        "relevant_label": 1, "score": "raw"}  # fmt: skip
SIZES = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64,
    "max_position_embeddings": POSITIONS, "initializer_range": 0.3,
}  # fmt: skip
DISTILBERT = {
    "dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 64,
    "max_position_embeddings": POSITIONS, "initializer_range": 0.3,
}  # fmt: skip
ROBERTA = {
    "max_position_embeddings": POSITIONS + 2, "type_vocab_size": 1, "layer_norm_eps": 1e-5,
    "pad_token_id": 1,
}  # fmt: skip
OWN = {
    **dict.fromkeys(ROBERTAS, ROBERTA),
    "albert": {"embedding_size": 16, "num_hidden_groups": 1},
    "deberta": {
        "relative_attention": True, "pos_att_type": ["c2p", "p2c"], "pooler_hidden_size": 32,
    },
    "deberta-v2": {
        "relative_attention": True, "pos_att_type": ["c2p", "p2c"], "pooler_hidden_size": 32,
        "position_buckets": 8, "norm_rel_ebd": "layer_norm", "share_att_key": True,
    },
    "electra": {"embedding_size": 16},
    "gemma3_text": {
        "num_key_value_heads": 2, "head_dim": 8, "sliding_window": 8,
        "use_bidirectional_attention": True,
        "layer_types": ["sliding_attention", "full_attention"],
    },
    "llama": {"num_key_value_heads": 2},
    "mistral": {"num_key_value_heads": 2, "sliding_window": 8},
    "qwen2": {"num_key_value_heads": 2},
    "qwen3": {"num_key_value_heads": 2, "head_dim": 8},
    "eurobert": {"num_key_value_heads": 4, "head_dim": 8, "pad_token_id": 0},
    "modernbert": {"local_attention": 8, "global_attn_every_n_layers": 2, "pad_token_id": 0},
    "mpnet": {"max_position_embeddings": POSITIONS + 2, "pad_token_id": 1},
    "rembert": {"input_embedding_size": 16, "output_embedding_size": 16},
}  # fmt: skip
"""What a kind has beside SIZES or in their place."""


def make(folder, kind, *, units=None, seed=0, words=False, **more):
    """The folder as transformers saves it, with a tokenizer of its kind; returns the model.

    It is a reranker with `units`, and has the head that predicts masked words with `words`. `more`
    are further keys of config.json.
    """
    folder.mkdir(parents=True, exist_ok=True)
    built = tokenizer_of(kind)
    built.save_pretrained(folder)
    torch.manual_seed(seed)
    head = {} if units is None else {"num_labels": units}
    sizes = DISTILBERT if kind == "distilbert" else {**SIZES, **OWN.get(kind, {})}
    sizes = {**sizes, **more}
    config = transformers.AutoConfig.for_model(kind, vocab_size=len(built), **sizes, **head)
    name = "AutoModel" if units is None else "AutoModelForSequenceClassification"
    name = "AutoModelForMaskedLM" if words else name
    model = getattr(transformers, name).from_config(config).eval()
    with torch.no_grad():  # so that biases and norms matter
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter += torch.randn_like(parameter) * 0.1
    model.save_pretrained(folder)
    return model


def opened(folder, **conventions):
    """The folder's model with these settings."""
    (folder / "raypipe.json").write_text(json.dumps(conventions))
    return resolve_model(str(folder))


def theirs_of(folder, model, *texts, limit):
    """transformers' own outputs of one input, cut as its tokenizer cuts."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    lists = [[text] for text in texts]  # of a text alone, an empty second one is taken for none
    made = tokenizer(*lists, truncation="longest_first", max_length=limit, return_tensors="pt")
    with torch.no_grad():
        return model(**made)


def tokenizer_of(kind):
    """Byte-level BPE for RoBERTa and decoders, a unigram model for those like XLM-R, else word
    pieces. As in Qwen3-Embedding, nothing is put before a text of Qwen's."""
    if kind == "roberta" or kind in DECODERS:
        built = _byte_level()
        built.padding_side = "left" if kind in DECODERS else "right"
        if kind.startswith("qwen"):
            after = processors.TemplateProcessing("$A </s>", special_tokens=[("</s>", 2)])
            built.backend_tokenizer.post_processor = after
        return built
    if kind in ("xlm-roberta", "camembert", "mpnet"):
        return _unigram()
    built = _word_pieces()
    if kind not in ("distilbert", "modernbert", "eurobert"):
        built.model_input_names = ["input_ids", "token_type_ids", "attention_mask"]
    return built


def _byte_level():
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    specials = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=400, special_tokens=specials, initial_alphabet=alphabet, show_progress=False
    )
    made.train_from_iterator(TEXTS, trainer)
    made.post_processor = processors.RobertaProcessing(
        ("</s>", 2), ("<s>", 0), trim_offsets=True, add_prefix_space=False
    )
    return _with_names(made, "<s>", "</s>")


def _unigram():
    made = Tokenizer(models.Unigram())
    made.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace("  ", " ")])
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    specials = ["<s>", "<pad>", "</s>", "<unk>"]
    trainer = trainers.UnigramTrainer(
        vocab_size=120, special_tokens=specials, unk_token="<unk>", show_progress=False
    )
    made.train_from_iterator(TEXTS, trainer)
    made.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>",
        pair="<s> $A </s> </s> $B:0 </s>:0",
        special_tokens=[("<s>", 0), ("</s>", 2)],
    )
    return _with_names(made, "<s>", "</s>")


def _word_pieces():
    made = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer(lowercase=True)
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    trainer = trainers.WordPieceTrainer(
        vocab_size=200, special_tokens=specials, show_progress=False
    )
    made.train_from_iterator(TEXTS, trainer)
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    return _with_names(made, "[CLS]", "[SEP]", unk="[UNK]", pad="[PAD]")


def _with_names(made, cls, sep, unk="<unk>", pad="<pad>"):
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, cls_token=cls, sep_token=sep, unk_token=unk, pad_token=pad,
        bos_token=cls, eos_token=sep, model_max_length=POSITIONS,
        model_input_names=["input_ids", "attention_mask"],
    )  # fmt: skip
