"""Batches in flight: order, what is told before each, and how long the device was busy."""

import numpy as np
import pytest
import torch

from raypipe.models.gpu import passes as engine_module
from raypipe.models.gpu.passes import IN_FLIGHT, Busy, FixedEngine, FixedShape, HostClock
from raypipe.text.inputs import Layout, TextSlice

LAYOUT = Layout(101, (102,), 102, (0,))
SHAPE = FixedShape(64, 20)
COUNTS = np.array([5, 1, 7, 3, 9, 9, 2, 0, 11, 4, 18, 6])


class Log:
    """A step that gives each input's number of tokens and sum of ids, and logs its calls."""

    def __init__(self):
        self.events = []

    def __call__(self, inputs, on_host):
        self.events.append("step")
        np.testing.assert_array_equal(inputs.edges.numpy(), on_host)
        assert inputs.ids.shape == (SHAPE.tokens,)
        sums = torch.cat([torch.zeros(1, dtype=torch.long), inputs.ids.cumsum(0)])
        edges = inputs.edges[: SHAPE.rows + 1]
        return torch.stack([torch.diff(edges), torch.diff(sums[edges])], dim=1).float()


def texts():
    flat = np.arange(1000, 1000 + COUNTS.sum(), dtype=np.uint16)
    return TextSlice(flat, np.cumsum(COUNTS) - COUNTS, COUNTS)


def expected():
    text = texts()
    sums = [
        203 + int(text.flat[s : s + c].sum()) for s, c in zip(text.starts, text.counts, strict=True)
    ]
    return np.stack([COUNTS + 2, sums], axis=1)


def run(engine, *, budget=30, beat=lambda rows: None):
    found = np.full((len(COUNTS), 2), np.nan)
    batches = []
    for rows, result in engine.results([texts()], LAYOUT, budget_tokens=budget, beat=beat):
        found[rows] = result
        batches.append(rows.tolist())
    return found, batches


def engine_of(step, **settings):
    own = {"device": "cpu", "precision": "fp32", **settings}
    return FixedEngine(step, SHAPE, **own)


@pytest.mark.parametrize("resident_bytes", [0, 1 << 30])
@pytest.mark.parametrize("budget", [1, 30, 64])
def test_every_row_has_its_result(budget, resident_bytes):
    found, batches = run(engine_of(Log(), resident_bytes=resident_bytes), budget=budget)
    np.testing.assert_array_equal(found, expected())
    assert sum(batches, []) == np.argsort(COUNTS, kind="stable").tolist()
    assert all((COUNTS[rows] + 2).sum() <= max(budget, COUNTS[rows].max() + 2) for rows in batches)


def test_a_beat_names_the_batch_to_come_and_those_in_flight():
    """An error of the device shows late, so it may be of any of them."""
    log, beats = Log(), []

    def beat(rows):
        log.events.append("beat")
        beats.append(rows)

    _, batches = run(engine_of(log), beat=beat)
    assert log.events == ["beat", "step"] * len(batches)
    for number, rows in enumerate(beats):
        assert rows == sum(batches[max(0, number - IN_FLIGHT + 1) : number + 1], [])


def test_a_batch_starts_before_the_one_before_is_waited_for(monkeypatch):
    events, log = [], Log()

    class Clock(HostClock):
        def __init__(self):
            super().__init__()
            events.append("start")

        def wait(self):
            events.append("wait")
            return 0.0

    monkeypatch.setattr(engine_module, "clock_of", lambda device: Clock())
    _, batches = run(engine_of(log))
    number = len(batches)
    assert number > 3
    ahead = ["start", "start", *["wait", "start"] * (number - 2), "wait", "wait"]
    assert events == ahead


def test_pieces_stay_off_the_device_where_few_of_them_are_needed(monkeypatch):
    sent = []
    original = engine_module.on_device
    monkeypatch.setattr(
        engine_module,
        "on_device",
        lambda flat, device: sent.append(len(flat)) or original(flat, device),
    )
    text = texts()
    many = TextSlice(np.concatenate([text.flat] * 3), text.starts + len(text.flat), text.counts)
    found = np.zeros((len(COUNTS), 2))
    results = engine_of(Log()).results([many], LAYOUT, budget_tokens=64, beat=lambda rows: None)
    for rows, result in results:
        found[rows] = result
    np.testing.assert_array_equal(found, expected())
    assert len(sent) > 1 and sum(sent) == COUNTS.sum()
    sent.clear()
    run(engine_of(Log()))
    assert sent == [COUNTS.sum()]


def test_the_idle_share_is_what_the_clocks_leave(monkeypatch):
    now = iter([100.0, 110.0])
    monkeypatch.setattr(engine_module.time, "perf_counter", lambda: next(now))

    class Clock:
        seconds = 0.0

        def stop(self):
            self.seconds = 1.5

        def wait(self):
            return self.seconds

    monkeypatch.setattr(engine_module, "clock_of", lambda device: Clock())
    engine = engine_of(Log())
    _, batches = run(engine)
    assert engine.busy == Busy(10.0, 1.5 * len(batches))
    assert engine.busy.idle_share == pytest.approx(1 - 0.15 * len(batches))
    assert Busy(0.0, 0.0).idle_share == 0.0


def test_no_inputs_are_no_batches():
    nothing = TextSlice(np.empty(0, np.uint16), np.empty(0, np.int64), np.empty(0, np.int64))
    found = engine_of(Log()).results([nothing], LAYOUT, budget_tokens=9, beat=lambda rows: None)
    assert list(found) == []
