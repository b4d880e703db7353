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
from typing import Any, NamedTuple

from raypipe.errors import InputError
from raypipe.models.family import FAMILIES, UNSTATED
from raypipe.models.folder.modules import LATE, ModelFiles, as_saved, modular_head
from raypipe.models.folder.sentence_transformers import (
    STATED,
    Evidence,
    read_cross_encoder,
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
    conventions_from,
    preset_named,
    settings_problems,
)
from raypipe.models.tensors import Config, is_reranker

WEIGHTS = "model.safetensors"
RECORD = "made_by"
"""The key of raypipe.json for how the weights were made."""
BASE = "base"
"""The key of raypipe.json that names an adapter's base model."""
RECIPE = "the recipe's settings"
"""The source of what `models.NAME.settings` says."""
LIKE_CONTRIEVER = (
    '{"kind": "encoder", "pooling": "mean", "normalise": false, "query_segment": 0, '
    '"passage_segment": 0, "query_limit": 254, "passage_limit": 254}'
)
NO_UNICOIL = "uniCOIL is not supported; of sparse models SPLADE is, with the preset splade"
PREFIXES = ("query_prefix", "passage_prefix")
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Discovered:
    """Settings, and the source of each field."""

    conventions: AnyConventions
    sources: dict[str, str]
    notes: list[str]
    """Notes on these settings for the user."""


def discover(
    files: ModelFiles, preset: str | None, *, settings: Mapping[str, Any] | None = None
) -> Discovered:
    """The settings from a preset, from raypipe.json, or from the folder's own files.

    Args:
        files: the folder's, config.json among them.
        preset: a preset's name; then the folder's own settings are not looked at.
        settings: those of a recipe, keys of raypipe.json that override all others.

    Raises:
        InputError: there are no settings, a field is open, raypipe cannot compute the model, or the
            preset or raypipe.json is wrong; all problems together. Or an encoder of a family that
            is trained with prompts, and nothing says which this one has.
    """
    folder, config = files.folder, as_saved(files)
    named = (preset, (settings or {}).get("pooling"), config.get("architectures"))
    if "unicoil" in str(named).lower():
        raise InputError(f"{folder}: {NO_UNICOIL}")
    given, sources = given_settings(files, preset, settings)
    own = None if preset is not None or _complete(given) else _evidence(files)
    if own is not None and own.by_library is not None:
        raise InputError(
            f"{folder}: {own.by_library}: sentence-transformers computes this model from the "
            "folder as it is, and raypipe does not"
        )
    if own is None or given.get("kind", own.values.get("kind")) != own.values.get("kind"):
        path, of_recipe = folder / "raypipe.json", "models.NAME.settings of the recipe"
        places = [
            *([path] if preset is None and path.exists() else ()),
            *[of_recipe] * bool(settings),
        ]
        if preset is None and not places:
            raise InputError(
                f"{folder}: nothing says which settings this model has (pooling, segments, "
                f"limits). Name a preset ({', '.join(PRESETS)}) or put a raypipe.json beside the "
                f"weights, for an encoder such as Contriever {LIKE_CONTRIEVER}; {DOCUMENTED}"
            )
        conventions = conventions_from(given, " and ".join(map(str, places)))
        every = dict.fromkeys(asdict(conventions), "default") | sources
        return with_known_prompts(folder, config, Discovered(conventions, every, []))
    combined = _combine(folder, given, own)
    combined.sources.update(dict.fromkeys(settings or (), RECIPE))
    return with_known_prompts(folder, config, combined)


def given_settings(
    files: ModelFiles, preset: str | None, settings: Mapping[str, Any] | None
) -> tuple[dict[str, Any], dict[str, str]]:
    """(settings, source of each) of a preset or raypipe.json, and of a recipe, which override them.

    Raises:
        InputError: the preset is unknown, or raypipe.json is no JSON object.
    """
    if preset is not None:
        given, source = asdict(preset_named(preset)), f"preset {preset}"
    else:
        given, source = files.read("raypipe.json"), "raypipe.json"
        given = {name: value for name, value in given.items() if name not in (RECORD, BASE)}
    of_recipe = dict(settings or {})
    return given | of_recipe, dict.fromkeys(given, source) | dict.fromkeys(of_recipe, RECIPE)


def own_settings(files: ModelFiles) -> AnyConventions | None:
    """The settings that the folder's own files state, whatever its raypipe.json or a recipe says;
    None if they are not sentence-transformers', leave a setting open, or are the library's."""
    try:
        own = _evidence(files)
        if own is None or own.by_library is not None:
            return None
        return _combine(files.folder, {}, own).conventions
    except InputError:
        return None


