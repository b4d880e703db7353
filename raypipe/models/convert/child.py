"""Converts a pickle's tensors to safetensors; run as a script in a separate process.

`python -I child.py PICKLE OUT SECONDS` prints what it found as one JSON object. It imports nothing
from raypipe, so that a pickle never enters the main process.
"""

import json
import signal
import sys
from typing import Any

import torch
from safetensors.torch import save_file

NESTED = ("state_dict", "model_state_dict", "model")
"""Keys under which trainers save the weights beside their own state."""


def main(pickle: str, out: str, seconds: str) -> int:
    """Write the tensors and print what was found; returns 0, or 3 without tensors.

    It ends itself after `seconds`, in case the parent is gone.
    """
    signal.setitimer(signal.ITIMER_REAL, float(seconds))
    try:
        loaded = torch.load(pickle, map_location="cpu", weights_only=True)
        tensors, others = _tensors(loaded)
        save_file({name: _plain(name, tensor) for name, tensor in tensors.items()}, out)
    except Exception as error:  # any effect of a broken or hostile file is reported to the parent
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 3
    print(json.dumps({"others": others}))
    return 0


def _tensors(loaded: Any) -> tuple[dict[str, torch.Tensor], list[str]]:
    """(tensors by name, names of other values)."""
    if not isinstance(loaded, dict):
        raise ValueError(f"expected tensors by name, found {type(loaded).__name__}")
    for key in NESTED:
        inner = loaded.get(key)
        if isinstance(inner, dict):
            beside = sorted(str(name) for name in loaded if name != key)
            tensors, others = _tensors(inner)
            return tensors, beside + others
    tensors = {str(n): value for n, value in loaded.items() if isinstance(value, torch.Tensor)}
    if not tensors:
        raise ValueError("expected tensors by name, found none")
    return tensors, sorted(str(name) for name in loaded if str(name) not in tensors)


def _plain(name: str, tensor: torch.Tensor) -> torch.Tensor:
    if tensor.layout != torch.strided or tensor.is_quantized:
        raise ValueError(f"{name}: expected a dense tensor, found {tensor.layout}, {tensor.dtype}")
    return tensor.detach().clone(memory_format=torch.contiguous_format)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
