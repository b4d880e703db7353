"""A model folder's settings with their sources: a preset, raypipe.json, or the folder's files.

The folder's own files are sentence-transformers' (modules.json) or a cross-encoder's config.json;
if they leave a field open, the error names it; nothing is guessed. A raypipe.json may give just
such fields: it overrides the files.

Some encoders were trained with a text in front of queries and passages. If neither the folder's
files nor the table here states it, an error asks for it: without it such a model ranks, and ranks
worse, and nothing shows why.
"""

import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, fields, replace
from functools import cache
from pathlib import Path
from typing import Any

from raypipe.errors import InputError
from raypipe.models.family import FAMILIES, UNSTATED, unpacked
from raypipe.models.folder.cross_encoder import read_cross_encoder
from raypipe.models.folder.files import read_object
from raypipe.models.folder.modular import as_saved, modular_head
from raypipe.models.folder.modules import (
    LATE,
    SETTINGS,
    is_sentence_transformer,
    modules_of,
    transformer_folder,
)
from raypipe.models.folder.sentence_transformers import (
    STATED,
    Evidence,
    read_sentence_transformer,
)
from raypipe.models.folder.settings import (
    DOCUMENTED,
    KINDS,
    OF_WORDS,
    PRESETS,
    AnyConventions,
    Conventions,
    PairConventions,
    conventions_of,
    settings_problems,
)
from raypipe.models.tensors import Config, is_reranker
from raypipe.storage.records import hash_once

WEIGHTS = "model.safetensors"
RECORD = "made_by"
"""The key of raypipe.json for how the weights were made."""
BASE = "base"
"""The key of raypipe.json that names an adapter's base model."""
RECIPE = "the recipe's settings"
"""The source of what `models.NAME.settings` says."""
PREFIXES = ("query_prefix", "passage_prefix")
NO_UNICOIL = "uniCOIL is not supported; of sparse models SPLADE is, with the preset splade"
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Discovered:
    """Settings, and the source of each field."""

    conventions: AnyConventions
    sources: dict[str, str]
    notes: list[str]
    """Notes on these settings for the user."""


def discover(
    folder: Path,
    preset: str | None,
    *,
    settings: Mapping[str, Any] | None = None,
) -> Discovered:
    """The settings from a preset, from raypipe.json, or from the folder's own files.

    Args:
        folder: with config.json, and the weights where they decide.
        preset: a preset's name; then the folder's own settings are not looked at.
        settings: those of a recipe, keys of raypipe.json that override all others.

    Raises:
        InputError: there are no settings, a field is open, raypipe cannot compute the model, or the
            preset or raypipe.json is wrong; all problems together. Or an encoder of a family that
            is trained with prompts, and nothing says which this one has.
    """
    config = as_saved(folder, read_object(folder / "config.json"))
    given, sources = given_settings(folder, preset, settings)
    if given.get("pooling") == "unicoil" or "UniCoil" in str(config.get("architectures")):
        raise InputError(f"{folder}: {NO_UNICOIL}")
    own = None if preset is not None or _complete(given) else _evidence(folder, config)
    if own is not None and own.by_library is not None:
        raise InputError(
            f"{folder}: {own.by_library}: sentence-transformers computes this model from the "
            "folder as it is, and raypipe does not"
        )
    if own is None or given.get("kind", own.values.get("kind")) != own.values.get("kind"):
        conventions = conventions_of(folder, preset, settings=settings)
        every = dict.fromkeys(asdict(conventions), "default") | sources
        return with_known_prompts(folder, config, Discovered(conventions, every, []))
    combined = _combine(folder, given, own)
    combined.sources.update(dict.fromkeys(settings or (), RECIPE))
    return with_known_prompts(folder, config, combined)


def given_settings(
    folder: Path, preset: str | None, settings: Mapping[str, Any] | None
) -> tuple[dict[str, Any], dict[str, str]]:
    """(settings, source of each) of a preset or raypipe.json, and of a recipe, which override them.

    Raises:
        InputError: the preset is unknown, or raypipe.json is no JSON object.
    """
    if preset == "unicoil":
        raise InputError(f"{folder}: {NO_UNICOIL}")
    if preset is not None:
        given, source = asdict(conventions_of(folder, preset)), f"preset {preset}"
    else:
        given, source = _given(folder), "raypipe.json"
    of_recipe = dict(settings or {})
    return given | of_recipe, dict.fromkeys(given, source) | dict.fromkeys(of_recipe, RECIPE)


def own_settings(folder: Path) -> AnyConventions | None:
    """The settings that the folder's own files state, whatever its raypipe.json or a recipe says;
    None if they are not sentence-transformers', leave a setting open, or are the library's."""
    try:
        own = _evidence(folder, as_saved(folder, read_object(folder / "config.json")))
        if own is None or own.by_library is not None:
            return None
        return _combine(folder, {}, own).conventions
    except InputError:
        return None


