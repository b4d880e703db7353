"""A model folder's settings with their sources: a preset, raypipe.json, or the folder's files.

The folder's own files are sentence-transformers' (modules.json) or a cross-encoder's config.json;
if they leave a field open, the error names it; nothing is guessed. A raypipe.json may give just
such fields: it overrides the files.
"""

from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from raypipe.errors import InputError
from raypipe.models.folder.conventions import AnyConventions, Conventions, PairConventions
from raypipe.models.folder.cross_encoder import read_cross_encoder
from raypipe.models.folder.evidence import Evidence, read_object
from raypipe.models.folder.presets import KINDS, PRESETS, conventions_of, conventions_problems
from raypipe.models.folder.sentence_transformers import (
    is_sentence_transformer,
    read_sentence_transformer,
)
from raypipe.models.folder.settings_keys import DOCUMENTED
from raypipe.models.hub.prompts import family_that_asks, hub_name_of, known_prompts
from raypipe.models.t5.files import no_prompt, reads_prompts
from raypipe.models.units import is_reranker
from raypipe.models.whole import DECODERS
from raypipe.storage.records import hash_once

RECORD = "made_by"
"""The key of raypipe.json for how the weights were made."""
BASE = "base"
"""The key of raypipe.json that names an adapter's base model."""
RECIPE = "the recipe's settings"
"""The source of what `models.NAME.settings` says."""
PREFIXES = ("query_prefix", "passage_prefix")


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
    told = settings or {}
    config = read_object(folder / "config.json")
    given = {**(_given(folder) if preset is None else {}), **told}
    complete = preset is not None or _complete(given)
    own = None if complete else _evidence(folder, config)
    if own is None and not complete:
        if not given:
            _refuse_decoder(folder, config)
        if reads_prompts(config):
            raise InputError(f"{folder}: {_of_prompts(config)}")
    if own is None or given.get("kind", own.values.get("kind")) != own.values.get("kind"):
        found = conventions_of(folder, preset, settings=told)
        named = f"preset {preset}"
        sources = {
            name: named if preset else "raypipe.json" if name in given else "default"
            for name in asdict(found)
        }
        found_all = Discovered(found, sources | dict.fromkeys(told, RECIPE), [])
    else:
        found_all = _combine(folder, given, own)
        found_all.sources.update(dict.fromkeys(told, RECIPE))
    _check_prompt(folder, config, found_all.conventions)
    return _prompted(folder, config, found_all)


def _refuse_decoder(folder: Path, config: Mapping[str, Any]) -> None:
    """Returns nothing if the model is no decoder, which may have been trained for anything.

    Raises:
        InputError: it is one.
    """
    kind = config.get("model_type")
    if kind in DECODERS:
        raise InputError(
            f"{folder}: model_type {kind}: a decoder, and nothing says that its states are "
            "embeddings: expected a modules.json with Pooling, or a raypipe.json of kind encoder, "
            "found neither; decoders that score, such as Qwen3-Reranker, are not computed; "
            f"{DOCUMENTED}"
        )


def _check_prompt(folder: Path, config: Mapping[str, Any], found: AnyConventions) -> None:
    """Returns nothing if settings have a prompt where the architecture reads one, and only there.

    Raises:
        InputError: one of them does and the other does not.
    """
    has = _has_prompt(found)
    if has and config and not reads_prompts(config):
        raise InputError(f"{folder}: {no_prompt(config)}")
    if not has and reads_prompts(config):
        raise InputError(f"{folder}: kind {found.kind} without a prompt: {_of_prompts(config)}")


def _has_prompt(found: AnyConventions) -> bool:
    return isinstance(found, PairConventions) and found.prompt is not None


def _of_prompts(config: Mapping[str, Any]) -> str:
    """What a model that reads prompts needs."""
    known = (p for p, c in PRESETS.items() if _has_prompt(c))
    return (
        f"model_type {config['model_type']} scores a prompt, and is neither trained nor an encoder "
        f"here; name a preset ({', '.join(known)}), or put kind, prompt, answers, relevant_label, "
        f"score and limits in a raypipe.json beside the weights; {DOCUMENTED}"
    )


def _prompted(folder: Path, config: Mapping[str, Any], found: Discovered) -> Discovered:
    """An encoder's settings with the prompts that are known of it, if its files say none.

    Raises:
        InputError: they are not known, and models of its family need them.
    """
    own = found.conventions
    stated = [name for name in PREFIXES if found.sources.get(name) in ("raypipe.json", RECIPE)]
    if not isinstance(own, Conventions) or stated or own.query_prefix or own.passage_prefix:
        return found
    hub_name = hub_name_of(folder.absolute())
    weights = folder / "model.safetensors"
    known = known_prompts(hub_name, hash_once(weights) if weights.is_file() else "")
    if known is not None:
        key, prompts = known
        where = f"known of {key} ({prompts.source})"
        changed = replace(own, query_prefix=prompts.query, passage_prefix=prompts.passage)
        sources = found.sources | dict.fromkeys(PREFIXES, where)
        return Discovered(changed, sources, found.notes)
    name = config.get("_name_or_path")
    family = family_that_asks([hub_name or folder.absolute().name, str(name)])
    if family is None:
        return found
    raise InputError(
        f"{folder}: query_prefix, passage_prefix: models of the family {family} are trained with "
        "text in front of queries and passages, and neither the folder nor raypipe's table says "
        'which; put "query_prefix" and "passage_prefix" in a raypipe.json beside the weights, or '
        f'in the recipe under models.NAME.settings, "" for none; {DOCUMENTED}'
    )


def _given(folder: Path) -> dict[str, Any]:
    body = read_object(folder / "raypipe.json")
    return {name: value for name, value in body.items() if name not in (RECORD, BASE)}


def _complete(given: dict[str, Any]) -> bool:
    """Whether raypipe.json has every field without a default."""
    needed = fields(KINDS.get(str(given.get("kind")), Conventions))
    return all(f.name in given for f in needed if f.default is MISSING)


def _evidence(folder: Path, config: Mapping[str, Any]) -> Evidence | None:
    if is_sentence_transformer(folder):
        return read_sentence_transformer(folder)
    if is_reranker(config):
        return read_cross_encoder(folder)
    return None


def _combine(folder: Path, given: dict[str, Any], own: Evidence) -> Discovered:
    mono = own.values.get("kind") == "mono"
    known = [field.name for field in fields(PairConventions if mono else Conventions)]
    file = folder / "raypipe.json"
    problems = list(own.refusals)
    for name in given:
        if name not in known:
            problems.append(f"{file}: {name}: expected one of {', '.join(known)}")
    for name, why in own.problems.items():
        if name not in given:
            problems.append(f"{folder}: {name}: {why}; {_remedy(name, mono)}")
    if problems:
        raise InputError(problems)
    values = {**own.values, **given}
    found = PairConventions(**values) if mono else Conventions(**values)
    wrong = conventions_problems(found)
    if wrong:
        raise InputError([f"{folder}: {problem}" for problem in wrong])
    sources = dict.fromkeys(asdict(found), "default") | own.sources
    sources |= dict.fromkeys(given, "raypipe.json")
    notes = [n for n in own.notes if "normalise" not in given]
    return Discovered(found, sources, notes)


def _remedy(name: str, mono: bool) -> str:
    kind = "mono" if mono else "encoder"
    # One with a prompt is of an architecture that has no such files.
    named = ", ".join(p for p, c in PRESETS.items() if c.kind == kind and not _has_prompt(c))
    return (
        f'put "{name}" in a raypipe.json beside the weights, or name a preset ({named}); '
        f"{DOCUMENTED}"
    )
