"""The keys of raypipe.json: what each may hold, and how a missing or unknown one is told."""

from collections.abc import Mapping
from dataclasses import MISSING, fields
from difflib import get_close_matches
from typing import Any

from raypipe.models.folder.conventions import (
    SCORES,
    SEGMENT_ROWS,
    AnyConventions,
    Conventions,
    PairConventions,
    PretrainedConventions,
)
from raypipe.text.prompts import DUO_PLACES, MONO_PLACES, prompt_problems
from raypipe.vocabulary import Precision, words

DOCUMENTED = 'docs/commands.md, "Models", says what each key means'
MAX_PREFIX_CHARACTERS = 10_000
"""A longer prefix leaves no room for a text, and is put before every passage in memory."""
LONGEST_NAME = 255
"""Bytes of a file's or folder's name, on the usual file systems."""
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
    steps = found.dense
    if not isinstance(steps, tuple) or not all(map(is_name, steps)):
        problems.append(
            f"dense: expected a list of folders' names, and normalise, found {_shown(steps)}"
        )
    cut = found.truncate_dim
    if cut is not None and (not isinstance(cut, int) or isinstance(cut, bool) or cut < 1):
        problems.append(
            f"truncate_dim: expected a count of dimensions or null, found {_shown(cut)}"
        )
    return problems


def pair_problems(found: PairConventions) -> list[str]:
    """The problems of a reranker's limits, unit and score, and of its prompt if it has one."""
    problems = []
    for name in ("query_limit", "passage_limit"):
        value = getattr(found, name)
        if value is not None and not is_count(value):
            problems.append(f"{name}: expected a count of word pieces or null, found {value!r}")
    problems += _answer_problems(found)
    fewest = 2 * found.num_passages + 3
    if not is_count(found.total_limit) or found.total_limit < fewest:
        problems.append(too_few(found.total_limit, fewest))
    label = found.relevant_label
    if label is not None and (type(label) is not int or label not in (0, 1)):  # true equals 1
        problems.append(f"relevant_label: expected 0, 1 or null, found {label!r}")
    if found.score not in SCORES:
        problems.append(f"score: expected one of {', '.join(SCORES)}, found {found.score!r}")
    if not _is_weight(found.blend):
        problems.append(f"blend: expected a number from 0, found {_shown(found.blend)}")
    if found.segment_row not in (None, *SEGMENT_ROWS):
        problems.append(f"segment_row: expected zero, copy or null, found {found.segment_row!r}")
    if problems:
        return problems
    if found.kind == "duo" and found.score != "probability":
        problems.append(f"score: a duoBERT model's is probability, found {found.score}")
    if found.kind == "duo" and found.blend:
        problems.append(f"blend: only for a monoBERT model, found {found.blend:g}; remove it")
    if found.kind == "duo" and found.query_limit is None:
        problems.append("query_limit: expected a count of word pieces for duoBERT, found null")
    if found.query_limit is None and found.passage_limit is not None:
        problems.append("passage_limit: if the longest text is cut first, a passage has no limit")
    if found.query_limit is not None and found.prompt is None:  # else see `prompt_layout`
        least = found.query_limit + 2 + found.num_passages * (1 + (found.passage_limit or 1))
        if least > found.total_limit:
            problems.append(
                f"total_limit: {found.total_limit} tokens do not hold the other limits, which "
                f"need {least}"
            )
    return problems


def too_few(found: object, fewest: int) -> str:
    """What is said of a total limit that leaves no room for texts."""
    return f"total_limit: expected {fewest} tokens or more, found {found!r}"


def is_name(value: object) -> bool:
    """Whether it is text that a file system can look for."""
    try:
        return isinstance(value, str) and "\0" not in value and len(value.encode()) <= LONGEST_NAME
    except UnicodeEncodeError:  # half of a surrogate pair
        return False


def is_count(value: object) -> bool:
    """Whether it is a whole number from 1 on."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _is_weight(value: object) -> bool:
    """Whether it is a finite number from 0 on."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    return 0 <= value < float("inf")


def _answer_problems(found: PairConventions) -> list[str]:
    """The problems of a prompt, of its answers, and of what such a model does not have."""
    prompt, answers = found.prompt, found.answers
    if prompt is None and answers is None:
        return []
    if not isinstance(prompt, str):
        return [f"prompt: expected text beside answers, found {_shown(prompt)}"]
    places = DUO_PLACES if found.kind == "duo" else MONO_PLACES
    problems = prompt_problems(prompt, places)
    if len(prompt) > MAX_PREFIX_CHARACTERS:
        problems = [f"prompt: expected at most {MAX_PREFIX_CHARACTERS:,} characters"]
    two = isinstance(answers, tuple) and len(answers) == 2
    if not two or not all(isinstance(word, str) for word in answers or ()):
        problems.append(
            f"answers: expected the words of units 0 and 1, found {_shown(answers)}; as in "
            '["false", "true"], with quotes also in YAML'
        )
    elif answers is not None and answers[0] == answers[1]:
        problems.append(f"answers: expected two words, found {answers[0]!r} twice")
    if found.relevant_label is None:
        problems.append("relevant_label: expected 0 or 1, the place in answers, found null")
    without = {"segment_row": found.segment_row, "first_tokenizer": found.first_tokenizer or None}
    problems += [
        f"{name}: only for a BERT's inputs, not for a prompt; remove it"
        for name, value in without.items()
        if value is not None
    ]
    return problems


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
