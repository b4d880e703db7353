"""A pickle's tensors as safetensors: run as a script, in a process of its own.

`python -I child.py PICKLE OUT SECONDS` prints what it found as one JSON object. It imports
nothing of raypipe, so that no pickle ever meets the process that holds the rest.
"""

import json
import signal
import sys
from typing import Any

import torch
from safetensors.torch import save_file

NESTED = ("state_dict", "model_state_dict", "model")
"""Where trainers put the weights beside their own state."""


def main(pickle: str, out: str, seconds: str) -> int:
    """Write the tensors and print what they were; 0, or 3 where none could be had.

    Ends itself after `seconds`, should the parent not be there to do it.
    """
    signal.setitimer(signal.ITIMER_REAL, float(seconds))
    try:
        loaded = torch.load(pickle, map_location="cpu", weights_only=True)
        tensors, others, under = _tensors(loaded)
        save_file({name: _plain(name, tensors[name]) for name in sorted(tensors)}, out)
    except Exception as error:  # whatever a broken or hostile file leads to, sent to the parent
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 3
    print(json.dumps({"others": others, "under": under}))
    return 0


def _tensors(loaded: Any) -> tuple[dict[str, torch.Tensor], list[str], str | None]:
    """(tensors by name, names of what is no tensor, the key they were under)."""
    if not isinstance(loaded, dict):
        raise ValueError(f"expected tensors by name, found {type(loaded).__name__}")
    for key in NESTED:
        inner = loaded.get(key)
        if isinstance(inner, dict):
            beside = sorted(str(name) for name in loaded if name != key)
            tensors, others, _ = _tensors(inner)
            return tensors, beside + others, key
    tensors = {str(n): value for n, value in loaded.items() if isinstance(value, torch.Tensor)}
    if not tensors:
        raise ValueError("expected tensors by name, found none")
    return tensors, sorted(str(name) for name in loaded if str(name) not in tensors), None


def _plain(name: str, tensor: torch.Tensor) -> torch.Tensor:
    if tensor.layout != torch.strided or tensor.is_quantized:
        raise ValueError(f"{name}: expected a dense tensor, found {tensor.layout}, {tensor.dtype}")
    return tensor.detach().clone(memory_format=torch.contiguous_format)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