def why_library(
    files: ModelFiles, preset: str | None, settings: Mapping[str, Any] | None = None
) -> str | None:
    """The reason why sentence-transformers computes a folder's model; None if raypipe does.

    raypipe computes what it has the architecture, the modules and the inputs of. A folder whose
    files cannot be read is refused by whoever reads them.
    """
    try:
        inner, config, stated = files.transformer, as_saved(files.transformer), files.settings
        given, _ = given_settings(files, preset, settings)
    except InputError:
        return None
    kind, late = config.get("model_type", UNSTATED), stated.get("model_type") in LATE
    if late or "HF_ColBERT" in str(config.get("architectures")):
        return "it is a model of late interaction"
    if not config:
        return "its first module is no transformer" if files.modules else None
    if not isinstance(kind, str) or kind not in FAMILIES:
        return f"model_type {kind!r} is not among raypipe's own ({', '.join(FAMILIES)})"
    family = FAMILIES[kind]
    if variant := family.files.unpacked(config):
        return "; ".join(variant)
    no_words = None if family.predicts_words else f"a masked-word head of {kind}"
    if no_words and given.get("pooling") in OF_WORDS:
        return no_words
    if preset is not None or _complete(given):
        return None
    has_weights = (inner.folder / WEIGHTS).exists()
    if inner is not files and has_weights:
        return (
            f"its transformer lies in {inner.folder.name}; raypipe model convert writes a folder "
            "that raypipe computes itself, which is faster"
        )
    if (inner.folder / f"{WEIGHTS}.index.json").exists() and not has_weights:
        return "its weights are in parts"
    try:
        own = _evidence(files)
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
    prompts = known_prompts(hub_name or "")
    if prompts is not None:
        where = f"known of {hub_name} ({prompts.source})"
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


def _complete(given: dict[str, Any]) -> bool:
    """Whether raypipe.json has every field without a default."""
    needed = fields(KINDS.get(str(given.get("kind")), Conventions))
    return all(f.name in given for f in needed if f.default is MISSING)


def _evidence(files: ModelFiles) -> Evidence | None:
    if files.is_sentence_transformer and modular_head(files, files.config) is None:
        return read_sentence_transformer(files)
    if is_reranker(as_saved(files)):
        return read_cross_encoder(files)
    return None


def _combine(folder: Path, given: dict[str, Any], own: Evidence) -> Discovered:
    mono = own.values.get("kind") == "mono"
    open_keys = {name: why for name, why in own.problems.items() if name not in given}
    problems = [
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


class Prompts(NamedTuple):
    """The texts before a query and before a passage, and their source."""

    query: str
    passage: str
    source: str


_BGE = "Represent this sentence for searching relevant passages: "
_BGE_ZH = "为这个句子生成表示以用于检索相关文章："  # noqa: RUF001
_QWEN3 = (
    "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery:"
)
KNOWN = {
    r"intfloat/e5-SIZE(-v2)?": Prompts("query: ", "passage: ", "arXiv 2212.03533"),
    r"intfloat/multilingual-e5-SIZE": Prompts("query: ", "passage: ", "arXiv 2402.05672"),
    r"BAAI/bge-SIZE-en(-v1\.5)?": Prompts(_BGE, "", "arXiv 2309.07597"),
    r"BAAI/bge-SIZE-zh(-v1\.5)?": Prompts(_BGE_ZH, "", "arXiv 2309.07597"),
    r"BAAI/bge-m3": Prompts("", "", "arXiv 2402.03216"),
    r"thenlper/gte-SIZE(-zh)?": Prompts("", "", "arXiv 2308.03281"),
    r"Alibaba-NLP/gte-modernbert-base": Prompts("", "", "arXiv 2407.19669"),
    r"Qwen/Qwen3-Embedding-(0\.6B|4B|8B)": Prompts(_QWEN3, "", "arXiv 2506.05176"),
}
"""Prompts, as papers and models' cards have them, by patterns of the hub's names."""


def known_prompts(hub_name: str) -> Prompts | None:
    """The prompts of a model of the hub; None if they are not known."""
    for pattern, prompts in KNOWN.items():
        names = pattern.replace("SIZE", "(small|base|large)")
        if re.fullmatch(names, hub_name, re.IGNORECASE):
            return prompts
    return None


def family_that_asks(names: Sequence[str]) -> str | None:
    """The first family that a name belongs to, if its models need to say their prompts."""
    found = ASKED.search(" ".join(names))
    return None if found is None else found[1].lower()


def hub_name_of(folder: Path) -> str | None:
    """OWNER/NAME, or NAME, of a folder in huggingface_hub's own cache; None of any other."""
    if folder.parent.name != "snapshots":
        return None
    found = CACHED.fullmatch(folder.parents[1].name)
    return None if found is None else "/".join(part for part in found.groups() if part)
