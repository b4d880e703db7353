"""Describes a model folder and its problems, without loading a tensor."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from raypipe.errors import InputError
from raypipe.models.convert.describe_weights import tell_adapter, tell_weights
from raypipe.models.convert.description import Description, tried
from raypipe.models.family import Family, family_of
from raypipe.models.folder.adapters import SHIPPED, adapter_folder, base_of, is_adapter
from raypipe.models.folder.config_checks import config_problems
from raypipe.models.folder.conventions import AnyConventions, Conventions
from raypipe.models.folder.discover import RECORD, Discovered, discover
from raypipe.models.folder.evidence import read_object
from raypipe.models.folder.loading import packaged_folder
from raypipe.models.folder.model_folder import PACKAGED
from raypipe.models.folder.parts.ends import ends_problems
from raypipe.models.folder.parts.layers import layers_of
from raypipe.models.t5.pieces import PIECES
from raypipe.models.tokenizer import read_tokenizer
from raypipe.regular import similar
from raypipe.storage.records import hash_file

SIZES = {
    "layers": "num_hidden_layers",
    "hidden": "hidden_size",
    "heads": "num_attention_heads",
    "positions": "max_position_embeddings",
}


def describe(path: str, preset: str | None) -> Description:
    """All facts of a model folder, or of `minilm`.

    Raises:
        InputError: there is no such folder.
    """
    preset = PACKAGED if path == PACKAGED and preset is None else preset
    named = packaged_folder() if path == PACKAGED else adapter_folder(path)
    if not named.is_dir():
        raise InputError(f"{named}: no such model folder{similar(named, (PACKAGED, *SHIPPED))}")
    found = Description(path, str(named))
    discovered = tried(discover, named, preset, problems=found.problems)
    folder = named
    if is_adapter(named):
        base = tried(base_of, named, problems=found.problems)
        folder = packaged_folder() if base == PACKAGED else Path(base or named)
        found.notes.append(f"an adapter for {base}, merged when it is loaded")
    if discovered is not None:
        _tell_conventions(found, discovered)
    config = tried(read_object, folder / "config.json", problems=found.problems) or {}
    family = tried(family_of, config, problems=[])  # an unknown one is among the problems below
    if family and discovered is not None and named == folder and not config_problems(config):
        tried(layers_of, named, discovered.conventions, config, problems=found.problems)
    sizes = tried(family.files.as_bert, config, problems=[]) if family else config
    found.architecture = {
        "architectures": config.get("architectures"),
        "model_type": config.get("model_type"),
        **{name: (sizes or config).get(key) for name, key in SIZES.items()},
        "vocabulary": config.get("vocab_size"),
    }
    _tell_tokenizer(found, folder, config)
    conventions = discovered.conventions if discovered else None
    if named == folder:
        tell_weights(found, folder, config, conventions)
    else:
        tell_adapter(found, named, folder, config, conventions)
    if family is not None:
        found.training = _training(family, conventions)
    record = read_object(named / "raypipe.json") if discovered else {}
    found.made_by = record.get(RECORD)
    return found


def _training(family: Family[Any], conventions: AnyConventions | None) -> str:
    """Whether a training may start from the model, and else why not."""
    try:
        family.files.trained_names([], head=False)
    except InputError as error:
        return f"no: {error}"
    if isinstance(conventions, Conventions) and (conventions.dense or conventions.truncate_dim):
        return "no: what follows pooling is not trained; its body is, with model.preset"
    return "yes"


def _tell_conventions(found: Description, discovered: Discovered) -> None:
    found.kind = discovered.conventions.kind
    found.conventions = asdict(discovered.conventions)
    found.sources = discovered.sources
    found.notes += discovered.notes


def _tell_tokenizer(found: Description, folder: Path, config: Mapping[str, Any]) -> None:
    for name in ("tokenizer.json", "vocab.txt", PIECES):
        file = folder / name
        if file.exists():
            sha256 = tried(hash_file, file, problems=found.problems)
            if sha256 is None:
                return
            found.tokenizer = {"file": name, "sha256": sha256}
            if name != "vocab.txt":
                opened = tried(read_tokenizer, folder, problems=found.problems)
                size = 0 if opened is None else opened.get_vocab_size()
                if opened is not None:
                    ends = tried(ends_problems, folder, opened, config, problems=found.problems)
                    found.problems += ends or []
            else:
                size = len(file.read_text(encoding="utf-8", errors="replace").splitlines())
            found.tokenizer["pieces"] = size
            rows = config.get("vocab_size")
            if isinstance(rows, int) and size > rows:
                found.problems.append(
                    f"{file}: {size} word pieces, the model has embeddings of "
                    f"{config['vocab_size']}; it belongs to another model"
                )
            return
    found.problems.append(f"{folder}: no tokenizer.json or vocab.txt; put it beside the weights")