def why_library(
    folder: Path, preset: str | None, settings: Mapping[str, Any] | None = None
) -> str | None:
    """The reason why sentence-transformers computes a folder's model; None if raypipe does.

    raypipe computes what it has the architecture, the modules and the inputs of. A folder whose
    files cannot be read is refused by whoever reads them.
    """
    try:
        inner, modules = transformer_folder(folder), modules_of(folder)
        config = as_saved(inner, read_object(inner / "config.json"))
        stated = read_object(folder / SETTINGS)
        given, _ = given_settings(folder, preset, settings)
    except InputError:
        return None
    kind, late = config.get("model_type", UNSTATED), stated.get("model_type") in LATE
    if late or "HF_ColBERT" in str(config.get("architectures")):
        return "it is a model of late interaction"
    if not config:
        return "its first module is no transformer" if modules else None
    if not isinstance(kind, str) or kind not in FAMILIES:
        return f"model_type {kind!r} is not among raypipe's own ({', '.join(FAMILIES)})"
    if variant := unpacked(config):
        return "; ".join(variant)
    no_words = None if FAMILIES[kind].predicts_words else f"a masked-word head of {kind}"
    if no_words and given.get("pooling") in OF_WORDS:
        return no_words
    if preset is not None or _complete(given):
        return None
    if inner != folder and (inner / WEIGHTS).exists():
        return (
            f"its transformer lies in {inner.name}; raypipe model convert writes a folder that "
            "raypipe computes itself, which is faster"
        )
    if (inner / f"{WEIGHTS}.index.json").exists() and not (inner / WEIGHTS).exists():
        return "its weights are in parts"
    try:
        own = _evidence(folder, config)
    except InputError:
        return None
    if own is not None and own.values.get("pooling") in OF_WORDS and no_words:
        return no_words
    return None if own is None else own.by_library


def with_known_prompts(folder: Path, config: Config, discovered: Discovered) -> Discovered:
    """An encoder's settings with the prompts that are known of it, if its files say none.

    Raises:
        InputError: they are not known, and models of its family need them.
    """
    own = discovered.conventions
    stated = [name for name in PREFIXES if discovered.sources.get(name) in ("raypipe.json", RECIPE)]
    if not isinstance(own, Conventions) or stated or own.query_prefix or own.passage_prefix:
        return discovered
    hub_name = hub_name_of(folder.absolute())
    weights = folder / "model.safetensors"
    known = known_prompts(hub_name, hash_once(weights) if weights.is_file() else "")
    if known is not None:
        key, prompts = known
        where = f"known of {key} ({prompts.source})"
        changed = replace(own, query_prefix=prompts.query, passage_prefix=prompts.passage)
        sources = discovered.sources | dict.fromkeys(PREFIXES, where)
        return Discovered(changed, sources, discovered.notes)
    name = config.get("_name_or_path")
    family = family_that_asks([hub_name or folder.absolute().name, str(name)])
    if family is None:
        return discovered
    remedy = (
        'put "query_prefix" and "passage_prefix" in a raypipe.json beside the weights, or in the '
        "recipe under models.NAME.settings, or give prompts in Python"
    )
    if all(STATED in discovered.sources.get(name, "") for name in PREFIXES):
        if family not in WITHOUT:
            note = (
                f"the folder states empty prompts, so nothing is put in front of texts, as in "
                f"sentence-transformers; models of the family {family} are mostly trained with "
                f"prompts: if this one is, {remedy}"
            )
            _warn(f"{folder}: {note}")
            discovered.notes.append(note)
        return discovered
    raise InputError(
        f"{folder}: query_prefix, passage_prefix: models of the family {family} are trained with "
        "text in front of queries and passages, and neither the folder nor raypipe's table says "
        f'which; {remedy}, "" for none; {DOCUMENTED}'
    )


@cache
def _warn(text: str) -> None:
    """Warn once in a process: a model's settings are read several times."""
    log.warning("%s", text)


def _given(folder: Path) -> dict[str, Any]:
    body = read_object(folder / "raypipe.json")
    return {name: value for name, value in body.items() if name not in (RECORD, BASE)}


def _complete(given: dict[str, Any]) -> bool:
    """Whether raypipe.json has every field without a default."""
    needed = fields(KINDS.get(str(given.get("kind")), Conventions))
    return all(f.name in given for f in needed if f.default is MISSING)


def _evidence(folder: Path, config: Config) -> Evidence | None:
    if is_sentence_transformer(folder) and modular_head(folder, config) is None:
        return read_sentence_transformer(folder)
    if is_reranker(config):
        return read_cross_encoder(folder)
    return None


