"""The keys of raypipe.json: what each may hold, and how a missing or unknown one is told."""

from collections.abc import Mapping
from dataclasses import MISSING, fields
from difflib import get_close_matches
from typing import Any

from raypipe.models.folder.conventions import (
    AnyConventions,
    Conventions,
    PairConventions,
    PretrainedConventions,
)
from raypipe.vocabulary import Precision, words

DOCUMENTED = 'docs/commands.md, "Models", says what each key means'
MAX_PREFIX_CHARACTERS = 10_000
"""A longer prefix leaves no room for a text, and is put before every passage in memory."""
_EXPECTED = {
    "pooling": "mean, cls, max or last",
    "normalise": "true or false",
    "query_segment": "a segment id, from 0",
    "passage_segment": "a segment id, from 0",
    "query_limit": "a count of word pieces",
    "passage_limit": "a count of word pieces",
    "total_limit": "a count of tokens",
    "relevant_label": "0, 1 or null",
    "score": "log-probability, probability or raw",
}
"""Of the keys without a default."""


def key_problems(kinds: type[AnyConventions], body: Mapping[str, Any]) -> list[str]:
    """One problem for each key that is missing, and for each that these settings do not have."""
    known = {field.name: field for field in fields(kinds)}
    problems = []
    for name, field in known.items():
        if field.default is MISSING and name not in body:
            null = kinds is PairConventions and name in ("query_limit", "passage_limit")
            expected = _EXPECTED[name] + (" or null" if null else "")
            problems.append(f"{name}: expected {expected}, found nothing; {DOCUMENTED}")
    for name in body:
        if name not in known:
            near = get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]}? " if near else ""
            problems.append(f"{name}: {hint}expected a JSON object with {', '.join(known)}")
    return problems


def plain_problems(found: AnyConventions) -> list[str]:
    """The problems of settings that encoders and rerankers share, and of an encoder's flags."""
    problems = []
    for name in ("query_prefix", "passage_prefix", "start_weights_saw"):
        value = getattr(found, name, "")
        if not isinstance(value, str):
            problems.append(f"{name}: expected text, found {_shown(value)}")
        elif len(value) > MAX_PREFIX_CHARACTERS:
            problems.append(
                f"{name}: expected at most {MAX_PREFIX_CHARACTERS:,} characters, "
                f"found {len(value):,}"
            )
    if isinstance(found, PairConventions) and not isinstance(found.first_tokenizer, bool):
        value = _shown(found.first_tokenizer)
        problems.append(f"first_tokenizer: expected true or false, found {value}")
    if isinstance(found, PretrainedConventions):
        return problems
    if found.precision not in (None, *words(Precision)):
        expected = f"{', '.join(words(Precision))} or null"
        problems.append(f"precision: expected {expected}, found {_shown(found.precision)}")
    if isinstance(found, PairConventions):
        return problems
    problems += _finishing_problems(found)
    if not isinstance(found.normalise, bool):
        problems.append(f"normalise: expected true or false, found {_shown(found.normalise)}")
    for name in ("query_segment", "passage_segment"):
        value = getattr(found, name)
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            problems.append(f"{name}: expected a segment id, from 0, found {_shown(value)}")
    return problems


def _finishing_problems(found: Conventions) -> list[str]:
    problems = []
    if not isinstance(found.dense, tuple) or not all(isinstance(e, str) for e in found.dense):
        problems.append(
            f"dense: expected a list of folders' names, and normalise, found {_shown(found.dense)}"
        )
    cut = found.truncate_dim
    if cut is not None and (not isinstance(cut, int) or isinstance(cut, bool) or cut < 1):
        problems.append(
            f"truncate_dim: expected a count of dimensions or null, found {_shown(cut)}"
        )
    return problems


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
