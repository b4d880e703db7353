"""Models that sentence-transformers opens and computes: all that raypipe does not compute itself.

The library reads the folder: modules, pooling, prompts, chat template, tokenizer, limits; see
`library_open`. Here are its settings under raypipe's names, and the hash of its files.

Such a model reads texts. Stages pass them as UTF-8 in the place of word pieces.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from raypipe.errors import InputError, shown
from raypipe.models.folder.discover import Discovered, given_settings, with_known_prompts
from raypipe.models.folder.files import LOWER, part_of, unread_weights
from raypipe.models.folder.modules import EMBEDDING, ROUTES, SETTINGS, ModelFiles
from raypipe.models.folder.sentence_transformers import (
    POOLINGS,
    SCORES,
    SPLADE_POOLING,
    STATED,
    finishing_notes,
    prompt_notes,
    similarity_problems,
)
from raypipe.models.folder.settings import (
    BY_LIBRARY,
    BY_LIBRARY_SPARSE,
    SPLADE,
    SPLADE_LOG,
    AnyConventions,
    Conventions,
    PairConventions,
    settings_problems,
    units_of,
)
from raypipe.models.library_class import CLASSES, LATE_CLASS, PROMPTED, class_of
from raypipe.models.library_open import explained, open_by_library
from raypipe.models.tokenizer import beyond_table
from raypipe.regular import check_fetched
from raypipe.storage.records import canonical, digest, hash_once

READ = (
    *(".json", ".safetensors", ".txt", ".model", ".jinja", ".metadata"),
    *(".bpe", ".tiktoken", ".vocab", ".spm"),
)
"""Endings of the files that may decide a row's value."""
NOT_READ = ("raypipe.json", "README.md")
"""Names of files of which only the settings count, which stand in a fingerprint themselves."""
PLACE = re.compile(r"(?:query_|document_)?\d+_\w+|additional_chat_templates")
"""The name of a module's folder, and of one that transformers saves in it."""
PICKLE = re.compile(r"(?:pytorch|adapter)_model.*\.bin")
NO_LIMIT = 1 << 20
"""Tokens of an input where neither tokenizer nor positions have a limit."""
MANY_WORDS = 32
SIDES = {"query": "query", "passage": "document"}
"""The library's names of prompts by side."""


def described(
    files: ModelFiles, preset: str | None, settings: Mapping[str, Any] | None = None
) -> tuple[Discovered, Mapping[str, Any], str]:
    """(settings with their sources, facts of the model, hash of its files) of a folder.

    Raises:
        InputError: as in `library_model`.
    """
    given, sources = given_settings(files, preset, settings)
    sha256 = hash_of(files.folder)
    # NaN, which JSON files may hold, is told with the other settings that no model has.
    conventions, read = _described(files.folder, sha256, json.dumps(given, sort_keys=True))
    every = dict.fromkeys(asdict(conventions), "sentence-transformers")
    named = [(side, name) for side, name in SIDES.items() if name in files.prompts]
    every |= {f"{side}_prefix": f"{SETTINGS}{STATED}{name}" for side, name in named}
    stated = files.settings.get("similarity_fn_name")
    notes = finishing_notes(getattr(conventions, "normalise", True), stated)
    notes += prompt_notes(files) if isinstance(conventions, Conventions) else []
    found = Discovered(conventions, every | sources, notes)
    return with_known_prompts(files.folder, files.config, found), read, sha256


@lru_cache(maxsize=16)
def _described(
    folder: Path, sha256: str, settings: str
) -> tuple[AnyConventions, Mapping[str, Any]]:
    """(settings, facts of the model); an invocation asks several times, and opening takes time."""
    given, files = json.loads(settings), ModelFiles(folder)
    name, inner = class_of(files, given), files.transformer
    if "model_type" in inner.config and (others := unread_weights(inner.folder)):
        raise InputError(others)
    bare = None if (folder / "modules.json").exists() else given.get("pooling")
    prompted = _checked(PairConventions, given, folder) if name == PROMPTED else None
    model = open_by_library(folder, name, prompted or bare, "meta")
    _check_counts(model, folder)
    if prompted is None:
        _refuse_unread(model, name, folder)
    conventions = prompted or _conventions(model, name, given, folder)
    if prompted is None:
        _refuse_beyond_table(model, folder)
    read: dict[str, Any] = {"class": name, "pooling": bare, "dim": _dim(model, conventions, folder)}
    versions = {each: version(each) for each in ("sentence-transformers", "transformers")}
    return conventions, read | versions


