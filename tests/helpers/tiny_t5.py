"""A tiny seeded T5 as a model folder, with a Unigram tokenizer, and what transformers computes."""

import json

import torch
import transformers
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

TEXTS = [
    "the lease of a shard",
    "",
    "zebras",
    "  run \t the\nrank ",
    "Run: </s> <pad>",
    "Zürich ½",
    "a b c d e f",
    "passage " * 40,
]
WORDS = "the a of lease shard rank query passage zebra run true false yes no Document0 Document1"
LETTERS = [chr(number) for number in (*range(97, 123), *range(65, 91), *range(48, 58))]
SIZES = {
    "d_model": 32,
    "d_kv": 8,
    "d_ff": 64,
    "num_layers": 2,
    "num_heads": 4,
    "dropout_rate": 0.3,
}
VERSIONS = {
    "1.0": {"feed_forward_proj": "relu", "tie_word_embeddings": True},
    "1.1": {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False},
}
MONO = {
    "kind": "mono",
    "query_limit": 12,
    "passage_limit": None,
    "total_limit": 48,
    "relevant_label": 1,
    "score": "log-probability",
    "prompt": "Query: {query} Document: {passage} Relevant:",
    "answers": ["false", "true"],
}
DUO = {
    **MONO,
    "kind": "duo",
    "total_limit": 64,
    "score": "probability",
    "prompt": "Query: {query} Document0: {passage_0} Document1: {passage_1} Relevant:",
}


def make_tiny_t5(folder, *, version="1.0", family="t5", seed=0, vocab_size=None, **settings):
    """The folder as transformers saves it, with raypipe.json beside it; returns the model."""
    folder.mkdir(parents=True)
    tokenizer = unigram()
    tokenizer.save(str(folder / "tokenizer.json"))
    torch.manual_seed(seed)
    own = VERSIONS[version] if family == "t5" else {}
    config = transformers.AutoConfig.for_model(
        family, vocab_size=vocab_size or tokenizer.get_vocab_size() + 4, **SIZES, **own
    )
    model = transformers.AutoModelForSeq2SeqLM.from_config(config).eval()
    with torch.no_grad():  # so that scores differ widely, and the head of 1.1 is its own
        if version == "1.1":
            model.lm_head.weight = torch.nn.Parameter(torch.randn_like(model.lm_head.weight) / 30)
        for name, parameter in model.named_parameters():
            parameter *= 1 if "layer_norm" in name else 3 if family == "t5" else 1.5
    model.save_pretrained(folder)
    body = json.loads((folder / "config.json").read_text())
    body.pop("scale_decoder_outputs", None)  # published folders do not have it
    body |= {"decoder_start_token_id": 0, **own}
    (folder / "config.json").write_text(json.dumps(body))
    (folder / "raypipe.json").write_text(json.dumps({**MONO, **settings}))
    return model


def unigram():
    """T5's own kind: words split at white space, `</s>` behind, nothing before."""
    pieces = [f"\u2581{word}" for word in WORDS.split()]
    pieces += ["\u2581Document", "\u2581Que", "ry", "s", "\u2581", ":", *LETTERS]
    scores = {piece: -2.0 - 6.0 * (len(piece) == 1) for piece in pieces}
    specials = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0)]
    made = Tokenizer(models.Unigram([*specials, *scores.items()], 2, False))
    made.add_special_tokens(["<pad>", "</s>", "<unk>"])
    made.normalizer = normalizers.NFKC()
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(prepend_scheme="always")]
    )
    made.post_processor = processors.TemplateProcessing(
        single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 1)]
    )
    return made


def theirs(folder):
    """(transformers' model and tokenizer), as they open the folder."""
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"))
    return transformers.AutoModelForSeq2SeqLM.from_pretrained(folder).eval(), tokenizer


@torch.inference_mode()
def their_logits(opened, prompt, words=("false", "true")):
    """The logits of the words after one step of the decoder, float64 [2]."""
    model, tokenizer = opened
    ids = torch.tensor([tokenizer(prompt).input_ids])
    found = model(input_ids=ids, decoder_input_ids=torch.zeros(1, 1, dtype=torch.long))
    wanted = [tokenizer(word).input_ids[0] for word in words]
    return found.logits[0, 0, wanted].double()
