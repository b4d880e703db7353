"""What a forecast makes of what stages say, by hand."""

from types import SimpleNamespace

import numpy as np
import pytest

from raypipe.driver.forecast.forecast import forecast_of, histogram, totals_of
from raypipe.driver.forecast.foreseen import Expected
from raypipe.driver.forecast.probe import Rate
from raypipe.names import Role, of_queries, of_stage, scoring_of
from raypipe.stages.outlook.outlook import ModelInputs, Outlook

CONFIG = {"hidden_size": 4, "intermediate_size": 10, "num_hidden_layers": 3}


@pytest.fixture
def model(tmp_path):
    """A model of 864 operations for a token, and 48 for a pair of tokens; 700 bytes of weights."""
    (tmp_path / "model.safetensors").write_bytes(bytes(700))
    family = SimpleNamespace(files=SimpleNamespace(as_bert=dict))
    told = {"folder": tmp_path, "weights_sha256": "w", "family": family}
    return SimpleNamespace(config=lambda: CONFIG, **told)


def inputs(model, lengths, number, side="passage"):
    return ModelInputs(model, side, (), np.array(lengths, np.int64), number)


def rate(model, lengths, flops):
    return Rate(tuple(lengths), tuple(flops), (1.0,) * len(lengths), 9, 0.5)


def test_seconds_follow_the_rate_at_the_length_of_each_input(model):
    outlook = Outlook(num_rows=4, num_bytes=80.0, cpu_seconds=2.0, inputs=inputs(model, [1, 3], 4))
    expected = [Expected(of_stage("vectors"), outlook, 3, False, produces="vectors")]
    rates = {("w", False): rate(model, [1.0, 3.0], [912.0, 1512.0])}
    (line,) = forecast_of(expected, rates).lines
    # An input of one token takes 864 + 48 operations, one of three 3 x (864 + 3 x 48).
    assert line.model_seconds == pytest.approx(4 * (912 / 912 + 3024 / 1512) / 2)
    assert line.cpu_seconds == pytest.approx(2.0 + 6.0)
    assert (line.tokens, line.model_flops) == (8.0, 2 * (912 + 3024))
    between = Rate.seconds_of(rates["w", False], model, np.array([2]))
    assert between == pytest.approx((2 * 864 + 4 * 48) / 1212)


def test_only_what_is_left_of_an_interrupted_store_counts(model):
    outlook = Outlook(
        num_rows=8, num_bytes=80.0, cpu_seconds=2.0, inputs=inputs(model, [1], 8), num_inferences=8
    )
    expected = [Expected(of_stage("vectors"), outlook, 3, False, held=0.75)]
    (line,) = forecast_of(expected, {("w", False): rate(model, [1.0], [912.0])}).lines
    assert (line.tokens, line.bytes, line.inferences) == (2.0, 20.0, 2.0)
    assert (line.other_seconds, line.model_seconds, line.model_flops) == (0.5, 2.0, 1824.0)


def test_without_a_rate_the_seconds_are_unknown_but_those_of_no_input_are_none(model):
    expected = [
        Expected(of_stage(name), Outlook(num_rows=1, inputs=inputs(model, [1], n)), 1, False)
        for name, n in (("some", 2.0), ("none", 0.0))
    ]
    found = forecast_of(expected, {})
    assert [line.cpu_seconds for line in found.lines] == [None, 0.0]
    assert found.total("cpu_seconds") is None and totals_of(found)["cpu_seconds"] is None


def test_what_is_there_takes_nothing_and_is_named(model):
    there = Outlook(num_rows=5, num_bytes=90.0, cpu_seconds=3.0, notes=("old",))
    aside = Outlook(num_rows=5, num_bytes=7.0, cpu_seconds=3.0)
    found = forecast_of(
        [
            Expected(of_stage("old"), there, 2, True),
            Expected(of_queries("dev"), aside, 1, False, computed=True),
        ],
        {},
        ["said"],
    )
    assert found.reused == ["old"] and [*found.notes] == ["said"]
    assert found.total("cpu_seconds") == 0 and found.total("bytes") == 7.0


def test_lucene_stands_apart_and_inferences_are_told_a_query(model):
    index = Outlook(num_rows=5, num_bytes=50.0)
    scores = Outlook(num_rows=30, num_inferences=30.0, inputs=inputs(model, [4], 30, "pair"))
    expected = [
        Expected(of_stage("lucene"), index, 1, False, produces="lucene"),
        Expected(of_queries("dev"), Outlook(num_rows=6), 1, False, computed=True),
        Expected(of_queries("other"), Outlook(num_rows=5), 1, False, computed=True),
        Expected(scoring_of(Role.SCORES, "mono", "dev", 1), scores, 1, False),
    ]
    found = forecast_of(expected, {})
    assert totals_of(found)["lucene_bytes"] == 50 and totals_of(found)["bytes"] == 0
    assert found.per_query == {"scores@mono.dev.1": 5.0} and found.weights_bytes == 700
    assert found.rates == {}  # pairs are another work than vectors


def test_a_histogram_has_all_inputs_in_classes_by_their_upper_ends(model):
    found = histogram(inputs(model, [1, 16, 17, 512, 512, 600], 12.0))
    assert found == {"..16": 4, "..32": 2, "..512": 6}
