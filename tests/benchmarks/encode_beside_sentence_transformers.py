"""Encoding beside sentence-transformers: text to embeddings, one thread, process CPU time.

    python tests/benchmarks/encode_beside_sentence_transformers.py NFCORPUS_FOLDER

Rounds alternate in order; ratios are paired within a round. Every text is an NFCorpus passage cut
to a length drawn from MS MARCO's (mean 55 words, sd 21). Both sides must agree before anything is
timed.
"""

import gzip
import json
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
import torch
from sentence_transformers import SentenceTransformer

from raypipe.models.device import numerics_class
from raypipe.models.encoder import load_encoder
from raypipe.models.folder.loading import resolve_model
from raypipe.models.folder.opening import open_tokenizer
from raypipe.text.tokenize import tokenize_batch

NUM_TEXTS, ROUNDS = 192, 5


def texts_of(folder: Path) -> list[str]:
    with gzip.open(folder / "corpus.jsonl.gz") as lines:
        texts = [json.loads(line)["text"] for _, line in zip(range(NUM_TEXTS), lines, strict=False)]
    lengths = np.random.default_rng(0).normal(55, 21, NUM_TEXTS).clip(5, 180).astype(int)
    return [" ".join(text.split()[:n]) for text, n in zip(texts, lengths, strict=True)]


def main() -> None:
    torch.set_num_threads(1)
    texts = texts_of(Path(sys.argv[1]))
    model = resolve_model("minilm")
    tokenizer, encoder = open_tokenizer(model), load_encoder(model, threads=1)
    peer = SentenceTransformer(str(model.folder), device="cpu")

    def ours(budget):
        pieces = tokenize_batch(tokenizer, texts, max_pieces=512)
        return encoder.encode(*pieces, side="passage", budget_tokens=budget)

    def theirs(batch):
        return peer.encode(texts, batch_size=batch, normalize_embeddings=True)

    np.testing.assert_allclose(ours(2048), theirs(32), atol=1e-5)
    ways = {("raypipe", 2048): lambda: ours(2048)}
    ways |= {("sentence-transformers", b): partial(theirs, b) for b in (8, 16, 32, 64)}
    seconds: dict[tuple[str, int], list[float]] = {way: [] for way in ways}
    for number in range(ROUNDS):
        for way in list(ways)[:: 1 if number % 2 else -1]:
            began = time.process_time()
            ways[way]()
            seconds[way].append(time.process_time() - began)
    base = np.array(seconds["raypipe", 2048])
    print(numerics_class("cpu"))
    for (name, size), found in seconds.items():
        ratio = np.array(found) / base
        rate = NUM_TEXTS / np.median(found)
        print(
            f"{name} {size}: {rate:.1f} passages per CPU second; raypipe is "
            f"{np.median(ratio):.2f}x [{ratio.min():.2f}, {ratio.max():.2f}]"
        )


if __name__ == "__main__":
    main()
