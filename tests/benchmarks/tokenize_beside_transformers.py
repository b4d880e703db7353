"""Tokenising beside transformers and tokenizers: texts to ids, CPU time of all threads.

    python tests/benchmarks/tokenize_beside_transformers.py DATA_FOLDER [COLLECTION ...]

DATA_FOLDER is what RAYPIPE_DATA names. Each way gets the same list of Python strings and the
tokenizer of all-MiniLM-L6-v2 (bert-base-uncased's vocabulary), and may cut a text at 512 pieces.
raypipe turns the list into an Arrow column, begins with an empty memory of words each time, and
returns one array of ids; the others return lists of ids, at their best batch size. Every way's ids
must be the same before anything is timed. Rounds alternate in order; ratios are paired within a
round. raypipe stands there twice, so that the two show how far equal work differs.
"""

import gzip
import itertools
import json
import os
import sys
import time
from functools import partial
from pathlib import Path

os.environ["TOKENIZERS_PARALLELISM"] = "false"  # before the library reads it

import numpy as np
import pyarrow as pa
from transformers import BertTokenizerFast

from raypipe.models.folder.model_folder import open_tokenizer, resolve_model
from raypipe.text.tokenize import tokenize_batch
from raypipe.text.word_pieces import WordPieces

ROUNDS, TUNED_TEXTS, BATCH = 5, 1024, 2048
MOST_TEXTS, MOST_CHARACTERS = 16_384, 6_000_000
SIZES = (16, 64, 256, 1024)
LIMIT = 512
COLLECTIONS = {
    "DL21 passages": ("msmarco-v2-dl21/collection.tsv.gz",),
    "MedQuAD": ("medquad-liveqa/collection.tsv.gz",),
    "NFCorpus": ("nfcorpus/corpus.jsonl.gz",),
    "MS MARCO queries": (
        "msmarco-topics/topics.msmarco-passage.dev-subset.txt.gz",
        "msmarco-topics/topics.msmarco-passage.test-subset.txt.gz",
    ),
}


def texts_of(files: list[Path]) -> list[str]:
    lines = []
    for file in files:
        with gzip.open(file, "rt", encoding="utf-8", newline="\n") as opened:
            lines += [line.rstrip("\n") for line in opened]
    if files[0].name.endswith(".jsonl.gz"):
        bodies = [json.loads(line) for line in lines]
        texts = [f"{body['title']} {body['text']}" for body in bodies]
    else:
        texts = [line.split("\t", 1)[1] for line in lines]
    ends = np.cumsum([len(text) for text in texts])
    return texts[: min(MOST_TEXTS, int(np.searchsorted(ends, MOST_CHARACTERS, side="right")))]


def batches(texts, size):
    return [texts[start : start + size] for start in range(0, len(texts), size)]


def raypipe(tokenizer, texts):
    pieces = WordPieces(tokenizer)
    return [pieces.of(pa.array(part), max_pieces=LIMIT) for part in batches(texts, BATCH)]


def library(tokenizer, texts, size):
    found = []
    for part in batches(texts, size):
        encoded = tokenizer.encode_batch_fast(part, add_special_tokens=False)
        found += [encoding.ids for encoding in encoded]
    return found


def transformers_call(tokenizer, texts, size):
    settings = {"return_attention_mask": False, "return_token_type_ids": False}
    settings |= {"add_special_tokens": False, "truncation": True, "max_length": LIMIT}
    found = []
    for part in batches(texts, size):
        found += tokenizer(part, **settings)["input_ids"]
    return found


def seconds_of(work):
    began = time.process_time()
    work()
    return time.process_time() - began


def best(way, tokenizer, texts):
    """The batch size with the least CPU time on some of the texts, the middle one of three."""
    some = texts[:: max(1, len(texts) // TUNED_TEXTS)]
    trials = {size: [] for size in SIZES}
    for _, size in itertools.product(range(3), SIZES):
        trials[size].append(seconds_of(partial(way, tokenizer, some, size)))
    return min(SIZES, key=lambda size: sorted(trials[size])[1])


def compare(name, texts, tokenizer, peer):
    def beginnings():
        for part in batches(texts, BATCH):
            tokenize_batch(tokenizer, part, max_pieces=LIMIT)

    ours = partial(raypipe, tokenizer, texts)
    rows = [flat[a:b] for flat, ends in ours() for a, b in itertools.pairwise(ends.tolist())]
    own = library(tokenizer, texts, 256)
    called = transformers_call(peer, texts, 256)
    for row, whole, theirs in zip(rows, own, called, strict=True):
        assert row.tolist() == whole[:LIMIT] == theirs
    pieces = sum(map(len, rows)) / len(rows)
    print(f"\n{name}: {len(texts)} texts of {pieces:.1f} pieces, cut at {LIMIT}")
    sizes = [best(transformers_call, peer, texts), best(library, tokenizer, texts)]
    ways = {
        "raypipe": ours,
        "raypipe again": ours,
        f"BertTokenizerFast, batches of {sizes[0]}": partial(
            transformers_call, peer, texts, sizes[0]
        ),
        f"encode_batch_fast, batches of {sizes[1]}": partial(library, tokenizer, texts, sizes[1]),
        "encode_batch_fast to one array, a long text's beginning": beginnings,
    }
    seconds = {way: [] for way in ways}
    for number in range(ROUNDS):
        for way in list(ways)[:: -1 if number % 2 else 1]:
            seconds[way].append(seconds_of(ways[way]))
    base = np.array(seconds["raypipe"])
    for way, found in seconds.items():
        ratio = np.array(found) / base
        print(
            f"  {way}: {len(texts) / np.median(found):.0f} texts per CPU second; raypipe is "
            f"{np.median(ratio):.2f}x [{ratio.min():.2f}, {ratio.max():.2f}]",
            flush=True,
        )


def main() -> None:
    folder, wanted = Path(sys.argv[1]), sys.argv[2:] or list(COLLECTIONS)
    model = resolve_model("minilm")
    tokenizer = open_tokenizer(model)
    peer = BertTokenizerFast.from_pretrained(str(model.folder), local_files_only=True)
    for name in wanted:
        texts = texts_of([folder / file for file in COLLECTIONS[name]])
        compare(name, texts, tokenizer, peer)


if __name__ == "__main__":
    main()