def hash_of(folder: Path) -> str:
    """The hash of all files that the library may read, in the folder and those of its modules.

    Raises:
        InputError: tensors are in a pickle alone.
    """
    places = {folder, *(folder / place for _, place in ModelFiles(folder).modules)}
    places |= {route for place in places for route in _routes(ModelFiles(place))}
    files = [
        file
        for file in sorted(folder.rglob("*"))
        if (file.is_file() or file.is_fifo())  # which is refused below; the library would wait
        and (
            file.parent in places
            or all(map(PLACE.fullmatch, file.parent.relative_to(folder).parts))
        )
    ]
    safe = {file.parent for file in files if file.suffix == ".safetensors"}
    alone = [f for f in files if PICKLE.fullmatch(f.name) and f.parent not in safe]
    if alone:
        raise InputError(
            f"{alone[0]}: expected safetensors, found a pickle, which can run code. Where you "
            "trust it, open it with the class of sentence-transformers that made it, and save it "
            "anew: MODEL.save_pretrained(DIR) writes safetensors"
        )
    read = [file for file in files if file.suffix in READ and file.name not in NOT_READ]
    for file in read:
        check_fetched(file, "a file of a model")
    return digest(canonical({str(file.relative_to(folder)): hash_once(file) for file in read}))


def _routes(files: ModelFiles) -> set[Path]:
    """The folders of a Router's modules, whatever its routes are called; none of another module."""
    each = (ROUTES, "config.json")  # the latter of older releases
    types = [part_of(files.read(name), "types", files.folder / name) for name in each]
    return {files.folder / route for routes in types for route in routes}


def _check_counts(model: Any, folder: Path) -> None:
    """Returns nothing if each module's limit and dimensions are counts, where it states them.

    A Router compares those of its routes, whatever they are.

    Raises:
        InputError: one is none.
    """
    from sentence_transformers.base.modules import Router
    from sentence_transformers.base.modules.module import Module

    for each in model.modules():
        if not isinstance(each, Module) or isinstance(each, Router):
            continue
        limit = getattr(each, "max_seq_length", None)
        dim = getattr(each, "get_embedding_dimension", lambda: None)()
        endless = isinstance(limit, float) and limit >= NO_LIMIT  # as transformers writes it
        if not (limit is None or _is_count(limit) or endless):
            raise InputError(
                f"{folder}: {type(each).__name__}: expected a count of tokens as its longest "
                f"input, found {shown(limit)}; correct max_seq_length or model_max_length in its "
                "files"
            )
        if not (dim is None or _is_count(dim)):
            raise _no_dimensions(folder, dim, type(each).__name__)


def _no_dimensions(folder: Path, found: Any, name: str) -> InputError:
    return InputError(
        f"{folder}: expected modules that state the number of their dimensions, found "
        f"{shown(found)}; set it, such as embedding_dimension of {name}"
    )


def _is_count(value: object) -> bool:
    return type(value) is int and value > 0


def _refuse_unread(model: Any, name: str, folder: Path) -> None:
    """Returns nothing if the model reads both sides; a Router without one's route does not.

    Raises:
        InputError: it does not.
    """
    pairs = name == "CrossEncoder"
    for side, task in SIDES.items():
        one, more = ((side, side), {}) if pairs else (side, {"task": task})
        with explained(folder, f"read a {side} as {name}"):
            features = model.preprocess([one], **more)
        if not features.keys() & {"attention_mask", "offsets"}:
            raise InputError(
                f"{folder}: expected a model that reads tokens and their attention_mask, found "
                f"{type(model[0]).__name__} without it; add it to model_input_names in "
                "tokenizer_config.json, or compute with sentence-transformers itself and bring its "
                "embeddings or run"
            )


def _refuse_beyond_table(model: Any, folder: Path) -> None:
    """Returns nothing if each word piece has an embedding, also those that only some texts have.

    Raises:
        InputError: one has none.
    """
    from sentence_transformers.base.modules import Transformer

    for each in model.modules():
        if not isinstance(each, Transformer) or not hasattr(each.tokenizer, "get_vocab"):
            continue
        rows = getattr(each.model.get_input_embeddings(), "num_embeddings", None)
        problems = rows and beyond_table(folder, each.tokenizer.get_vocab(), rows)
        if problems:
            raise InputError(problems)


def _dim(model: Any, conventions: AnyConventions, folder: Path) -> int:
    """Dimensions of an encoder's vectors, for weights of word pieces those of the vocabulary.

    Raises:
        InputError: the modules state no number.
    """
    if not isinstance(conventions, Conventions):
        return 0
    if any(type(module).__name__ == SPLADE_POOLING for module in model.modules()):
        configs: Any = (getattr(module, "config", None) for module in model.modules())
        return next(int(each.vocab_size) for each in configs if hasattr(each, "vocab_size"))
    dim = conventions.truncate_dim or model.get_embedding_dimension()
    if type(dim) is not int:
        raise _no_dimensions(folder, dim, "Pooling")
    return dim


