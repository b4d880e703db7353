"""Encoders and rerankers in passes of fixed shape: the numbers of transformers, in every dtype.

On a CPU, with a stand-in for the kernel of attention and without one. Layout, positions, segments,
pooling and heads are the code that runs on CUDA.
"""

import numpy as np
import pytest
import torch
from kernel_stand_in import one_by_one
from scipy.stats import kendalltau
from transformers import BertForSequenceClassification, BertModel

from raypipe.models.gpu.opening import FixedSettings
from raypipe.models.load import load_encoder, load_scorer
from raypipe.models.machine.precision import able

WAYS = [FixedSettings(), FixedSettings(varlen=one_by_one), FixedSettings(resident_bytes=0)]
SLOW = [each for each in able("cpu") if each not in ("fp32", "int8")]  # no GPU computes in int8
HERE = ["fp32", *(pytest.param(each, marks=pytest.mark.slow) for each in SLOW)]
TOLERANCE = {"fp32": 1e-5, "bf16": 2e-2, "fp16": 5e-3}
COUNTS = [0, 1, 2, 7, 7, 7, 30, 30, 61, 120, 250, 300, 0, 3]


def transformers_vectors(model, part):
    bert = BertModel.from_pretrained(model.folder, attn_implementation="eager").double().eval()
    rows = []
    for start, count in zip(part.starts, part.counts, strict=True):
        pieces = part.flat[start : start + min(count, model.encoder.limit("passage"))]
        ids = torch.tensor([[2, *pieces.tolist(), 3]])
        with torch.inference_mode():
            hidden = bert(ids, token_type_ids=torch.ones_like(ids)).last_hidden_state[0]
        row = {"mean": hidden.mean(dim=0), "cls": hidden[0], "max": hidden.amax(dim=0)}.get(
            model.encoder.pooling, hidden[-1]
        )
        rows.append((row / row.norm()).numpy())
    return np.stack(rows)


@pytest.mark.parametrize("way", WAYS, ids=["by length", "kernel", "own pieces"])
@pytest.mark.parametrize("pooling", ["mean", "cls", "max", "last"])
@pytest.mark.parametrize("precision", HERE)
def test_vectors_are_transformers(model_of, part_of, way, pooling, precision):
    model = model_of(pooling=pooling, passage_segment=1).in_precision(precision)
    part = part_of(COUNTS, 1)
    encoder = load_encoder(model, budget_tokens=700, fixed=way)
    offsets = np.append(part.starts, len(part.flat))
    found = encoder.encode(part.flat, offsets, side="passage")
    far = np.linalg.norm(found - transformers_vectors(model, part), axis=1)
    assert far.max() < TOLERANCE[precision]
    assert np.linalg.norm(found[1:] - found[:-1], axis=1)[[0, 1, 2, 5]].min() > 0.1
    assert encoder.encode(part.flat[:0], np.zeros(1, np.int64), side="passage").shape == (0, 64)


def transformers_units(model, parts):
    bert = BertForSequenceClassification.from_pretrained(model.folder, attn_implementation="eager")
    bert, rows = bert.double().eval(), []
    for number in range(len(parts[0].counts)):
        ids, segments = [2], [0]
        for segment, part in enumerate(parts):
            start = part.starts[number]
            own = part.flat[start : start + part.counts[number]].tolist()
            ids += [*own, 3]
            segments += [segment] * (len(own) + 1)
        with torch.inference_mode():
            logits = bert(torch.tensor([ids]), token_type_ids=torch.tensor([segments])).logits[0]
        rows.append(torch.softmax(logits, dim=0)[1].item())
    return np.array(rows)


@pytest.mark.parametrize("way", WAYS, ids=["by length", "kernel", "own pieces"])
@pytest.mark.parametrize("kind", ["mono", "duo"])
@pytest.mark.parametrize("precision", HERE)
def test_scores_are_transformers_and_so_is_their_order(model_of, part_of, way, kind, precision):
    model = model_of(kind, score="probability").in_precision(precision)
    rng, number = np.random.default_rng(2), 40
    sizes = [rng.integers(0, 30, number), *(rng.integers(0, 90, number) for _ in range(2))]
    parts = [part_of(own, seed) for seed, own in enumerate(sizes)][: 3 if kind == "duo" else 2]
    scorer = load_scorer(model, budget_tokens=900, fixed=way)
    found = scorer.score(parts[0], parts[1:])
    expected = transformers_units(model, parts)
    assert expected.std() > 0.1
    assert np.abs(found - expected).max() < {**TOLERANCE, "bf16": 4e-2}[precision]
    assert kendalltau(found, expected).statistic > (0.999 if precision == "fp32" else 0.97)


def test_the_kernel_is_given_the_inputs_that_are_there_and_their_longest(model_of, part_of):
    calls = []

    def kernel(query, key, value, edges, longest):
        calls.append((edges.tolist(), longest))
        return one_by_one(query, key, value, edges, longest)

    part = part_of([3, 7, 0], 1)
    encoder = load_encoder(model_of(), budget_tokens=700, fixed=FixedSettings(varlen=kernel))
    calls.clear()
    encoder.encode(part.flat, np.append(part.starts, len(part.flat)), side="passage")
    # Sorted by length, with two special tokens each; a block computes 128 tokens of one.
    assert calls == [([0, 2, 7, 16], 128)] * 3


@pytest.mark.parametrize("kind", ["encoder", "duo"])
def test_a_row_has_one_value_in_any_batch_and_at_any_place(model_of, part_of, kind):
    model, rng = model_of(kind), np.random.default_rng(4)
    counts, passes = rng.integers(0, 80, 30), []
    for budget in (1, 200, 600):
        if kind == "encoder":
            part = part_of(counts, 1)
            engine = load_encoder(model, budget_tokens=600, fixed=FixedSettings())
            offsets = np.append(part.starts, len(part.flat))
            passes.append(engine.encode(part.flat, offsets, side="passage", budget_tokens=budget))
        else:
            parts = [part_of(counts, seed) for seed in range(3)]
            engine = load_scorer(model, budget_tokens=600, fixed=FixedSettings())
            passes.append(engine.score(parts[0], parts[1:], budget_tokens=budget))
        assert "unproven" not in engine.numerics
        assert "eager passes of 600 tokens, attention by length" in engine.numerics
    assert passes[0].tobytes() == passes[1].tobytes() == passes[2].tobytes()
