"""Random BERT models of two narrow layers, with the tokenizer of the packaged MiniLM."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor

from raypipe.models.family import family_of
from raypipe.models.folder.model_folder import packaged_folder, resolve_model
from raypipe.stages.in_memory import encode_texts
from raypipe.storage.files import folder_beside, replace_folder

LAYERS, WIDTH, HEADS = 2, 32, 2
SPREAD = 1.4 / WIDTH**0.5
"""Standard deviation of the weights: wide enough that texts get different vectors and scores."""
SHIFT = 0.1
"""Standard deviation of biases, and of LayerNorm weights around 1."""
FOLDERS = {"repbert": "encoder", "monobert-large": "mono", "duobert-large": "duo"}
"""The folders that the packaged recipes name, and what they hold."""
UNITS = 2
"""Of a reranker's head."""


def write_models(folder: Path, sample: Sequence[str], seed: int) -> None:
    """Write folders `repbert`, `monobert-large` and `duobert-large`, in the place of older ones.

    The encoder's vectors of passages have a mean of zero over the sample. Vectors drawn without
    that have a large part in common, beside which float32 cannot tell inner products apart.
    """
    for name, kind in FOLDERS.items():
        with folder_beside(folder / name) as beside:
            tensors = _drawn(kind, seed)
            _write(beside, kind, tensors)
            if kind == "encoder":
                _centre(beside, sample, tensors)
            replace_folder(beside, folder / name)


def _config(kind: str) -> dict[str, Any]:
    words = json.loads((packaged_folder() / "config.json").read_bytes())["vocab_size"]
    head = {"num_labels": UNITS} if kind != "encoder" else {}
    return head | {
        "architectures": ["BertModel" if kind == "encoder" else "BertForSequenceClassification"],
        "model_type": "bert",
        "vocab_size": words,
        "hidden_size": WIDTH,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "intermediate_size": 4 * WIDTH,
        "max_position_embeddings": 512,
        "type_vocab_size": 3 if kind == "duo" else 2,
        "hidden_act": "gelu",
        "layer_norm_eps": 1e-12,
        "position_embedding_type": "absolute",
    }


def _drawn(kind: str, seed: int) -> dict[str, Tensor]:
    config, head = _config(kind), kind != "encoder"
    files = family_of(config).files
    generator = torch.Generator().manual_seed(seed)
    tensors = {}
    for name, shape in files.expected_shapes(config, num_labels=UNITS if head else None).items():
        drawn = torch.randn(shape, generator=generator) * (SHIFT if len(shape) == 1 else SPREAD)
        if name.endswith("LayerNorm.weight"):
            drawn += 1.0
        tensors[files.saved_name(name, head=head)] = drawn
    return tensors


def _write(folder: Path, kind: str, tensors: dict[str, Tensor]) -> None:
    (folder / "config.json").write_text(json.dumps(_config(kind), indent=2))
    for name in ("tokenizer.json", "tokenizer_config.json", "vocab.txt", "special_tokens_map.json"):
        if (packaged_folder() / name).exists():
            shutil.copyfile(packaged_folder() / name, folder / name)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def _centre(folder: Path, sample: Sequence[str], tensors: dict[str, Tensor]) -> None:
    """Subtract the mean vector where the last layer adds its bias."""
    vectors = encode_texts(
        resolve_model(str(folder), "repbert"), sample, side="passage", device="cpu"
    )
    last = [name for name in tensors if name.endswith("LayerNorm.bias")][-1]
    tensors[last] -= torch.from_numpy(vectors.astype(np.float32).mean(axis=0))
    _write(folder, "encoder", tensors)