def specials_of(model: Any) -> int:
    """Number of tokens that the tokenizer puts around one text; 0 around those of a table, and of
    one of words, which is not of transformers."""
    if not _limit(model):
        return 0
    added = getattr(model.tokenizer, "num_special_tokens_to_add", None)
    return 0 if added is None else int(added(False))


def _limit(model: Any, task: str | None = None) -> int | None:
    """Tokens of an input: those that the library keeps, if the model has so many positions."""
    stated = longest_of(model, task)
    return min([*[stated] * (stated < NO_LIMIT), *_positions(model)], default=None)


def _positions(model: Any) -> list[int]:
    """Positions of an input, by each table of them."""
    import torch

    tables = [
        table for name, table in model.named_modules() if name.endswith("position_embeddings")
    ]
    return [
        table.num_embeddings - (0 if table.padding_idx is None else table.padding_idx + 1)
        for table in tables
        if isinstance(table, torch.nn.Embedding)
    ]


def longest_of(model: Any, task: str | None) -> int:
    """Tokens that the library keeps of an input of a task (query, document), or of any other."""
    first: Any = next(model.children())
    text = getattr(first, "processing_kwargs", {}).get("text") or {}
    own = text.get("max_length") or getattr(first, f"{task}_length", None)
    return int(min(own or model.max_seq_length or NO_LIMIT, NO_LIMIT))


def _conventions(model: Any, name: str, given: Mapping[str, Any], folder: Path) -> Any:
    """The model's settings under raypipe's names; the given ones come first.

    Raises:
        InputError: a setting is open, wrong, or beyond what the model can read.
    """
    tasks = [None] if name == "CrossEncoder" else SIDES.values()
    lengths = [_limit(model, task) or NO_LIMIT for task in tasks]
    if CLASSES[name] == "encoder":
        return _of_encoder(model, name, given, folder, lengths)
    stated = {"kind": "mono", "query_limit": None, "passage_limit": None}
    own, problems = (_of_late if name == LATE_CLASS else _of_pairs)(
        model, {**stated, "total_limit": max(lengths)}, given, folder
    )
    problems += _long(folder, own.total_limit, max(lengths))
    limits = [each for each in ("query_limit", "passage_limit") if getattr(own, each) is not None]
    if limits and not getattr(model.tokenizer, "is_fast", False):
        problems.append(
            f"{folder}: {', '.join(limits)}: expected none, since {type(model.tokenizer).__name__} "
            "does not say where in a text a word piece ends; remove it, total_limit cuts pairs"
        )
    if problems:
        raise InputError(problems)
    return own


def _of_late(
    model: Any, stated: Mapping[str, Any], given: Mapping[str, Any], folder: Path
) -> tuple[PairConventions, list[str]]:
    """(settings, problems) of a model of late interaction."""
    values = {**stated, "relevant_label": None, "score": "raw", **_prompts(model), **given}
    own: PairConventions = _checked(PairConventions, values, folder)
    problems = (
        []
        if own.relevant_label is None
        else [
            f"{folder}: relevant_label: expected null, as late interaction scores, found "
            f"{own.relevant_label}; remove it"
        ]
    )
    positions = min(_positions(model), default=NO_LIMIT)
    problems += [
        f"{folder}: each query is filled up to {each.query_expansion['length']} tokens, and the "
        f"model has {positions} positions; correct the length of a query in its files"
        for each in model.modules()
        if (getattr(each, "query_expansion", None) or {}).get("length", 0) > positions
    ]
    return own, problems


def _of_pairs(
    model: Any, stated: Mapping[str, Any], given: Mapping[str, Any], folder: Path
) -> tuple[PairConventions, list[str]]:
    """(settings, problems) of a cross-encoder; `predict` puts its default prompt alone before a
    pair."""
    units, activation = model.num_labels, type(model.activation_fn).__name__
    if units > 2:
        raise InputError(
            f"{folder}: expected a head of one or two units, found {units}; score with "
            "sentence-transformers itself and bring its run"
        )
    if units == 1 and activation not in SCORES and "score" not in given:
        raise InputError(
            f"{folder}: score: expected the activation Identity or Sigmoid, found {activation}; "
            'put "score": "raw" in a raypipe.json beside the weights to rank by the logit'
        )
    prompt = model.prompts.get(model.default_prompt_name) or ""
    of_one = {"relevant_label": None, "score": SCORES.get(activation)} if units == 1 else {}
    values = {**stated, "query_prefix": prompt, **of_one, **given}
    own: PairConventions = _checked(PairConventions, values, folder)
    if units == units_of(own):
        return own, []
    return own, [
        f"{folder}: the head has {units} units, the settings (relevant_label: "
        f"{own.relevant_label}) expect {units_of(own)}"
    ]


