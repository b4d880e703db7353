r"""Encoding beside sentence-transformers: text to embeddings, one thread, process CPU time.

    MKL_CBWR=AUTO,STRICT python tests/benchmarks/encode_beside_sentence_transformers.py \
        NFCORPUS_FOLDER [PRECISION ...]

In every precision in which this CPU multiplies, or in those named. Rounds alternate in order;
ratios are paired within a round, to raypipe in the same precision. Every text is an NFCorpus
passage cut to a length drawn from MS MARCO's (mean 55 words, sd 21). Both sides must agree before
anything is timed. The variable is what the command line sets for its workers. raypipe tokenises
as its stage does, beginning with an empty memory of words in each round.
"""

import gzip
import json
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch
from sentence_transformers import SentenceTransformer

from raypipe.models.folder.model_folder import open_tokenizer, resolve_model
from raypipe.models.load import load_encoder
from raypipe.models.machine.device import numerics_class
from raypipe.models.machine.precision import DTYPES, able
from raypipe.text.word_pieces import WordPieces

NUM_TEXTS, ROUNDS = 192, 5
HERE = [each for each in able("cpu") if each != "int8"]  # the peer has no such dtype


def texts_of(folder: Path, number: int = NUM_TEXTS) -> list[str]:
    with gzip.open(folder / "corpus.jsonl.gz") as lines:
        texts = [json.loads(line)["text"] for _, line in zip(range(number), lines, strict=False)]
    lengths = np.random.default_rng(0).normal(55, 21, number).clip(5, 180).astype(int)
    return [" ".join(text.split()[:n]) for text, n in zip(texts, lengths, strict=True)]


def main() -> None:
    torch.set_num_threads(1)
    texts = texts_of(Path(sys.argv[1]))
    model = resolve_model("minilm")
    tokenizer, here = open_tokenizer(model), tuple(sys.argv[2:]) or HERE
    encoders = {p: load_encoder(model.in_precision(p), threads=1) for p in here}
    peers = {
        p: SentenceTransformer(str(model.folder), device="cpu", model_kwargs={"dtype": DTYPES[p]})
        for p in here
    }

    def ours(precision, budget):
        pieces = WordPieces(tokenizer).of(pa.array(texts, pa.string()), max_pieces=512)
        return encoders[precision].encode(*pieces, side="passage", budget_tokens=budget)

    def theirs(precision, batch):
        return peers[precision].encode(texts, batch_size=batch, normalize_embeddings=True)

    exact = ours("fp32", 2048)
    for precision in here:
        atol = 1e-5 if precision == "fp32" else 2e-2
        np.testing.assert_allclose(ours(precision, 2048), exact, atol=atol)
        np.testing.assert_allclose(theirs(precision, 32), exact, atol=atol)
    ways = {("raypipe", p, b): partial(ours, p, b) for p in here for b in (2048, 4096, 8192)}
    ways |= {
        ("sentence-transformers", p, b): partial(theirs, p, b)
        for p in here
        for b in (8, 16, 32, 64)
    }
    seconds: dict[tuple[str, str, int], list[float]] = {way: [] for way in ways}
    for number in range(ROUNDS):
        for way in list(ways)[:: 1 if number % 2 else -1]:
            began = time.process_time()
            ways[way]()
            seconds[way].append(time.process_time() - began)
    print(numerics_class("cpu"))
    for (name, precision, size), found in seconds.items():
        ratio = np.array(found) / np.array(seconds["raypipe", precision, 2048])
        rate = NUM_TEXTS / np.median(found)
        print(
            f"{name} {precision} {size}: {rate:.1f} passages per CPU second; raypipe is "
            f"{np.median(ratio):.2f}x [{ratio.min():.2f}, {ratio.max():.2f}]"
        )


if __name__ == "__main__":
    main()
