"""The rate of a model, really measured."""

import numpy as np
import pytest

from raypipe.driver.forecast import probe
from raypipe.driver.forecast.flops import flops_of
from raypipe.driver.forecast.probe import key_of, largest, measured_rate
from raypipe.models.folder.loading import resolve_model
from raypipe.stages.outlook.lengths import encoder_inputs, pair_inputs, texts_of

FLAT = np.arange(4_000, dtype=np.uint16) % 20 + 5
OFFSETS = np.concatenate([[0], np.cumsum(np.arange(300) % 20 + 1)]).astype(np.int64)


@pytest.fixture
def inputs(tiny_model):
    """300 inputs of 1 to 20 word pieces, of as many."""
    model = resolve_model(str(tiny_model), None)
    return encoder_inputs(model, "passage", texts_of(FLAT, OFFSETS, np.arange(300)), 300.0)


@pytest.fixture
def calls(monkeypatch):
    """The rows of each call of the model, and a clock that every call moves by a second."""
    found, opened, now = [], probe._opened, [0.0]
    monkeypatch.setattr(probe, "process_time", lambda: now[0])
    monkeypatch.setattr(probe, "monotonic", lambda: now[0])

    def noted(inputs, site, budget_tokens):
        compute = opened(inputs, site, budget_tokens)

        def one(rows):
            found.append(rows)
            now[0] += 1.0
            return compute(rows)

        return one

    monkeypatch.setattr(probe, "_opened", noted)
    return found


def test_groups_of_like_length_have_a_rate_each_and_the_first_call_counts_in_none(inputs, calls):
    found = measured_rate(inputs, 1, None, seconds=0.0, num_groups=3)
    assert len(calls) == 1 + 3 and len(calls[0]) == 1
    for rows, length, flops, tokens in zip(
        calls[1:], found.lengths, found.flops_per_second, found.tokens_per_second, strict=True
    ):
        lengths = inputs.lengths[rows]
        assert length == pytest.approx(lengths.mean()) and tokens == lengths.sum()
        assert flops == pytest.approx(flops_of(inputs.model, lengths).sum())
    assert list(found.lengths) == sorted(found.lengths)
    assert found.num_inputs == sum(map(len, calls[1:]))


def test_a_probe_computes_no_more_than_its_share_of_the_inputs(inputs, calls, monkeypatch):
    monkeypatch.setattr(probe, "LEAST_INPUTS", 40)
    found = measured_rate(inputs, 1, None, seconds=1e9, num_groups=2, step_tokens=100)
    assert 40 <= found.num_inputs <= 60  # whole steps
    rows = np.concatenate(calls[1:])
    assert len(np.unique(rows)) == len(rows)


def test_a_probe_ends_when_its_time_is_over(inputs, calls):
    found = measured_rate(inputs, 1, None, seconds=7.0, num_groups=2, step_tokens=30)
    assert len(calls) == 1 + 2 * 3 and found.seconds == 7.0  # a second went by before the groups


def test_pairs_are_scored(tiny_mono, tiny_duo):
    for folder, sides in ((tiny_mono, 2), (tiny_duo, 3)):
        model = resolve_model(str(folder), None)
        texts = [texts_of(FLAT, OFFSETS, np.arange(300)) for _ in range(sides)]
        found = measured_rate(pair_inputs(model, texts, 9e9), 1, None, seconds=0.1, num_groups=1)
        assert found.tokens_per_second[0] > 0 and found.num_inputs <= 300


def test_a_model_is_probed_once_over_its_most_tokens(inputs, tiny_model):
    few = encoder_inputs(inputs.model, "query", inputs.texts[0], 3.0)
    none = encoder_inputs(inputs.model, "passage", texts_of(FLAT, OFFSETS, np.arange(0)), 9.0)
    assert largest([few, inputs, none]) == {key_of(inputs): inputs}
    assert key_of(few) == key_of(inputs)
