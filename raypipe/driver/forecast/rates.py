"""The rate of a model on this machine: that of the last run's log, or of a timed probe."""

import json
import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from time import monotonic, process_time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from raypipe.driver.devices import Devices
from raypipe.driver.forecast.amounts import Int64, ModelInputs
from raypipe.driver.summaries import read_summary
from raypipe.driver.workspace import Workspace
from raypipe.errors import InputError
from raypipe.models.folder.model_folder import ModelFolder
from raypipe.stages.stage import Site
from raypipe.storage.ledger import events, find_spec
from raypipe.storage.payloads import taken
from raypipe.text import inputs as text_inputs
from raypipe.vocabulary import Precision

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
    """How fast a model is on a CPU."""

    tokens_per_second: float
    """Of CPU time."""
    by: str
    """`log` or `probe`."""

    def to_json(self) -> dict[str, Any]:
        """For summary.json and `--json`."""
        return {"tokens_per_cpu_second": round(self.tokens_per_second), "by": self.by}


def key_of(inputs: ModelInputs) -> Key:
    """Inputs with the same one have the same rate: the weights, and whether they are pairs."""
    return inputs.model.weights_sha256, inputs.side == "pair"


def logged_rates(
    inputs: Sequence[ModelInputs], workspace: Workspace, device: str
) -> dict[Key, Rate]:
    """The rates in the logs of the workspace's stores, if its last run was on this device."""
    summary = read_summary(workspace.folder) or {}
    if not inputs or summary.get("device") != device:
        return {}
    took: dict[Key, tuple[float, float]] = {}
    for store, fingerprint in workspace.refs().items():
        spec = find_spec(workspace.stores, store, fingerprint)
        if spec is None or spec.produces not in ("vectors", "scores"):
            continue
        settings = json.dumps(spec.to_json())
        lines = workspace.stores.newest(f"{store}/{fingerprint}/attempts.jsonl")
        told = [event for line in islice(lines, LOG_LINES) for event in events(line)]
        tokens, seconds = (sum(e.get(name, 0) for e in told) for name in ("tokens", "cpu_seconds"))
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
    return {
        key: _probed(each, chosen.threads, budget_tokens, of_each) for key, each in most.items()
    }


def _probed(inputs: ModelInputs, threads: int, budget_tokens: int | None, seconds: float) -> Rate:
    began, spent, done, calls = monotonic(), 0.0, 0, 0
    rows = np.random.default_rng(0).permutation(len(inputs.lengths))
    step = max(1, round(STEP_TOKENS / float(inputs.lengths.mean())))
    most = max(LEAST_INPUTS, int(SHARE * inputs.number))
    with tempfile.TemporaryDirectory(prefix="raypipe-forecast-") as folder:
        compute = _opened(inputs, Site(Path(folder), "cpu", threads), budget_tokens)
        compute(rows[:step])  # the first call is slower
        while done < min(len(rows), most) and (calls < 2 or monotonic() - began < seconds):
            before = process_time()
            compute(rows[done : done + step])
            spent += process_time() - before
            done, calls = done + step, calls + 1
    return Rate(float(inputs.lengths[rows[:done]].sum()) / max(spent, 1e-9), "probe")


def _opened(
    inputs: ModelInputs, site: Site, budget_tokens: int | None
) -> Callable[[Int64], object]:
    """A function that computes some of the sampled inputs, as a stage's worker does."""
    from raypipe.models.encoder import load_encoder  # torch takes seconds
    from raypipe.models.scorer import load_scorer
    from raypipe.stages.open_model import open_model

    if inputs.side == "pair":
        scorer, _ = open_model(load_scorer, inputs.model, site, budget_tokens)

        def score(rows: Int64) -> object:
            query, *passages = (text_inputs.taken(text, rows) for text in inputs.texts)
            return scorer.score(query, passages, budget_tokens=budget_tokens)

        return score
    encoder, _ = open_model(load_encoder, inputs.model, site, budget_tokens)
    (text,) = inputs.texts
    offsets = np.append(text.starts, text.starts[-1:] + text.counts[-1:])

    def encode(rows: Int64) -> object:
        flat, own = taken(text.flat, offsets, rows)
        return encoder.encode(flat, own, side=inputs.side, budget_tokens=budget_tokens)

    return encode


PEAK_TFLOPS: Mapping[str, Mapping[str, float]] = {
    "H200": {"bf16": 989.0, "fp16": 989.0, "tf32": 494.0, "fp32": 67.0},
    "H100": {"bf16": 989.0, "fp16": 989.0, "tf32": 494.0, "fp32": 67.0},
    "A100": {"bf16": 312.0, "fp16": 312.0, "tf32": 156.0, "fp32": 19.5},
    "L40S": {"bf16": 362.0, "fp16": 362.0, "tf32": 183.0, "fp32": 91.6},
    "L4": {"bf16": 121.0, "fp16": 121.0, "tf32": 60.0, "fp32": 30.3},
    "A10": {"bf16": 125.0, "fp16": 125.0, "tf32": 62.5, "fp32": 31.2},
    "V100": {"fp16": 125.0, "fp32": 15.7},
    "T4": {"fp16": 65.0, "fp32": 8.1},
}
"""Dense peaks of the makers' data sheets, of the SXM boards where there are several."""
UTILISATION = 0.3
"""The share of the peak that is assumed: no GPU has been measured with this package."""
Numbers = NDArray[np.float64]


def flops_of(model: ModelFolder, lengths: NDArray[np.int64]) -> Numbers:
    """Operations of inputs of so many tokens, float64 [n].

    A multiplication and an addition are two: 2 (4 H^2 + 2 H I) a token and layer for the linear
    layers, 4 L H a token and layer for attention over L tokens.
    """
    config = model.family.files.as_bert(model.config())
    hidden, layers = int(config["hidden_size"]), int(config["num_hidden_layers"])
    inner = int(config["intermediate_size"])
    tokens = lengths.astype(np.float64)
    linear = 2.0 * (4 * hidden * hidden + 2 * hidden * inner) * layers
    found: Numbers = tokens * (linear + 4.0 * tokens * hidden * layers)
    return found


def assumed_rate(gpu: str, precision: str) -> tuple[float, Precision]:
    """Operations a second of one GPU at the assumed utilisation, and the precision that is meant.

    The GPU is one of the table's, or a name with it as a word, as torch's `NVIDIA A100-SXM4-80GB`.
    `auto` and `fastest` are bf16 where the table has it, otherwise fp16.

    Raises:
        InputError: the GPU or the precision is not in the table.
    """
    words = re.split(r"[\s-]+", gpu.upper())
    peaks = next((PEAK_TFLOPS[word] for word in words if word in PEAK_TFLOPS), None)
    if peaks is None:
        raise InputError(
            f"--gpu {gpu}: expected one of {', '.join(PEAK_TFLOPS)}, whose peaks are known; for "
            "another, name the one that is nearest"
        )
    chosen: Any = precision
    if precision in ("auto", "fastest"):
        chosen = "bf16" if "bf16" in peaks else "fp16"
    if chosen not in peaks:
        raise InputError(
            f"--gpu {gpu}: it does not multiply in {chosen}; expected resources.precision to be "
            f"auto or one of {', '.join(peaks)}"
        )
    return peaks[chosen] * 1e12 * UTILISATION, chosen
