"""The proof that a packed model computes what its own library does, made once and kept.

A model is packed if raypipe computes it itself. Before its first row, its inputs and values are
compared with those of sentence-transformers, or of transformers for a bare folder with a preset. A
process of its own does it (`reference`). The result stands beside the stores and in the user's
cache, under a hash of the model's files and settings and of the libraries' versions, and whoever
computes with the model relies on it: workers have the driver's model and versions, which are
compared when they introduce themselves.
"""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any, NamedTuple

from raypipe.driver.mirror import user_cache
from raypipe.driver.signals import child_ended_by_signals, interrupted
from raypipe.errors import CorruptError, InputError
from raypipe.isolation import child_environment, python_command
from raypipe.models.folder.discover import own_settings
from raypipe.models.folder.model_folder import ModelFolder, here, resolve_model
from raypipe.models.folder.modules import ModelFiles, table_of
from raypipe.models.folder.settings import Conventions, PairConventions, PretrainedConventions
from raypipe.models.library import hash_of
from raypipe.package import package_sha256
from raypipe.storage.records import FORMAT, canonical, digest, seal, unseal_format
from raypipe.storage.root import mark_root, open_storage
from raypipe.storage.storage import Storage

UNPROVED = "RAYPIPE_UNPROVED"
"""The environment variable with which models are computed without their proof."""
FOLDER = "proofs"
LIBRARIES = ("sentence-transformers", "transformers", "tokenizers", "torch")
SOURCES = ("driver/proof", "models", "numerics.py", "stages/tokenize.py", "text")
"""The parts of raypipe that decide what a packed model computes, and what is compared."""


class Subject(NamedTuple):
    """A model to prove, with the settings that are compared."""

    model: ModelFolder
    own: bool
    """Whether sentence-transformers opens the folder by itself; otherwise transformers opens the
    weights, and the settings build the inputs."""

    @property
    def library(self) -> str:
        """The library that the model is compared with, and its version."""
        name = LIBRARIES[0] if self.own else LIBRARIES[1]
        return f"{name} {_version(name)}"


@dataclass(frozen=True, slots=True)
class Proof:
    """The result of a comparison."""

    library: str
    inputs: int
    """Texts or pairs whose token ids were compared."""
    values: int
    """Those of them whose values were compared too."""
    largest: float
    """The largest difference of a value."""
    seconds: float
    problem: str
    """The first difference; empty if there is none."""
    characters: int = 0
    """Characters, and strings of the tokenizer's rules, whose token ids were compared too."""
    refused: bool = False
    """Whether the library could not compute the model, perhaps for want of a package."""

    def __str__(self) -> str:
        """`equal to transformers 5.24.0: 312 inputs, 25,455 characters, values of 34 inputs within
        3.1e-07`."""
        if self.problem:
            return f"not as {self.library}: {self.problem}"
        characters = f", {self.characters:,} characters" if self.characters else ""
        return (
            f"equal to {self.library}: {self.inputs} inputs{characters}, values of {self.values} "
            f"inputs within {self.largest:.1e}"
        )


def computable(
    models: Mapping[str, ModelFolder],
    stores: Storage | None = None,
    say: Callable[[str], None] = lambda line: None,
    *,
    make: bool = True,
) -> dict[str, ModelFolder]:
    """The models, by the same keys, as they may be computed: packed ones are proved first.

    It is the one place that decides what becomes of a model whose proof failed: its library
    computes it, where that opens the folder with the same settings.

    Args:
        models: by their keys in a recipe, with which lines and problems begin.
        stores: see `prove`.
        say: gets a line for each proof that is made, and for each model that is the library's.
        make: whether proofs that are not kept are made; else their models stay as they are.

    Raises:
        InputError: models that raypipe would compute otherwise than their libraries do, and that
            sentence-transformers does not compute with these settings.
    """
    if os.environ.get(UNPROVED):
        return dict(models)
    computed, problems = dict(models), list[str]()
    for key, proof in prove(models, stores, say, make=make).items():
        if not proof.problem:
            continue
        other = None if proof.refused else of_library(models[key])
        if other is None:
            problems.append(f"{key}: {otherwise(models[key], proof)}")
            continue
        computed[key] = other
        low = f", in {other.precision}, not in int8" if models[key].precision == "int8" else ""
        say(f"{key}: {LIBRARIES[0]} computes it{low}, since raypipe's own way is {proof}")
    if problems:
        raise InputError(problems)
    return computed


