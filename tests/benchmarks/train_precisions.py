"""Low-rank training of a duo in fp32 and bf16, tokens/s in rounds that alternate.

    python tests/benchmarks/train_precisions.py NFCORPUS_FOLDER [THREADS]

All-MiniLM-L6-v2, rank 8, real texts, inputs of about 140 tokens, 6,000 of them a forward; time is
that of forward and backward.
"""

import gzip
import json
import statistics
import sys
import time
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import torch

from raypipe.models.folder.model_folder import (
    layouts_of,
    load_weights,
    open_tokenizer,
    resolve_model,
)
from raypipe.models.folder.settings import PRESETS
from raypipe.models.machine.device import numerics_class
from raypipe.text.inputs import TextSlice, make_inputs, taken
from raypipe.text.tokenize import tokenize_batch
from raypipe.training.start import starting_tensors
from raypipe.training.trainee import LowRank, Trainee

INPUTS, ROUNDS, FORWARDS = 44, 5, 3


def texts(folder, name, count, words):
    with gzip.open(folder / name, "rt") as stream:
        rows = [json.loads(line)["text"].split() for line in islice(stream, count)]
    return [" ".join(row[: words + number % 20]) for number, row in enumerate(rows)]


def part_of(tokenizer, found, limit):
    flat, offsets = tokenize_batch(tokenizer, found, max_pieces=512)
    return TextSlice(flat, offsets[:-1], np.minimum(np.diff(offsets), limit))


def main() -> None:
    folder, threads = Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 2
    torch.set_num_threads(threads)
    model = resolve_model("minilm")
    conventions = replace(
        PRESETS["duobert"],
        query_limit=32,
        passage_limit=64,
        total_limit=164,
        segment_row="copy",
    )
    tokenizer = open_tokenizer(model)
    passages = part_of(tokenizer, texts(folder, "corpus.jsonl.gz", 2 * INPUTS, 35), 64)
    parts = [part_of(tokenizer, texts(folder, "queries.jsonl.gz", INPUTS, 12), 32)]
    parts += [taken(passages, np.arange(INPUTS)), taken(passages, np.arange(INPUTS, 2 * INPUTS))]
    layout = layouts_of(replace(model, conventions=conventions))["pair"]
    order = np.argsort(layout.lengths([part.counts for part in parts]), kind="stable")
    packed = make_inputs([taken(part, order) for part in parts], layout)
    start = starting_tensors(load_weights(model), model.config(), conventions, num_units=2, seed=0)
    trainees = {
        name: Trainee(
            start,
            model.config(),
            conventions,
            low_rank=LowRank(8, 16.0),
            dropout=0.0,
            bf16=name == "bf16",
        )
        for name in ("fp32", "bf16")
    }
    targets = torch.arange(INPUTS) % 2

    def seconds(trainee):
        began = time.perf_counter()
        for _ in range(FORWARDS):
            units = trainee.units(packed)
            torch.nn.functional.cross_entropy(units, targets).backward()
        return time.perf_counter() - began

    for trainee in trainees.values():
        seconds(trainee)
    rounds = [{name: seconds(t) for name, t in trainees.items()} for _ in range(ROUNDS)]
    tokens = FORWARDS * len(packed.ids)
    print(f"{numerics_class('cpu')}, {threads} threads, {len(packed.ids):,} tokens a forward")
    for name in trainees:
        print(f"{name}: {tokens / statistics.median(r[name] for r in rounds):,.0f} tokens/s")
    ratios = [r["fp32"] / r["bf16"] for r in rounds]
    print(f"bf16 over fp32: {statistics.median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f})")


if __name__ == "__main__":
    main()
