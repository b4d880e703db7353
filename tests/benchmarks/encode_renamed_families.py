r"""Encoding with RoBERTa's and DistilBERT's layers beside sentence-transformers, one thread.

    MKL_CBWR=AUTO,STRICT python tests/benchmarks/encode_renamed_families.py \
        NFCORPUS_FOLDER [NUM_TEXTS [KIND ...]]

Base-size models with random weights, text to embeddings, fp32, in CPU time of the process. Texts
are NFCorpus passages cut to lengths as of MS MARCO's, and a tokenizer of 8,000 pieces is
trained on them. sentence-transformers' best batch is found first; then rounds alternate in order,
and ratios are paired within a round. Both sides must agree before anything is timed.
"""

import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch
import transformers
from encode_beside_sentence_transformers import texts_of
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Transformer
from sentence_transformers.sentence_transformer.modules import Pooling
from tokenizers import ByteLevelBPETokenizer, processors

from raypipe.models.folder.model_folder import open_tokenizer, resolve_model
from raypipe.models.load import load_encoder
from raypipe.models.machine.device import numerics_class
from raypipe.text.word_pieces import WordPieces

KINDS, BATCHES, ROUNDS, PIECES = ("roberta", "xlm-roberta", "distilbert"), (4, 8, 16, 32), 5, 8000
SPECIALS = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
OF_BERT = ["[CLS]", "[PAD]", "[SEP]", "[UNK]", "[MASK]"]


def make(folder: Path, kind: str, texts: list[str]) -> SentenceTransformer:
    """A sentence-transformers folder of this kind, and its model."""
    specials = OF_BERT if kind == "distilbert" else SPECIALS
    first, pad, last, unknown, _ = specials
    trained = ByteLevelBPETokenizer()
    trained.train_from_iterator(texts, PIECES, special_tokens=specials, show_progress=False)
    trained.post_processor = processors.RobertaProcessing((last, 2), (first, 0))
    built = transformers.PreTrainedTokenizerFast(
        tokenizer_object=trained._tokenizer, model_max_length=512, bos_token=first,
        eos_token=last, cls_token=first, sep_token=last, pad_token=pad,
        unk_token=unknown, model_input_names=["input_ids", "attention_mask"],
    )  # fmt: skip
    sizes = {} if kind == "distilbert" else {"max_position_embeddings": 514, "type_vocab_size": 1}
    config = transformers.AutoConfig.for_model(
        kind, vocab_size=len(built), pad_token_id=1, initializer_range=0.05, **sizes
    )
    torch.manual_seed(0)
    transformers.AutoModel.from_config(config).save_pretrained(folder / "drawn")
    built.save_pretrained(folder / "drawn")
    modules = [Transformer(str(folder / "drawn")), Pooling(768, pooling_mode="mean")]
    SentenceTransformer(modules=modules, device="cpu").save_pretrained(str(folder))
    return SentenceTransformer(str(folder), device="cpu")


def main() -> None:
    torch.set_num_threads(1)
    texts = texts_of(Path(sys.argv[1]), int((sys.argv[2:] or ["500"])[0]))
    print(numerics_class("cpu"), f"{len(texts)} texts")
    for kind in sys.argv[3:] or KINDS:
        with tempfile.TemporaryDirectory() as folder:
            peer = make(Path(folder), kind, texts)
            model = resolve_model(folder)
            encoder, tokenizer = load_encoder(model, threads=1), open_tokenizer(model)

        def ours(tokenizer=tokenizer, encoder=encoder, limit=model.max_pieces):
            pieces = WordPieces(tokenizer).of(pa.array(texts, pa.string()), max_pieces=limit)
            return encoder.encode(*pieces, side="passage", budget_tokens=2048)

        def theirs(batch, peer=peer):
            return peer.encode(texts, batch_size=batch)

        def seconds(call, *given):
            began = time.process_time()
            call(*given)
            return time.process_time() - began

        np.testing.assert_allclose(ours(), theirs(BATCHES[0]), atol=1e-4)
        best = min(BATCHES, key=lambda batch: seconds(theirs, batch))
        pairs = []
        for number in range(ROUNDS):
            if number % 2:
                pairs.append((seconds(ours), seconds(theirs, best)))
            else:
                slow = seconds(theirs, best)
                pairs.append((seconds(ours), slow))
        own, other = np.array(pairs).T
        ratio = other / own
        print(
            f"{kind}: {len(texts) / np.median(own):.1f} to {len(texts) / np.median(other):.1f} "
            f"texts per CPU second at batch {best}; {np.median(ratio):.2f} "
            f"[{ratio.min():.2f}, {ratio.max():.2f}]",
            flush=True,
        )


if __name__ == "__main__":
    main()