def of_library(model: ModelFolder) -> ModelFolder | None:
    """The same model as sentence-transformers computes it; None if it does not, with its settings.

    What the folder's own files say is the library's to read; other settings are given to it.
    """
    if model.adapter is not None:
        return None
    settings = asdict(model.conventions)
    if (own := own_settings(ModelFiles(model.folder))) is not None:
        stated = asdict(own)
        settings = {name: value for name, value in settings.items() if value != stated.get(name)}
        if settings.keys() & {"kind", "pooling"}:
            return None
    settings.pop("precision", None)
    try:
        other = resolve_model(model.path, settings=settings, by_library=True)
    except InputError:
        return None
    return other.in_precision(model.precision)


def otherwise(model: ModelFolder, proof: Proof) -> str:
    """The sentence about a model that is not computed, since its proof failed."""
    if proof.refused:
        return (
            f"{model.path}: raypipe computes only models that {proof.library} computes too, and "
            f"{proof.problem}"
        )
    return (
        f"{model.path}: raypipe computes this model otherwise than {proof.library} does, and so "
        f"not at all; {proof.problem.rstrip('.')}. Encode or score with the library itself and "
        "bring its embeddings or run, or write its weights anew with `raypipe model convert "
        f"{model.path} --out DIR`, under the names that the library reads"
    )


def shown_proof(path: str, preset: str | None, say: Callable[[str], None]) -> tuple[str, list[str]]:
    """The result of a model folder's proof, which is made if it is not kept, and its problems.

    Raises:
        InputError: the folder is no model.
    """
    model = resolve_model(path, preset)
    if not is_packed(model):
        return "not needed", []
    if os.environ.get(UNPROVED):
        return f"not made, {UNPROVED} is set", []
    proof = prove({path: model}, say=say)[path]
    if not proof.problem:
        return str(proof), []
    if not proof.refused and of_library(model) is not None:
        return f"{proof}; {LIBRARIES[0]} computes it", []
    return str(proof), [otherwise(model, proof)]


def prove(
    models: Mapping[str, ModelFolder],
    stores: Storage | None = None,
    say: Callable[[str], None] = lambda line: None,
    *,
    make: bool = True,
) -> dict[str, Proof]:
    """The proofs of the packed models among these, kept ones or made now by one process.

    Args:
        models: by any key.
        stores: where proofs stand beside the user's cache.
        say: gets a line for each proof that is made.
        make: whether proofs are made; otherwise only kept ones are read, and nothing is written.

    Raises:
        InputError: the process ended without a result.
        Interrupted: a signal ended it.
    """
    subjects = {key: subject_of(model) for key, model in models.items() if is_packed(model)}
    return proofs_of(subjects, stores, say, make=make)


def proofs_of(
    subjects: Mapping[str, Subject],
    stores: Storage | None,
    say: Callable[[str], None],
    *,
    make: bool = True,
) -> dict[str, Proof]:
    """The same of these subjects; see `prove`."""
    names = {key: _name(subject) for key, subject in subjects.items()}
    proofs = {name: proof for name in names.values() if (proof := _kept(name, stores)) is not None}
    if not make:
        return {key: proofs[name] for key, name in names.items() if name in proofs}
    new = {name: key for key, name in reversed(names.items()) if name not in proofs}
    if new:
        for key in new.values():
            say(f"{key}: proving that raypipe computes it as {subjects[key].library} does")
        made = _compared([subjects[key] for key in new.values()])
        for (name, key), proof in zip(new.items(), made, strict=True):
            say(f"{key}: {proof}, in {proof.seconds:.1f} s")
            proofs[name] = proof
    for name, proof in proofs.items():
        if not proof.refused:
            _keep(name, proof, stores)
    return {key: proofs[name] for key, name in names.items()}


