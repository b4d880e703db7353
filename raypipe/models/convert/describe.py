"""Describes a model folder and its problems, without loading a tensor."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from math import prod
from pathlib import Path
from typing import Any

from safetensors import safe_open

from raypipe.errors import InputError
from raypipe.models.convert.checkpoint import (
    limit_problems,
    pretraining_problems,
    tensor_problems,
    units_of,
)
from raypipe.models.family import Family, family_of
from raypipe.models.folder.adapters import (
    CONFIG,
    SHIPPED,
    WEIGHTS,
    adapter_folder,
    adapter_names,
    base_of,
    is_adapter,
    missing_problems,
    missing_tensors,
    summed_shapes,
)
from raypipe.models.folder.discover import RECORD, Discovered, discover
from raypipe.models.folder.files import config_problems, read_object, tensor_shapes
from raypipe.models.folder.model_folder import PACKAGED, ends_problems, packaged_folder, tried
from raypipe.models.folder.sentence_transformers import layers_of
from raypipe.models.folder.settings import (
    AnyConventions,
    Conventions,
    PairConventions,
    PretrainedConventions,
)
from raypipe.models.tensors import PICKLES, Config, Named, Shape
from raypipe.models.tokenizer import read_tokenizer
from raypipe.models.whole.files import PIECES
from raypipe.regular import similar
from raypipe.storage.records import hash_file


@dataclass(slots=True)
class Description:
    """A model folder's facts; `problems` is empty if raypipe can use the folder as it is."""

    path: str
    folder: str
    kind: str | None = None
    conventions: dict[str, Any] | None = None
    sources: dict[str, str] | None = None
    """The source of each setting."""
    architecture: dict[str, Any] = field(default_factory=dict)
    weights: dict[str, Any] | None = None
    """file, sha256, bytes, dtypes, tensors, parameters, segment_rows, head_units."""
    tokenizer: dict[str, Any] | None = None
    unused: list[str] | None = None
    """Tensors that raypipe does not read; None if config.json is refused."""
    missing: list[str] | None = None
    made_by: dict[str, Any] | None = None
    """What convert did, if it made the folder."""
    training: str = "not known"
    """yes, or no with the reason."""
    notes: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def describe_adapter(
    found: Description,
    adapter: Path,
    base: Path,
    config: Config,
    conventions: AnyConventions | None,
) -> None:
    """Fill in an adapter's weights, what neither it nor its base has, and what does not fit."""
    if not (adapter / WEIGHTS).exists():
        found.problems.append(f"{adapter}: expected {WEIGHTS}, found none")
        return
    facts = tried(file_facts, adapter / WEIGHTS, problems=found.problems)
    if facts is None:
        return
    rank = read_object(adapter / CONFIG).get("r")
    found.weights, found.unused = {**facts[1], "rank": rank}, []
    problems = [f"{base / 'config.json'}: {problem}" for problem in config_problems(config)]
    shapes = tried(tensor_shapes, base / "model.safetensors", problems=problems)
    found.problems += problems
    if shapes is not None and not problems:
        missing = missing_tensors(shapes, adapter_names(adapter), config)
        found.missing = [*missing[0], *missing[1]]
        problems = missing_problems(missing, base, adapter)
        if conventions is not None and not problems:
            problems = _of_the_sum(adapter, shapes, config, conventions)
        found.problems += problems


def file_facts(file: Path) -> tuple[dict[str, Shape], dict[str, Any]]:
    """(shapes by saved name, facts) of a file of tensors.

    Raises:
        InputError: not a safetensors file.
    """
    shapes = tensor_shapes(file)
    with safe_open(file, framework="numpy") as opened:
        dtypes = {str(opened.get_slice(name).get_dtype()) for name in shapes}
    return shapes, {
        "file": file.name,
        "sha256": hash_file(file),
        "bytes": file.stat().st_size,
        "dtypes": sorted(dtypes),
        "tensors": len(shapes),
        "parameters": sum(map(prod, shapes.values())),
    }


def _of_the_sum(
    adapter: Path, base: Mapping[str, Shape], config: Config, conventions: AnyConventions
) -> list[str]:
    """The problems of these settings with the base and its adapter together."""
    files, shapes = family_of(config).files, summed_shapes(base, config, adapter)
    places = {place: shapes[own.name] for place, own in files.canonical_names(shapes).found.items()}
    rows, units = places.get(files.SEGMENTS, (0, 0))[0], units_of(conventions)
    config = {**config, "type_vocab_size": rows} if rows else config
    read = files.expected_shapes(config, num_labels=units)
    whole = {place: shape for place, shape in places.items() if place in read}  # not the updates
    problems = tensor_problems(whole, config, units) + limit_problems(conventions, config, rows)
    return [f"{adapter}: {problem}" for problem in problems]


