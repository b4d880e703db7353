"""A trained monoBERT model with a part of its update: the start + G times (trained - start).

    python tests/benchmarks/general/scaled.py MODEL OUT G

MODEL is a folder of `raypipe train` with all-MiniLM-L6-v2 as its start. The head, and the three
rows of segments of a duoBERT model, have no start and stay as they are. OUT is a folder like it.
"""

import shutil
import sys
from pathlib import Path

from safetensors.torch import load_file, save_file

from raypipe.models.folder.model_folder import load_weights, resolve_model


def main(model: Path, out: Path, scale: float) -> None:
    shutil.copytree(model, out)
    trained = load_file(model / "model.safetensors")
    start = load_weights(resolve_model("minilm"))
    scaled = dict(trained)
    for name, tensor in trained.items():
        own = start.get(name.removeprefix("bert."))
        pooler = name.startswith("bert.pooler.")
        if own is not None and own.shape == tensor.shape and not pooler:
            scaled[name] = (own + scale * (tensor - own)).contiguous()
    changed = [name for name in trained if not scaled[name].equal(trained[name])]
    print(f"{out}: {len(changed)} of {len(trained)} tensors scaled by {scale}")
    save_file(scaled, out / "model.safetensors", metadata={"format": "pt"})


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), float(sys.argv[3]))