def is_packed(model: ModelFolder) -> bool:
    """Whether raypipe computes rows of the model itself."""
    return not (model.by_library or isinstance(model.conventions, PretrainedConventions))


def subject_of(model: ModelFolder) -> Subject:
    """The model with the settings of the folder's own files, or, if they do not have them all, its
    own; both in fp32.

    A setting that a user changes, such as a limit or a prompt, changes no part that is compared.
    """
    model = replace(here(model), hub=None, adapter_hub=None)  # the process asks no hub
    own = None if model.adapter is not None else own_settings(ModelFiles(model.folder))
    if own is not None:
        table = table_of(model.folder, own, model.config())
        model = replace(model, conventions=own, query_table=table)
    settings = model.conventions
    if isinstance(settings, Conventions | PairConventions):
        settings = replace(settings, precision=None)
    if isinstance(settings, PairConventions) and settings.first_tokenizer:
        settings = replace(settings, first_tokenizer=False)  # which no library has
    return Subject(replace(model, conventions=settings), own is not None)


def _name(subject: Subject) -> str:
    """The record's name: a hash of all that decides what is compared."""
    model = subject.model
    folders = [folder for folder in (model.folder, model.adapter) if folder is not None]
    of_adapter = () if model.adapter is None else ("peft",)
    body = {
        "files": [hash_of(folder) for folder in folders],
        "weights": model.weights_sha256,
        "tokenizer": model.tokenizer_sha256,
        "config": model.forward_config(),
        "query_table": model.query_table,
        "settings": model.conventions.to_json(),
        "own": subject.own,
        "versions": {name: _version(name) for name in (*LIBRARIES, *of_adapter)},
        "raypipe": package_sha256(*SOURCES),
    }
    return f"{FOLDER}/{digest(canonical(body))}.json"


@cache
def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def _cache() -> Storage:
    return open_storage(str(user_cache()))


def _kept(name: str, stores: Storage | None) -> Proof | None:
    """A record of this name; one that is damaged, or another version's, is made anew."""
    unusable = (CorruptError, InputError)
    with suppress(OSError, *unusable):
        return _read(_cache(), name)
    with suppress(FileNotFoundError, *unusable):
        return None if stores is None else _read(stores, name)
    return None


def _read(place: Storage, name: str) -> Proof:
    return Proof(**unseal_format(name, place.read(name))["proof"])


def _keep(name: str, proof: Proof, stores: Storage | None) -> None:
    """Write the record where none can be read; a cache that cannot be written is done without."""
    with suppress(OSError, InputError):
        _write(_cache(), name, proof)
    if stores is not None:
        _write(stores, name, proof)


def _write(place: Storage, name: str, proof: Proof) -> None:
    with suppress(FileNotFoundError, CorruptError, InputError):
        _read(place, name)
        return
    mark_root(place)
    place.replace(name, seal({"format": FORMAT, "proof": asdict(proof)}))


def _compared(subjects: Sequence[Subject]) -> list[Proof]:
    """The proofs, by a process of its own."""
    command = python_command("raypipe.driver.proof.reference")
    environment = child_environment() | {"HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": ""}
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with child_ended_by_signals(command, env=environment, **pipes) as child:
        written, errors = child.communicate(pickle.dumps(list(subjects)))
    if -child.returncode in (signal.SIGINT, signal.SIGTERM):
        raise interrupted(-child.returncode)  # Ctrl-C reaches the child too
    if child.returncode != 0:
        last = (errors.decode(errors="replace").strip().splitlines() or ["no message"])[-1]
        named = ", ".join(subject.model.path for subject in subjects)
        raise InputError(
            f"{named}: the process that compares models with their libraries ended with "
            f"{child.returncode}: {last}; {UNPROVED}=1 computes without a proof"
        )
    findings: list[dict[str, Any]] = json.loads(written)
    both = zip(subjects, findings, strict=True)
    return [Proof(library=subject.library, **finding) for subject, finding in both]
