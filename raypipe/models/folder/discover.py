"""A model folder's settings with their sources: a preset, raypipe.json, or the folder's files.

The folder's own files are sentence-transformers' (modules.json) or a cross-encoder's config.json;
if they leave a field open, the error names it; nothing is guessed. A raypipe.json may give just
such fields: it overrides the files.
"""

from dataclasses import MISSING, asdict, dataclass, fields
from pathlib import Path
from typing import Any

from raypipe.errors import InputError
from raypipe.models.folder.conventions import AnyConventions, Conventions, PairConventions
from raypipe.models.folder.cross_encoder import is_cross_encoder, read_cross_encoder
from raypipe.models.folder.evidence import Evidence, read_object
from raypipe.models.folder.presets import KINDS, PRESETS, conventions_of, conventions_problems
from raypipe.models.folder.sentence_transformers import (
    is_sentence_transformer,
    read_sentence_transformer,
)

RECORD = "made_by"
"""The key of raypipe.json for how the weights were made."""
BASE = "base"
"""The key of raypipe.json that names an adapter's base model."""


@dataclass(frozen=True, slots=True)
class Discovered:
    """Settings, and the source of each field."""

    conventions: AnyConventions
    sources: dict[str, str]
    notes: list[str]
    """Notes on these settings for the user."""


def discover(folder: Path, preset: str | None) -> Discovered:
    """The settings from a preset, from raypipe.json, or from the folder's own files.

    Raises:
        InputError: there are no settings, a field is open, raypipe cannot compute the model, or the
            preset or raypipe.json is wrong; all problems together.
    """
    given = _given(folder) if preset is None else {}
    own = _evidence(folder) if preset is None and not _complete(given) else None
    if own is None or given.get("kind", own.values.get("kind")) != own.values.get("kind"):
        found = conventions_of(folder, preset)
        named = f"preset {preset}"
        sources = {
            name: named if preset else "raypipe.json" if name in given else "default"
            for name in asdict(found)
        }
        return Discovered(found, sources, [])
    return _combine(folder, given, own)


def _given(folder: Path) -> dict[str, Any]:
    body = read_object(folder / "raypipe.json")
    return {name: value for name, value in body.items() if name not in (RECORD, BASE)}


def _complete(given: dict[str, Any]) -> bool:
    """Whether raypipe.json has every field without a default."""
    needed = fields(KINDS.get(str(given.get("kind")), Conventions))
    return all(f.name in given for f in needed if f.default is MISSING)


def _evidence(folder: Path) -> Evidence | None:
    if is_sentence_transformer(folder):
        return read_sentence_transformer(folder)
    if is_cross_encoder(read_object(folder / "config.json")):
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
    presets = [p for p, c in PRESETS.items() if c.kind == ("mono" if mono else "encoder")]
    named = ", ".join(presets)
    return f'put "{name}" in a raypipe.json beside the weights, or name a preset ({named})'
