"""Scores of monoBERT and duoBERT on a device: the CPU's, at every length of an input.

Log probabilities, and probabilities of a duo, are compared as they are. fp32 moves them by about
1e-6; products in TF32, simulated on a CPU, move a mono's by up to 2.7e-3. The tolerance lies
between, and a tenth under what two numerics classes may differ by (1e-3).
"""

import numpy as np
import pytest

from raypipe.models.load import load_scorer
from raypipe.text.inputs import TextSlice

TOLERANCE = 1e-4


def inputs_of(total, num_passages, step, shape, random_bert):
    """Queries of 0 to 70 pieces with passages that fill inputs of every length, and overfill."""
    rng = np.random.default_rng(total)
    room = np.array([*range(0, total - 1 - num_passages, step), total - 2 - num_passages, 700])
    of_query = np.minimum(rng.integers(0, 71, len(room)), room)
    first = room - of_query if num_passages == 1 else (room - of_query) // 2
    sizes = [of_query, first, room - of_query - first][: 1 + num_passages]
    parts = []
    for seed, counts in enumerate(sizes):
        flat, offsets = random_bert.pieces_of(counts, shape, seed=seed)
        parts.append(TextSlice(flat, offsets[:-1], counts))
    return parts


def assert_scores_are_the_cpus(device, model, parts, threads, tell):
    query, *passages = parts
    expected = load_scorer(model, threads=threads).score(query, passages, budget_tokens=2048)
    assert len(np.unique(expected)) > len(expected) * 0.9
    assert expected.std() > 100 * TOLERANCE
    scorer = load_scorer(model, device=device, threads=threads)
    packed = np.abs(scorer.score(query, passages) - expected)
    alone = np.abs(scorer.score(query, passages, budget_tokens=1) - expected)
    tell(f"largest difference packed {packed.max():.1e}, alone {alone.max():.1e}")
    assert packed.max() < TOLERANCE
    assert alone.max() < TOLERANCE


@pytest.fixture
def check(device, shape, models, random_bert, step, threads, tell):
    """A function that checks one kind of model, which reads so many passages, at every length."""

    def scores_are_the_cpus(kind, num_passages, **settings):
        parts = inputs_of(512, num_passages, step, shape, random_bert)
        assert_scores_are_the_cpus(device, models(shape, kind, **settings), parts, threads, tell)

    return scores_are_the_cpus


@pytest.mark.parametrize("units", [1, 2])
@pytest.mark.parametrize("passage_limit", [None, 300])
def test_mono_scores_equal_the_cpus_at_every_length(check, units, passage_limit):
    check("mono", 1, units=units, passage_limit=passage_limit)


@pytest.mark.parametrize("units", [1, 2])
@pytest.mark.parametrize("passage_limit", [None, 223])
def test_duo_scores_equal_the_cpus_at_every_length(check, units, passage_limit):
    check("duo", 2, units=units, passage_limit=passage_limit)
