"""Scoring pairs beside sentence-transformers' CrossEncoder: text to scores, one thread, CPU time.

    python tests/benchmarks/score_beside_sentence_transformers.py DL21_FOLDER

The first 10 candidates of 20 queries of a BM25 run, all-MiniLM-L6-v2's weights under an untrained
head (the work is that of a trained one), in every precision in which this CPU multiplies. Each
round times every way, in alternating order; ratios are paired within a round, to raypipe in the
same precision. Both sides must agree before anything is timed.
"""

import gzip
import shutil
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from sentence_transformers import CrossEncoder
from transformers import BertConfig

from raypipe.models.folder.model_folder import open_tokenizer, packaged_folder, resolve_model
from raypipe.models.load import load_scorer
from raypipe.models.machine.device import numerics_class
from raypipe.models.machine.precision import DTYPES, able
from raypipe.text.inputs import TextSlice
from raypipe.text.tokenize import tokenize_batch

NUM_QUERIES, DEPTH, ROUNDS = 20, 10, 5
HERE = [each for each in able("cpu") if each != "int8"]  # the peer has no such dtype


def pairs_of(folder: Path) -> tuple[list[str], list[str], list[int], list[int]]:
    """Texts of queries and passages, and which of them each pair is of."""
    queries = dict(
        line.split("\t", 1) for line in (folder / "queries.dl21.tsv").read_text().splitlines()
    )
    with gzip.open(folder / "runs" / "dl21.bm25.top100.trec.gz", "rt") as lines:
        run = [line.split() for line in lines]
    kept = list(dict.fromkeys(row[0] for row in run))[:NUM_QUERIES]
    run = [row for row in run if row[0] in kept and int(row[3]) <= DEPTH]
    wanted = {row[2] for row in run}
    with gzip.open(folder / "collection.tsv.gz", "rt") as lines:
        rows = (line.rstrip("\n").split("\t", 1) for line in lines)
        passages = {row[0]: row[1] for row in rows if row[0] in wanted}
    ids = list(passages)
    texts = [queries[query] for query in kept]
    places = [(kept.index(row[0]), ids.index(row[2])) for row in run]
    return texts, list(passages.values()), [q for q, _ in places], [p for _, p in places]


def model_in(folder: Path) -> None:
    """The packaged weights under a head of one unit."""
    source = packaged_folder()
    weights = {f"bert.{k}": v for k, v in load_file(source / "model.safetensors").items()}
    torch.manual_seed(0)
    weights |= {"classifier.weight": torch.randn(1, 384), "classifier.bias": torch.zeros(1)}
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    config = BertConfig.from_pretrained(source)
    config.architectures, config.num_labels = ["BertForSequenceClassification"], 1
    config.save_pretrained(folder)
    for name in ("tokenizer.json", "tokenizer_config.json", "vocab.txt"):
        shutil.copy(source / name, folder)
    (folder / "raypipe.json").write_text(
        '{"kind": "mono", "query_limit": null, "passage_limit": null, "total_limit": 512,'
        ' "relevant_label": null, "score": "raw"}'
    )


def main() -> None:
    torch.set_num_threads(1)
    queries, passages, of_query, of_passage = pairs_of(Path(sys.argv[1]))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model_in(folder)
        model = resolve_model(name)
        tokenizer, here = open_tokenizer(model), HERE
        scorers = {p: load_scorer(model.in_precision(p), threads=1) for p in here}
        peers = {
            p: CrossEncoder(name, device="cpu", max_length=512, model_kwargs={"dtype": DTYPES[p]})
            for p in here
        }

    def part(texts, rows):
        flat, offsets = tokenize_batch(tokenizer, texts, max_pieces=512)
        return TextSlice(flat, offsets[:-1][rows], np.diff(offsets)[rows])

    def ours(precision):
        return scorers[precision].score(part(queries, of_query), [part(passages, of_passage)])

    together = [(queries[q], passages[p]) for q, p in zip(of_query, of_passage, strict=True)]

    def theirs(precision, batch):
        identity = torch.nn.Identity()
        return peers[precision].predict(together, batch_size=batch, activation_fn=identity)

    exact = theirs("fp32", 32)
    difference = {p: float(np.abs(ours(p) - exact).max()) for p in here}
    assert difference["fp32"] < 1e-4 and max(difference.values()) < 0.2, difference
    ways = {("raypipe", p, 2048): partial(ours, p) for p in here}
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
    print(f"{numerics_class('cpu')}; {len(together)} pairs; largest differences {difference}")
    for (what, precision, size), found in seconds.items():
        ratio = np.array(found) / np.array(seconds["raypipe", precision, 2048])
        rate = len(together) / np.median(found)
        print(
            f"{what} {precision} {size}: {rate:.1f} pairs per CPU second; raypipe is "
            f" {np.median(ratio):.2f}x [{ratio.min():.2f}, {ratio.max():.2f}]"
        )


if __name__ == "__main__":
    main()