def _combine(folder: Path, given: dict[str, Any], own: Evidence) -> Discovered:
    mono = own.values.get("kind") == "mono"
    open_keys = {name: why for name, why in own.problems.items() if name not in given}
    problems = list(own.refusals)
    problems += [
        f"{folder}: {name}: {why}; {_remedy(name, mono)}" for name, why in open_keys.items()
    ]
    kinds, values = PairConventions if mono else Conventions, {**own.values, **given}
    wrong = {each.partition(":")[0]: each for each in settings_problems(kinds, values)}
    problems += [f"{folder / 'raypipe.json'}: {wrong[name]}" for name in wrong if name in given]
    if not problems:
        problems = [f"{folder}: {problem}" for problem in wrong.values()]
    if problems:
        raise InputError(problems)
    conventions = kinds(**values)
    sources = dict.fromkeys(asdict(conventions), "default") | own.sources
    sources |= dict.fromkeys(given, "raypipe.json")
    notes = [n for n in own.notes if "normalise" not in given]
    return Discovered(conventions, sources, notes)


def _remedy(name: str, mono: bool) -> str:
    kind = "mono" if mono else "encoder"
    # One with a prompt is of an architecture that has no such files.
    same = (p for p, c in PRESETS.items() if c.kind == kind and not getattr(c, "prompt", None))
    named = ", ".join(same)
    return (
        f'put "{name}" in a raypipe.json beside the weights, or name a preset ({named}); '
        f"{DOCUMENTED}"
    )


ASKED = re.compile(r"(?<![a-z0-9])(e5|bge|gte|qwen3-embedding)(?![a-z0-9])", re.IGNORECASE)
"""The families whose models differ in their prompts, as names of models have them."""
WITHOUT = ("gte",)
"""Families among these whose models have no prompts unless their files say so."""
CACHED = re.compile(r"models--(?:(.+?)--)?(.+)")
"""The folder of a repository in huggingface_hub's cache; the model is in snapshots/COMMIT."""


@dataclass(frozen=True, slots=True)
class Prompts:
    """The texts before a query and before a passage, and their source."""

    query: str
    passage: str
    source: str


_E5 = Prompts("query: ", "passage: ", "Wang et al. 2022, arXiv 2212.03533; the model's card")
_E5_MANY = Prompts("query: ", "passage: ", "Wang et al. 2024, arXiv 2402.05672; the model's card")
_BGE = Prompts(
    "Represent this sentence for searching relevant passages: ",
    "",
    "Xiao et al. 2023, arXiv 2309.07597; the model's card",
)
_BGE_ZH = Prompts("为这个句子生成表示以用于检索相关文章：", "", _BGE.source)  # noqa: RUF001
_BGE_M3 = Prompts("", "", "Chen et al. 2024, arXiv 2402.03216; the model's card")
_GTE = Prompts("", "", "Li et al. 2023, arXiv 2308.03281; the model's card")
_GTE_MODERN = Prompts("", "", "Zhang et al. 2024, arXiv 2407.19669; the model's card")
_QWEN3 = Prompts(
    "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery:",
    "",
    "Zhang et al. 2025, arXiv 2506.05176; the model's own prompt for queries",
)
_SIZES = ("small", "base", "large")

KNOWN: Mapping[str, Prompts] = {
    **{f"intfloat/e5-{size}": _E5 for size in _SIZES},
    **{f"intfloat/e5-{size}-v2": _E5 for size in _SIZES},
    **{f"intfloat/multilingual-e5-{size}": _E5_MANY for size in _SIZES},
    **{f"baai/bge-{size}-en": _BGE for size in _SIZES},
    **{f"baai/bge-{size}-en-v1.5": _BGE for size in _SIZES},
    **{f"baai/bge-{size}-zh": _BGE_ZH for size in _SIZES},
    **{f"baai/bge-{size}-zh-v1.5": _BGE_ZH for size in _SIZES},
    "baai/bge-m3": _BGE_M3,
    **{f"thenlper/gte-{size}": _GTE for size in _SIZES},
    **{f"thenlper/gte-{size}-zh": _GTE for size in _SIZES},
    "alibaba-nlp/gte-modernbert-base": _GTE_MODERN,
    **{f"qwen/qwen3-embedding-{size}": _QWEN3 for size in ("0.6b", "4b", "8b")},
    # all-MiniLM-L6-v2, by its weights: it was trained without any.
    "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db": Prompts(
        "", "", "the model's card"
    ),
}
"""Prompts by the hub's name of a repository in small letters, or by the SHA-256 of
model.safetensors."""


def known_prompts(hub_name: str | None, weights_sha256: str) -> tuple[str, Prompts] | None:
    """The key in the table and what it says; None if it has neither the name nor the weights."""
    for key in ((hub_name or "").lower(), weights_sha256):
        if key in KNOWN:
            return key, KNOWN[key]
    return None


def family_that_asks(names: Sequence[str]) -> str | None:
    """The first family that a name belongs to, if its models need to say their prompts."""
    for name in names:
        found = ASKED.search(name)
        if found is not None:
            return found[1].lower()
    return None


def hub_name_of(folder: Path) -> str | None:
    """OWNER/NAME, or NAME, of a folder in huggingface_hub's own cache; None of any other."""
    if folder.parent.name != "snapshots":
        return None
    found = CACHED.fullmatch(folder.parents[1].name)
    return None if found is None else "/".join(part for part in found.groups() if part)
