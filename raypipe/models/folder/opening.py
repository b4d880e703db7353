"""A model folder opened where work is done, and compared with its hashes."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tokenizers import Tokenizer

from raypipe.errors import InputError
from raypipe.models.folder.adapters import CONFIG, WEIGHTS, merge
from raypipe.models.folder.conventions import PairConventions, PretrainedConventions
from raypipe.models.folder.loading import sha256_of_adapted
from raypipe.models.folder.model_folder import ModelFolder
from raypipe.models.hub import snapshot_of
from raypipe.models.t5.files import no_prompt, reads_prompts
from raypipe.models.tokenizer import as_first, read_tokenizer, tokenizer_file, tokenizer_sha256
from raypipe.storage.records import hash_file
from raypipe.text.inputs import Layout, Layouts
from raypipe.text.prompts import PromptLayout, prompt_layout


def here(model: ModelFolder) -> ModelFolder:
    """The model itself; a hub's with this node's own snapshot, which need be on no other node.

    Raises:
        InputError: the hub does not give it here.
    """
    if model.hub is not None:
        model = replace(model, folder=snapshot_of(model.hub))
    if model.adapter_hub is not None:
        model = replace(model, adapter=snapshot_of(model.adapter_hub))
    return model


def open_tokenizer(model: ModelFolder) -> Tokenizer:
    """The tokenizer without truncation and padding; special tokens are added by slicing.

    Raises:
        InputError: it is not the tokenizer that the driver found.
    """
    model = here(model)
    tokenizer = read_tokenizer(model.folder)
    found = tokenizer_sha256(tokenizer)
    if found != model.tokenizer_sha256:
        raise InputError(
            f"{tokenizer_file(model.folder)}: expected the tokenizer with SHA-256 "
            f"{model.tokenizer_sha256}, as at the start, found {found}; every node must "
            "hold the same model folder"
        )
    settings = model.conventions
    first = isinstance(settings, PairConventions) and settings.first_tokenizer
    return as_first(tokenizer) if first else tokenizer


def layouts_of(model: ModelFolder) -> Layouts:
    """How the model's inputs are made: an encoder's `query` and `passage`, a reranker's `pair`.

    Those of a pre-training are `text`, alone, and `pair`.

    Raises:
        InputError: the tokenizer is not the one that the driver found, or lacks a special token.
    """
    tokenizer, found = open_tokenizer(model), model.conventions
    if isinstance(found, PretrainedConventions):
        return {
            "text": layout_of(model, tokenizer, (0,)),
            "pair": layout_of(model, tokenizer, (0, 1)),
        }
    if isinstance(found, PairConventions) and found.prompt is not None:
        return {"pair": prompt_of(model, tokenizer)}
    if isinstance(found, PairConventions):
        return {"pair": layout_of(model, tokenizer, found.segments)}
    sides = ("query", "passage")
    return {side: layout_of(model, tokenizer, (found.segment(side),)) for side in sides}


def layout_of(model: ModelFolder, tokenizer: Tokenizer, segments: Sequence[int]) -> Layout:
    """How inputs with one text per segment are made.

    Raises:
        InputError: the model's tokenizer lacks a special token.
    """
    try:
        return model.family.layout(tokenizer, segments)
    except InputError as error:
        raise InputError([f"{model.folder}: {problem}" for problem in error.problems]) from error


def prompt_of(model: ModelFolder, tokenizer: Tokenizer) -> PromptLayout:
    """How the prompts of a model whose settings have one are made.

    Raises:
        InputError: the model reads no prompt; or see `prompt_layout`.
    """
    found = model.reranker
    assert found.prompt is not None and found.answers is not None
    if not reads_prompts(model.config()):  # an adapter's, whose own folder names no architecture
        raise InputError(f"{model.path}: {no_prompt(model.config())}")
    try:
        return prompt_layout(tokenizer, found.prompt, found.answers, found)
    except InputError as error:
        raise InputError([f"{model.folder}: {problem}" for problem in error.problems]) from error


def load_weights(model: ModelFolder) -> Mapping[str, Any]:
    """Tensors by saved name.

    Raises:
        InputError: the file changed since it was hashed.
    """
    from safetensors.torch import load_file

    model = here(model)
    file = model.folder / "model.safetensors"
    found, named = hash_file(file), str(file)
    if model.adapter is not None:
        parts = [found, hash_file(model.adapter / WEIGHTS), hash_file(model.adapter / CONFIG)]
        found, named = sha256_of_adapted(parts), f"{model.adapter} over {file}"
    if found != model.weights_sha256:
        raise InputError(
            f"{named}: expected weights with SHA-256 {model.weights_sha256}, as at the "
            f"start, found {found}; every node must hold the same model folder"
        )
    tensors = load_file(file)
    return tensors if model.adapter is None else merge(tensors, model.config(), model.adapter)