def describe_weights(
    found: Description, folder: Path, config: Config, conventions: AnyConventions | None
) -> None:
    """Fill in the weights of a whole model, and what is unused and missing."""
    problems = [f"{folder / 'config.json'}: {problem}" for problem in config_problems(config)]
    if not (folder / "config.json").exists():
        problems = [f"{folder}: no config.json"]
    file = folder / "model.safetensors"
    if not file.exists():
        problems.append(_no_weights(folder))
        found.problems += problems
        return
    read = tried(file_facts, file, problems=problems)
    if read is None:
        found.problems += problems
        return
    shapes, facts = read
    family = tried(family_of, config, problems=[])  # an unknown one is among the problems already
    files = family and family.files
    named = files.canonical_names(shapes) if files else Named({}, [], [])
    places = {place: shapes[source.name] for place, source in named.found.items()}
    found.weights = {
        **facts,
        "parameters": sum(prod(shape) for shape in places.values()),
        "segment_rows": files and places.get(files.SEGMENTS, (None,))[0],
        "head_units": files and places.get(files.HEADS[0], (None,))[0],
    }
    if not problems and conventions is not None:
        names = {place: source.name for place, source in named.found.items()}
        problems += _describe_tensors(found, file, config, conventions, places, names)
        unused = named.unused
        if isinstance(conventions, PretrainedConventions):
            unused = family_of(config).pretraining.canonical_names(unused).unused
        found.unused = sorted([*(found.unused or []), *unused])
    found.problems += problems


def _describe_tensors(
    found: Description,
    file: Path,
    config: Config,
    conventions: AnyConventions,
    places: Mapping[str, Shape],
    names: Mapping[str, str],
) -> list[str]:
    """Fill in unused and missing tensors; returns the problems with these settings."""
    pair = conventions if isinstance(conventions, PairConventions) else None
    units = units_of(conventions)
    files = family_of(config).files
    expected = files.expected_shapes(config, num_labels=units)
    used = set(expected)
    if isinstance(conventions, PretrainedConventions):
        used |= set(files.POOLER)
    found.unused = [names[place] for place in places if place not in used]
    prefixed = not isinstance(conventions, Conventions)
    found.missing = [
        files.saved_name(p, head=prefixed) for p in sorted(set(expected) - set(places))
    ]
    problems = []
    if isinstance(conventions, PretrainedConventions):
        problems = _describe_heads(found, file, config)
    rows = places.get(files.SEGMENTS, (0, 0))[0]
    if pair is not None and pair.kind == "duo" and rows:
        config = {**config, "type_vocab_size": rows}
    problems += [f"{file}: {p}" for p in tensor_problems(places, config, units)]
    return problems + [f"{file.parent}: {p}" for p in limit_problems(conventions, config, rows)]


def _describe_heads(found: Description, file: Path, config: Config) -> list[str]:
    """The heads of a pre-training, which a body's tensors do not have; its problems."""
    heads, shapes = family_of(config).pretraining, tensor_shapes(file)
    known = heads.canonical_names(shapes).found
    of_heads = {place: shapes[source.name] for place, source in known.items()}
    needed = heads.shapes(config, next_sentence=False)
    found.missing = [*(found.missing or []), *(name for name in needed if name not in of_heads)]
    return [f"{file}: {p}" for p in pretraining_problems(of_heads, config)]


def _no_weights(folder: Path) -> str:
    pickles = sorted(p.name for p in folder.iterdir() if p.suffix in (*PICKLES, ".npz"))
    found = f"found {', '.join(pickles)}" if pickles else "found none"
    return (
        f"{folder}: expected model.safetensors, {found}; convert it: "
        f"raypipe model convert {folder} --out DIR"
    )


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
        _describe_settings(found, discovered)
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
    _describe_tokenizer(found, folder, config)
    conventions = discovered.conventions if discovered else None
    if named == folder:
        describe_weights(found, folder, config, conventions)
    else:
        describe_adapter(found, named, folder, config, conventions)
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


def _describe_settings(found: Description, discovered: Discovered) -> None:
    found.kind = discovered.conventions.kind
    found.conventions = asdict(discovered.conventions)
    found.sources = discovered.sources
    found.notes += discovered.notes


def _describe_tokenizer(found: Description, folder: Path, config: Config) -> None:
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
