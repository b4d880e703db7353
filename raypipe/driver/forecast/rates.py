"""The rate of a model on this machine: that of the last run's log, or of a timed probe."""

import json
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from time import monotonic, process_time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from raypipe.driver.devices import Devices
from raypipe.driver.summaries import read_results, undamaged
from raypipe.driver.workspace import Workspace
from raypipe.stages.expected import ModelInputs
from raypipe.stages.stage import Site
from raypipe.storage.ledger import events, find_spec
from raypipe.storage.payloads import taken
from raypipe.text import inputs as text_inputs

SECONDS = 15.0
"""Of the probes of all models together, loading included."""
SHARE, LEAST_INPUTS = 0.02, 200
"""Inputs that a probe computes: at most 2% of all, but of few inputs 200."""
STEP_TOKENS = 2_000
"""Of one call: a few forward passes. At least two are timed, whatever they take."""
LOG_LINES, LEAST_SECONDS = 200, 1.0
"""Lines of a store's log that are read, the newest; the CPU seconds that they tell at least."""
Key = tuple[str, bool]


@dataclass(frozen=True, slots=True)
class Rate:
    """How fast a model is on a device."""

    tokens_per_second: float
    """Of one GPU, or of the CPU time of one core."""
    by: str
    """`log` or `probe`."""

    def to_json(self) -> dict[str, Any]:
        """The rate as `--json` prints it."""
        return {"tokens_per_second": round(self.tokens_per_second), "by": self.by}


def key_of(inputs: ModelInputs) -> Key:
    """Inputs with the same one have the same rate: the weights, and whether they are pairs."""
    return inputs.model.weights_sha256, inputs.side == "pair"


def logged_rates(
    inputs: Sequence[ModelInputs], workspace: Workspace, chosen: Devices
) -> dict[Key, Rate]:
    """The rates in the logs of the workspace's stores, if its last run was on these devices."""
    results = undamaged(read_results, workspace.folder) or {}
    if not inputs or results.get("device") != chosen.line().removeprefix("device: "):
        return {}
    clock = "cpu_seconds" if chosen.device == "cpu" else "seconds"
    took: dict[Key, tuple[float, float]] = {}
    for store, fingerprint in workspace.refs().items():
        spec = find_spec(workspace.stores, store, fingerprint)
        if spec is None or spec.produces not in ("vectors", "impacts", "scores"):
            continue
        settings = json.dumps(spec.to_json())
        lines = workspace.stores.newest(f"{store}/{fingerprint}/attempts.jsonl")
        shards = [event for line in islice(lines, LOG_LINES) for event in events(line)]
        tokens, seconds = (sum(e.get(name, 0) for e in shards) for name in ("tokens", clock))
        for key in {key_of(each) for each in inputs}:
            if key[0] in settings and key[1] == (spec.produces == "scores"):
                before = took.get(key, (0.0, 0.0))
                took[key] = before[0] + tokens, before[1] + seconds
    return {
        key: Rate(tokens / seconds, "log")
        for key, (tokens, seconds) in took.items()
        if tokens and seconds >= LEAST_SECONDS
    }


def probed_rates(
    inputs: Sequence[ModelInputs],
    chosen: Devices,
    budget_tokens: int | None,
    seconds: float = SECONDS,
) -> dict[Key, Rate]:
    """The rates of models that really encode or score some of their sampled inputs here."""
    most: dict[Key, ModelInputs] = {}
    for each in sorted(inputs, key=lambda each: each.num_tokens):
        if len(each.lengths):
            most[key_of(each)] = each  # the inputs with the most tokens
    of_each = seconds / max(1, len(most))
    return {key: _probed(each, chosen, budget_tokens, of_each) for key, each in most.items()}


def _probed(
    inputs: ModelInputs, chosen: Devices, budget_tokens: int | None, seconds: float
) -> Rate:
    clock = process_time if chosen.device == "cpu" else monotonic
    began, spent, done, calls = monotonic(), 0.0, 0, 0
    rows = np.random.default_rng(0).permutation(len(inputs.lengths))
    step = max(1, round(STEP_TOKENS / float(inputs.lengths.mean())))
    most = max(LEAST_INPUTS, int(SHARE * inputs.number))
    with tempfile.TemporaryDirectory(prefix="raypipe-forecast-") as folder:
        compute = _opened(inputs, Site(Path(folder), chosen.device, chosen.threads), budget_tokens)
        compute(rows[:step])  # the first call is slower
        while done < min(len(rows), most) and (calls < 2 or monotonic() - began < seconds):
            before = clock()
            compute(rows[done : done + step])
            spent += clock() - before
            done, calls = done + step, calls + 1
    return Rate(float(inputs.lengths[rows[:done]].sum()) / max(spent, 1e-9), "probe")


def _opened(
    inputs: ModelInputs, site: Site, budget_tokens: int | None
) -> Callable[[NDArray[np.int64]], object]:
    """A function that computes some of the sampled inputs, as a stage's worker does."""
    from raypipe.models.load import load_encoder, load_scorer  # torch takes seconds
    from raypipe.stages.open_model import open_model

    if inputs.side == "pair":
        scorer, _ = open_model(load_scorer, inputs.model, site, budget_tokens)

        def score(rows: NDArray[np.int64]) -> object:
            query, *passages = (text_inputs.taken(text, rows) for text in inputs.texts)
            return scorer.score(query, passages, budget_tokens=budget_tokens)

        return score
    encoder, _ = open_model(load_encoder, inputs.model, site, budget_tokens)
    (text,) = inputs.texts
    offsets = np.append(text.starts, text.starts[-1:] + text.counts[-1:])

    def encode(rows: NDArray[np.int64]) -> object:
        flat, own = taken(text.flat, offsets, rows)
        return encoder.encode(flat, own, side=inputs.side, budget_tokens=budget_tokens)

    return encode