def _of_encoder(
    model: Any, name: str, given: Mapping[str, Any], folder: Path, lengths: Sequence[int]
) -> Conventions:
    sparse, specials = name == "SparseEncoder", specials_of(model)
    most = {side: length - specials for side, length in zip(SIDES, lengths, strict=True)}
    normalised, pooling = not sparse and _normalises(model), _pooling(model)
    values: dict[str, Any] = {
        "pooling": pooling or "mean",  # until the settings are checked: none may name the library's
        "normalise": normalised and model.truncate_dim is None,  # else it is cut afterwards
        "query_segment": 0,
        "passage_segment": 0,
        **{f"{side}_limit": most[side] for side in SIDES},
        "truncate_dim": None if sparse else model.truncate_dim,
        "max_terms": model.max_active_dims if sparse else None,
        **_prompts(model),
    }
    problems = similarity_problems(folder, model.similarity_fn_name, sparse=sparse)
    own: Conventions = _checked(Conventions, {**values, **given}, folder)
    if "pooling" in given and own.pooling != pooling:
        problems.append(
            f"{folder}: pooling: expected {pooling or 'none'}, since sentence-transformers pools "
            f"as the folder's modules state, found {own.pooling}; remove it"
        )
    own = replace(own, pooling=BY_LIBRARY_SPARSE if sparse else BY_LIBRARY)
    if values["normalise"] and not own.normalise:
        problems.append(f"{folder}: normalise: expected true, as in modules.json, found false")
    width, cut = model.get_embedding_dimension(), own.truncate_dim
    if cut is not None and cut > width:
        problems.append(
            f"{folder}: truncate_dim: expected at most {width}, the embeddings' dimensions, found "
            f"{cut}"
        )
    if segment := max(own.query_segment, own.passage_segment):
        problems.append(
            f"{folder}: query_segment, passage_segment: expected 0, as sentence-transformers gives "
            f"each text alone, found {segment}"
        )
    for side in SIDES:
        problems += _long(folder, own.limit(side) + specials, most[side] + specials)
    problems += [
        f"{folder}: {side}_limit: expected none, since sentence-transformers reads each {side} of "
        f"this model whole, found {own.limit(side)}; remove it"
        for side in SIDES
        if own.limit(side) < most[side] and not _cuts(model, side)
    ]
    if problems:
        raise InputError(problems)
    return own


def _pooling(model: Any) -> str | None:
    """The word for the pooling of all its modules that pool; None if there is none or no word."""
    words = set()
    for each in model.modules():
        if type(each).__name__ == "Pooling":
            words.add(POOLINGS.get(str(each.pooling_mode)))
        if type(each).__name__ == SPLADE_POOLING:
            word = SPLADE if each.activation_function == "relu" else SPLADE_LOG
            words.add(word if each.pooling_strategy == "max" else None)
    return words.pop() if len(words) == 1 else None


def _normalises(model: Any) -> bool:
    """Whether the last module gives embeddings, not something beside them, length 1."""
    last = model[-1]
    places = {getattr(last, f"module_{each}_name", None) for each in ("input", "output")}
    return type(last).__name__ == "Normalize" and places == {EMBEDDING}


def _cuts(model: Any, side: str) -> bool:
    """Whether the library cuts texts of this side as told; those that a table reads it does not."""
    counts: list[int] = [
        model.preprocess(
            ["a " * MANY_WORDS], task=SIDES[side], processing_kwargs={"text": {"max_length": most}}
        )["input_ids"].numel()
        for most in (MANY_WORDS // 2, MANY_WORDS)
    ]
    return counts[0] < counts[1]


def _long(folder: Path, tokens: int, longest: int) -> list[str]:
    problem = f"{folder}: the settings allow {tokens} tokens, the model reads at most {longest}"
    return [f"{problem}; {LOWER}"] if tokens > longest else []


def _prompts(model: Any) -> dict[str, str]:
    """The prompts by which the library's encode_query and encode_document begin a text."""
    return {f"{side}_prefix": model.prompts.get(name) or "" for side, name in SIDES.items()}


def _checked(kinds: Any, values: Mapping[str, Any], folder: Path) -> Any:
    """The settings with these values.

    Raises:
        InputError: they are wrong, or say what the library has no place for.
    """
    problems = settings_problems(kinds, values)
    problems += [
        f"{name}: only for a model that raypipe computes itself; remove it"
        for name in ("first_tokenizer", "segment_row", "query_table")
        if values.get(name)
    ]
    if problems:
        raise InputError([f"{folder}: {problem}" for problem in problems])
    return kinds(**values)
