r"""ModernBERT beside sentence-transformers: text to embeddings and to scores, one thread, fp32.

    MKL_CBWR=AUTO,STRICT python tests/benchmarks/modernbert_beside_sentence_transformers.py \\
        NFCORPUS_FOLDER [NUM_TEXTS [SHAPE ...]]

Random weights of the sizes of Ettin-17m and ModernBERT-base. Texts are NFCorpus passages cut to
lengths as of MS MARCO's, a pair has the first words of another text as its query, and a tokenizer
of 8,000 pieces is trained on them. sentence-transformers' best batch is found first; then rounds
alternate in order, and ratios of the process's CPU time are paired within a round. Both sides must
agree before anything is timed.
"""

import json
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch
import transformers
from encode_beside_sentence_transformers import texts_of
from sentence_transformers import CrossEncoder, SentenceTransformer
from sentence_transformers.base.modules import Transformer
from sentence_transformers.sentence_transformer.modules import Pooling
from tokenizers import ByteLevelBPETokenizer, processors

from raypipe.models.folder.model_folder import open_tokenizer, resolve_model
from raypipe.models.load import load_encoder, load_scorer
from raypipe.models.machine.device import numerics_class
from raypipe.text.inputs import TextSlice
from raypipe.text.word_pieces import WordPieces

SHAPES = {
    "ettin-17m": {"hidden_size": 256, "intermediate_size": 384, "num_hidden_layers": 7,
                  "num_attention_heads": 4},
    "modernbert-base": {"hidden_size": 768, "intermediate_size": 1152, "num_hidden_layers": 22,
                        "num_attention_heads": 12},
}  # fmt: skip
BATCHES, ROUNDS, PIECES, QUERY_WORDS = (4, 8, 16, 32), 5, 8000, 6
SPECIALS = ["[CLS]", "[PAD]", "[SEP]", "[UNK]", "[MASK]"]
MONO = {"kind": "mono", "query_limit": None, "passage_limit": None, "total_limit": 512,
        "relevant_label": None, "score": "raw"}  # fmt: skip


def draw(folder: Path, shape: str, texts: list[str], *, head: bool) -> None:
    """A folder as transformers saves it."""
    first, pad, last, unknown, _ = SPECIALS
    trained = ByteLevelBPETokenizer()
    trained.train_from_iterator(texts, PIECES, special_tokens=SPECIALS, show_progress=False)
    trained.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B [SEP]",
        special_tokens=[(first, 0), (last, 2)],
    )  # fmt: skip
    built = transformers.PreTrainedTokenizerFast(
        tokenizer_object=trained._tokenizer, model_max_length=512, cls_token=first,
        sep_token=last, pad_token=pad, unk_token=unknown,
        model_input_names=["input_ids", "attention_mask"],
    )  # fmt: skip
    config = transformers.ModernBertConfig(
        vocab_size=len(built), pad_token_id=1, bos_token_id=0, eos_token_id=2, cls_token_id=0,
        sep_token_id=2, initializer_range=0.05, num_labels=1, **SHAPES[shape],
    )  # fmt: skip
    name = "ModernBertForSequenceClassification" if head else "ModernBertModel"
    torch.manual_seed(0)
    getattr(transformers, name)(config).save_pretrained(folder)
    built.save_pretrained(folder)


def encoding(shape: str, texts: list[str]):
    """Both sides' embeddings of all texts: raypipe's, and the other's with a batch."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        draw(folder / "drawn", shape, texts, head=False)
        hidden = SHAPES[shape]["hidden_size"]
        modules = [Transformer(str(folder / "drawn")), Pooling(hidden, pooling_mode="mean")]
        SentenceTransformer(modules=modules, device="cpu").save_pretrained(name)
        peer, model = SentenceTransformer(name, device="cpu"), resolve_model(name)
        encoder, tokenizer = load_encoder(model, threads=1), open_tokenizer(model)

    def ours():
        pieces = WordPieces(tokenizer).of(pa.array(texts, pa.string()), max_pieces=512)
        return encoder.encode(*pieces, side="passage", budget_tokens=2048)

    return ours, lambda batch: peer.encode(texts, batch_size=batch)


def scoring(shape: str, texts: list[str]):
    """Both sides' scores of all pairs, likewise."""
    queries = [" ".join(text.split()[:QUERY_WORDS]) for text in [*texts[1:], texts[0]]]
    with tempfile.TemporaryDirectory() as name:
        draw(Path(name), shape, texts, head=True)
        peer = CrossEncoder(name, device="cpu", max_length=512)
        (Path(name) / "raypipe.json").write_text(json.dumps(MONO))
        model = resolve_model(name)
        scorer, tokenizer = load_scorer(model, threads=1), open_tokenizer(model)

    def part(pieces, own):
        flat, offsets = pieces.of(pa.array(own, pa.string()), max_pieces=512)
        return TextSlice(flat, offsets[:-1], np.diff(offsets))

    def ours():
        pieces = WordPieces(tokenizer)
        return scorer.score(part(pieces, queries), [part(pieces, texts)], budget_tokens=2048)

    pairs, raw = list(zip(queries, texts, strict=True)), torch.nn.Identity()
    return ours, lambda batch: peer.predict(pairs, batch_size=batch, activation_fn=raw)


def seconds(call) -> float:
    began = time.process_time()
    call()
    return time.process_time() - began


def main() -> None:
    torch.set_num_threads(1)
    texts = texts_of(Path(sys.argv[1]), int((sys.argv[2:] or ["192"])[0]))
    print(numerics_class("cpu"), f"{len(texts)} texts")
    for shape in sys.argv[3:] or SHAPES:
        for make in (encoding, scoring):
            ours, theirs = make(shape, texts)
            np.testing.assert_allclose(ours(), theirs(BATCHES[0]), atol=1e-4)
            best = min(BATCHES, key=lambda batch: seconds(partial(theirs, batch)))
            pairs = []
            for number in range(ROUNDS):
                both = [ours, partial(theirs, best)]
                taken = [seconds(call) for call in both[:: -1 if number % 2 else 1]]
                pairs.append(taken[:: -1 if number % 2 else 1])
            own, other = np.array(pairs).T
            ratio = other / own
            print(
                f"{shape}, {make.__name__}: {len(texts) / np.median(own):.1f} to "
                f"{len(texts) / np.median(other):.1f} a CPU second at batch {best}; "
                f"{np.median(ratio):.2f} [{ratio.min():.2f}, {ratio.max():.2f}]",
                flush=True,
            )


if __name__ == "__main__":
    main()
