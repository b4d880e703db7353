"""Floating-point operations of a model's forward pass, and what GPUs do of them in a second."""

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from raypipe.errors import InputError
from raypipe.models.folder.model_folder import ModelFolder
from raypipe.vocabulary import Precision

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
