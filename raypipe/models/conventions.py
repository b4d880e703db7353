"""A model's conventions as data: what its weights expect and its numbers mean."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from raypipe.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class Conventions:
    """How an encoder is fed and read; part of the fingerprint."""

    kind: str
    """encoder; mono and duo models come with scoring."""
    pooling: str
    """mean over all tokens, [CLS] and [SEP] included, or cls."""
    normalise: bool
    """Whether embeddings have length 1."""
    query_segment: int
    passage_segment: int
    query_limit: int
    """Word pieces of a query, specials not counted."""
    passage_limit: int
    """Word pieces of a passage, specials not counted."""
    query_prefix: str = ""
    passage_prefix: str = ""
    start_weights_saw: str = "not stated"
    """What training the weights have seen, for tables; not part of the fingerprint."""

    def to_json(self) -> dict[str, Any]:
        """What a fingerprint holds."""
        body = asdict(self)
        del body["start_weights_saw"]
        return body

    def limit(self, side: str) -> int:
        """Word pieces kept of a query or passage."""
        return self.query_limit if side == "query" else self.passage_limit

    def segment(self, side: str) -> int:
        """Segment id of every token of a query or passage."""
        return self.query_segment if side == "query" else self.passage_segment

    def prefix(self, side: str) -> str:
        """Text put before a query or passage."""
        return self.query_prefix if side == "query" else self.passage_prefix


PRESETS = {
    # Zhan et al. 2020 and its code: limits count pieces before specials, passages are segment 1.
    "repbert": Conventions(
        kind="encoder",
        pooling="mean",
        normalise=False,
        query_segment=0,
        passage_segment=1,
        query_limit=20,
        passage_limit=256,
        start_weights_saw="MS MARCO passages (RepBERT's own training)",
    ),
    # all-MiniLM-L6-v2: 256 tokens with specials on both sides.
    "minilm": Conventions(
        kind="encoder",
        pooling="mean",
        normalise=True,
        query_segment=0,
        passage_segment=0,
        query_limit=254,
        passage_limit=254,
        start_weights_saw="1B pairs, MS MARCO, S2ORC and Simple Wikipedia among them",
    ),
}


def conventions_of(folder: Path, preset: str | None) -> Conventions:
    """From the named preset, else from `raypipe.json` beside the weights.

    Raises:
        InputError: neither says them, the preset is unknown, or the file has wrong fields.
    """
    if preset is not None:
        if preset not in PRESETS:
            near = get_close_matches(preset, PRESETS, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise InputError(f"preset {preset!r}: expected one of {', '.join(PRESETS)}{hint}")
        return PRESETS[preset]
    path = folder / "raypipe.json"
    if not path.exists():
        raise InputError(
            f"{folder}: nothing says this model's conventions (pooling, segments, limits). Name a "
            f"preset ({', '.join(PRESETS)}) or put a raypipe.json beside the weights"
        )
    return _from_file(path)


def _from_file(path: Path) -> Conventions:
    try:
        body: Mapping[str, Any] = json.loads(path.read_bytes())
        found = Conventions(**body)
    except (ValueError, TypeError) as error:
        known = ", ".join(field.name for field in fields(Conventions))
        raise InputError(f"{path}: {error}; expected a JSON object with {known}") from error
    problems = []
    if found.kind != "encoder":
        problems.append(f"{path}: kind: expected encoder, found {found.kind!r}")
    if found.pooling not in ("mean", "cls"):
        problems.append(f"{path}: pooling: expected mean or cls, found {found.pooling!r}")
    for name in ("query_limit", "passage_limit"):
        if not isinstance(getattr(found, name), int) or getattr(found, name) < 1:
            problems.append(f"{path}: {name}: expected a count of word pieces")
    if problems:
        raise InputError(problems)
    return found
