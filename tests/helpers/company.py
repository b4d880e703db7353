"""Rows alone and in company: which of them differ by a bit. Also run as a program, in a process
whose kernels its environment chose: torch and MKL look there once."""

import json
import sys
from pathlib import Path

import drawn_models
import numpy as np
import tiny
from safetensors.torch import load_file, save_file

from raypipe.models.folder.model_folder import resolve_model
from raypipe.models.load import load_encoder, load_scorer
from raypipe.text.inputs import TextSlice

LENGTHS = [1, 2, 3, 5, 5, 8, 13, 21, 34, 55, 60, 61, 15, 40]
BUDGETS = (17, 100, 4096)
NAMES = ("minilm", "base", "minilm-mono", "base-duo", "modernbert", "modernbert-mono")
BERT_BASE = {"hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 1}
MODERNBERT = {"hidden_size": 768, "intermediate_size": 1152, "num_attention_heads": 12}
"""The sizes of ModernBERT-base, and its window of 128 tokens is one of 8."""


def make_models(folder):
    """Encoders and rerankers at real shapes: MiniLM's pretrained layers, and at random those of
    BERT-base and ModernBERT-base."""
    minilm = resolve_model("minilm").folder
    weights = load_file(minilm / "model.safetensors")
    scorer = folder / "minilm-mono"
    scorer.mkdir()
    for name in ("config.json", "tokenizer.json"):
        (scorer / name).write_bytes((minilm / name).read_bytes())
    draw = np.random.default_rng(0)
    head = {"classifier.weight": draw.normal(size=(2, 384)), "classifier.bias": np.zeros(2)}
    named = {f"bert.{name}": value for name, value in weights.items()}
    tensors = {name: named["bert.pooler.dense.bias"].new_tensor(head[name]) for name in head}
    save_file({**named, **tensors}, scorer / "model.safetensors")
    tiny.make_tiny_bert(folder / "base", sizes=BERT_BASE)
    tiny.make_tiny_reranker(folder / "base-duo", kind="duo", sizes=BERT_BASE)
    drawn_models.make(folder / "modernbert", "modernbert", **MODERNBERT)
    drawn_models.opened(folder / "modernbert", **drawn_models.ENCODER)
    scorer = folder / "modernbert-mono"
    drawn_models.make(scorer, "modernbert", units=2, classifier_pooling="mean", **MODERNBERT)
    drawn_models.opened(scorer, **drawn_models.MONO)
    return folder


def rows_of(pieces, lengths):
    """Rows of random word pieces: flat and offsets."""
    draw = np.random.default_rng(3)
    return (
        draw.integers(5, pieces, sum(lengths)).astype(np.uint16),
        np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
    )


def taken(flat, offsets, rows):
    parts = [flat[offsets[row] : offsets[row + 1]] for row in rows]
    return np.concatenate(parts), np.concatenate([[0], np.cumsum([len(p) for p in parts])])


def mixed_order(seed, num_rows, times):
    return np.random.default_rng(seed).permutation(np.repeat(np.arange(num_rows), times))


def encoder_differs(model, threads, lengths=LENGTHS):
    """(rows that differ in some company, numerics class) of an encoder."""
    flat, offsets = rows_of(60, lengths)
    one = load_encoder(model, threads=1)
    alone = one.encode(flat, offsets, side="passage", budget_tokens=1)
    encoder = load_encoder(model, threads=threads)
    differ = 0
    for seed, budget in enumerate(BUDGETS):
        order = mixed_order(seed, len(lengths), 2 if budget > 1000 else 1)
        company = taken(flat, offsets, order)
        found = encoder.encode(*company, side="passage", budget_tokens=budget)
        differ += int((found.view(np.int32) != alone[order].view(np.int32)).any(axis=1).sum())
    return differ, encoder.numerics


def scorer_differs(model, threads, lengths=LENGTHS):
    """The same of a reranker, whose queries are the rows' own first word pieces."""
    flat, offsets = rows_of(60, [min(length, 20) for length in lengths])
    part = TextSlice(flat, offsets[:-1], np.diff(offsets))
    query = TextSlice(flat, offsets[:-1], np.minimum(np.diff(offsets), 4))
    passages = [part] * model.reranker.num_passages
    alone = load_scorer(model, threads=1).score(query, passages, budget_tokens=1)
    scorer = load_scorer(model, threads=threads)
    differ = 0
    for seed, budget in enumerate(BUDGETS):
        order = mixed_order(seed, len(lengths), 2 if budget > 1000 else 1)
        mixed = [TextSlice(p.flat, p.starts[order], p.counts[order]) for p in (query, *passages)]
        found = scorer.score(mixed[0], mixed[1:], budget_tokens=budget)
        differ += int((found.view(np.int32) != alone[order].view(np.int32)).sum())
    return differ, scorer.numerics


def found(folder, name, threads, precision="fp32"):
    """What differs of one model, and its numerics class."""
    scores = name.endswith(("mono", "duo"))
    preset = "monobert" if name == "minilm-mono" else None
    model = resolve_model("minilm" if name == "minilm" else str(folder / name), preset)
    model = model.in_precision(precision)
    differ, numerics = (scorer_differs if scores else encoder_differs)(model, threads)
    return {"differ": differ, "numerics": numerics}


def all_of(folder, threads, names=NAMES):
    """`found` by name."""
    return {name: found(folder, name, threads) for name in names}


if __name__ == "__main__":
    folder, threads, *names = sys.argv[1:]
    print(json.dumps(all_of(Path(folder), int(threads), names)))
