"""Really runs a model over a few of the sampled inputs, to know its rate on this machine."""

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, process_time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from raypipe.driver.forecast.flops import flops_of
from raypipe.models.folder.model_folder import ModelFolder
from raypipe.stages.outlook.outlook import ModelInputs
from raypipe.stages.stage import Site
from raypipe.storage.payloads import taken
from raypipe.text import inputs as pairs

SHARE, LEAST_INPUTS = 0.02, 200
"""Inputs that are computed: at most 2% of all, but of few inputs 200."""
GROUPS, FEW_GROUPS = 5, 3
"""Groups of inputs of like length, whose rates are measured; before a run they are fewer."""
STEP_TOKENS, FEW_TOKENS = 2_000, 1_000
"""Of one call: a few forward passes; before a run fewer."""
Int64 = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Rate:
    """How fast a model is, by the length of its inputs."""

    lengths: tuple[float, ...]
    """Mean tokens of the inputs of each group, ascending."""
    flops_per_second: tuple[float, ...]
    """Of CPU time."""
    tokens_per_second: tuple[float, ...]
    num_inputs: int
    seconds: float
    """Of wall time, loading included."""

    def seconds_of(self, model: ModelFolder, lengths: Int64) -> float:
        """Mean CPU seconds of an input, over inputs of these lengths; 0 of none."""
        if not len(lengths):
            return 0.0
        rates = np.interp(lengths, self.lengths, self.flops_per_second)
        return float((flops_of(model, lengths) / rates).mean())

    def to_json(self) -> dict[str, Any]:
        """For summary.json and `--json`."""
        groups = zip(self.lengths, self.tokens_per_second, strict=True)
        return {
            "tokens_per_cpu_second": {f"{length:.0f}": round(rate) for length, rate in groups},
            "inputs": self.num_inputs,
            "seconds": round(self.seconds, 1),
        }


def measured_rate(
    inputs: ModelInputs,
    threads: int,
    budget_tokens: int | None,
    *,
    seconds: float,
    num_groups: int = GROUPS,
    step_tokens: int = STEP_TOKENS,
) -> Rate:
    """The model's rate on a CPU, by groups of inputs of like length, in about so many seconds.

    Each group gets an equal share of the time, but one call of `step_tokens` at least; beyond
    those at most 2% of the inputs are computed, or 200. The first call of all is not counted.
    """
    began = monotonic()
    with tempfile.TemporaryDirectory(prefix="raypipe-forecast-") as folder:
        compute = _opened(inputs, Site(Path(folder), "cpu", threads), budget_tokens)
        groups = _groups(inputs, num_groups)
        most = max(LEAST_INPUTS, int(SHARE * inputs.number)) // len(groups)
        compute(groups[0][:1])
        left = max(0.0, seconds - (monotonic() - began)) / len(groups)
        found = [_timed(compute, inputs, rows, left, most, step_tokens) for rows in groups]
    lengths = tuple(float(inputs.lengths[rows].mean()) for rows, *_ in found)
    flops = tuple(
        float(flops_of(inputs.model, inputs.lengths[rows]).sum()) / spent for rows, spent in found
    )
    tokens = tuple(float(inputs.lengths[rows].sum()) / spent for rows, spent in found)
    number = sum(len(rows) for rows, _ in found)
    return Rate(lengths, flops, tokens, number, monotonic() - began)


def _opened(
    inputs: ModelInputs, site: Site, budget_tokens: int | None
) -> Callable[[Int64], object]:
    """A function that computes some of the sampled inputs, as a stage's worker does."""
    from raypipe.models.encoder import load_encoder  # torch takes seconds
    from raypipe.models.scorer import load_scorer
    from raypipe.stages.opening import open_model

    if inputs.side == "pair":
        scorer, _ = open_model(load_scorer, inputs.model, site, budget_tokens)

        def score(rows: Int64) -> object:
            query, *passages = (pairs.taken(text, rows) for text in inputs.texts)
            return scorer.score(query, passages, budget_tokens=budget_tokens)

        return score
    encoder, _ = open_model(load_encoder, inputs.model, site, budget_tokens)
    (text,) = inputs.texts
    offsets = np.append(text.starts, text.starts[-1:] + text.counts[-1:])

    def encode(rows: Int64) -> object:
        flat, own = taken(text.flat, offsets, rows)
        return encoder.encode(flat, own, side=inputs.side, budget_tokens=budget_tokens)

    return encode


def _groups(inputs: ModelInputs, number: int) -> list[Int64]:
    """The sampled inputs in groups of like length, the shortest first, in random order within."""
    order = np.argsort(inputs.lengths, kind="stable")
    parts = np.array_split(order, min(number, len(order)))
    random = np.random.default_rng(0)
    return [random.permutation(part) for part in parts]


def _timed(
    compute: Callable[[Int64], object],
    inputs: ModelInputs,
    rows: Int64,
    seconds: float,
    most: int,
    step_tokens: int,
) -> tuple[Int64, float]:
    """The inputs that were computed, and the CPU seconds that they took."""
    began, spent, done = monotonic(), 0.0, 0
    step = max(1, round(step_tokens / float(inputs.lengths[rows].mean())))
    most = max(step, most)
    while done < min(len(rows), most) and (not done or monotonic() - began < seconds):
        part, before = rows[done : done + step], process_time()
        compute(part)
        spent += process_time() - before
        done += len(part)
    return rows[:done], max(spent, 1e-9)


def largest(inputs: Sequence[ModelInputs]) -> Mapping[tuple[str, bool], ModelInputs]:
    """By weights, and whether they score pairs: the inputs with the most tokens."""
    found: dict[tuple[str, bool], ModelInputs] = {}
    for each in inputs:
        key = key_of(each)
        if len(each.lengths) and (key not in found or each.num_tokens > found[key].num_tokens):
            found[key] = each
    return found


def key_of(inputs: ModelInputs) -> tuple[str, bool]:
    """What inputs have in common whose rate is the same."""
    return inputs.model.weights_sha256, inputs.side == "pair"
