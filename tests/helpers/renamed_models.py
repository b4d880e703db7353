"""Random models of the families with BERT's layers under other names, as their users save them."""

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

TEXTS = [
    "The lease of a shard is held by one driver.",
    "",
    "rank",
    "Zürich, 東京 and naïve cafés: 42 queries/s!",
    "a b  c\td\n e",
    "passage " * 30,
    "it's <s> not [SEP] </s> the end",
]
ROBERTAS = {"roberta": "Roberta", "xlm-roberta": "XLMRoberta", "camembert": "Camembert"}
KINDS = (*ROBERTAS, "distilbert")
POSITIONS = 64
"""Of the longest input."""


def make(folder, kind, *, units=None, seed=0):
    """The folder as transformers saves it, with a tokenizer of its kind; returns the model."""
    folder.mkdir(parents=True, exist_ok=True)
    built = tokenizer_of(kind)
    built.save_pretrained(folder)
    torch.manual_seed(seed)
    name = ROBERTAS.get(kind, "DistilBert")
    head = {} if units is None else {"num_labels": units}
    if kind == "distilbert":
        config = transformers.DistilBertConfig(
            vocab_size=len(built), dim=32, n_layers=2, n_heads=4, hidden_dim=64,
            max_position_embeddings=POSITIONS, initializer_range=0.3, **head,
        )  # fmt: skip
    else:
        config = getattr(transformers, f"{name}Config")(
            vocab_size=len(built), hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
            intermediate_size=64, max_position_embeddings=POSITIONS + 2, type_vocab_size=1,
            layer_norm_eps=1e-5, initializer_range=0.3, pad_token_id=1, **head,
        )  # fmt: skip
    suffix = "Model" if units is None else "ForSequenceClassification"
    model = getattr(transformers, name + suffix)(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter += torch.randn_like(parameter) * 0.1
    model.save_pretrained(folder)
    return model


def tokenizer_of(kind):
    """Byte-level BPE for RoBERTa, a unigram model for XLM-R and CamemBERT, else word pieces."""
    if kind == "roberta":
        return _byte_level()
    return _word_pieces() if kind == "distilbert" else _unigram()


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
