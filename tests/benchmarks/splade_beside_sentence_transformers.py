"""Texts to a SPLADE model's weights beside SparseEncoder: fp32, one thread, process CPU time.

    MKL_CBWR=AUTO,STRICT python tests/benchmarks/splade_beside_sentence_transformers.py \
        MODEL_FOLDER NFCORPUS_FOLDER

The folder is read by the preset splade. Texts and rounds are those of
`encode_beside_sentence_transformers.py`; both sides must agree before anything is timed. raypipe
makes the impacts that its stage stores, SparseEncoder its own sparse tensors.
"""

import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
import torch
from encode_beside_sentence_transformers import texts_of
from sentence_transformers import SparseEncoder
from sentence_transformers.base.modules import Transformer
from sentence_transformers.sparse_encoder.modules import SpladePooling

from raypipe.models.folder.model_folder import open_tokenizer, resolve_model
from raypipe.models.load import load_encoder
from raypipe.stages.sparse import impacts_of
from raypipe.stages.tokenize import tokenized

NUM_TEXTS, ROUNDS = 96, 5
BATCHES = (1, 2, 8, 32)


def main() -> None:
    torch.set_num_threads(1)
    folder, texts = sys.argv[1], texts_of(Path(sys.argv[2]), NUM_TEXTS)
    model = resolve_model(folder, "splade")
    tokenizer, encoder = open_tokenizer(model), load_encoder(model, threads=1)
    first = Transformer(folder, transformer_task="fill-mask", max_seq_length=256)
    peer = SparseEncoder(modules=[first, SpladePooling("max")], device="cpu")

    def ours():
        return impacts_of(encoder, *tokenized(tokenizer, model, texts, "passage"), side="passage")

    def theirs(batch):
        return peer.encode(texts, batch_size=batch)

    made = encoder.encode(*tokenized(tokenizer, model, texts, "passage"), side="passage")
    np.testing.assert_allclose(made, theirs(1).to_dense().numpy(), atol=1e-5)
    ways = {"raypipe": ours} | {f"SparseEncoder {n}": partial(theirs, n) for n in BATCHES}
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    for number in range(ROUNDS):
        for way in list(ways)[:: 1 if number % 2 else -1]:
            began = time.process_time()
            ways[way]()
            seconds[way].append(time.process_time() - began)
    for way, one in seconds.items():
        ratio = np.array(one) / np.array(seconds["raypipe"])
        print(
            f"{way}: {NUM_TEXTS / np.median(one):.1f} passages per CPU second; raypipe is "
            f"{np.median(ratio):.2f}x [{ratio.min():.2f}, {ratio.max():.2f}]"
        )


if __name__ == "__main__":
    main()
