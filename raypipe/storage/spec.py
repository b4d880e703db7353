"""The settings and inputs on which a row's value depends, and the fingerprint of its store."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from raypipe.storage.records import Count, Json, Shape, canonical, digest


@dataclass(frozen=True, slots=True)
class Change:
    """One field in which two specs differ; None if a spec lacks it."""

    field: str
    old: Json
    new: Json

    def __str__(self) -> str:
        """`params.depth 1000 -> 100`, digests shortened to 12 characters."""
        return f"{self.field} {_short(self.old)} -> {_short(self.new)}"


@dataclass(frozen=True, slots=True)
class StageSpec:
    """Everything that a row's value depends on.

    `stage` is the kind of work, and `semantics` the version of its code's output (a golden-bytes
    test enforces increases). `params` has settings and hashes of weights; `inputs` has digests of
    what is read: manifests of upstream stores, or raw content. `produces` is what the store holds
    (passages, a run, vectors, ...). `origins` has the place of each upstream store,
    STORE/FINGERPRINT, by the name of the input. `reuse_key` is a digest of the settings alone,
    without any content: stores with the same one have equal values for equal texts; empty if no row
    is ever copied. Workers, budgets and shard sizes are not part of a spec.
    """

    stage: str
    semantics: int
    params: Mapping[str, Json] = field(default_factory=dict)
    inputs: Mapping[str, str] = field(default_factory=dict)
    produces: str = ""
    origins: Mapping[str, str] = field(default_factory=dict)
    reuse_key: str = ""

    def to_json(self) -> dict[str, Json]:
        """The body of spec.json."""
        return {
            "stage": self.stage,
            "semantics": self.semantics,
            "params": dict(self.params),
            "inputs": dict(self.inputs),
            "produces": self.produces,
            "origins": dict(self.origins),
            "reuse_key": self.reuse_key,
        }

    @staticmethod
    def from_json(body: Mapping[str, Json]) -> "StageSpec":
        """The spec from such a body."""
        return StageSpec(**{name: body[name] for name in SpecShape.model_fields})

    def fingerprint(self) -> str:
        """The name of the store's folder: 32 hexadecimal characters of the body's SHA-256."""
        return digest(canonical(self.to_json()))[:32]

    def diff(self, other: "StageSpec") -> list[Change]:
        """The fields in which `other` (the new spec) differs, sorted; nested names are dotted.

        Origins and `reuse_key` are left out: if one differs, so does an input or a setting.
        """
        old, new = _flat(self.without_derived()), _flat(other.without_derived())
        names = sorted(old.keys() | new.keys())
        return [
            Change(name, old.get(name), new.get(name))
            for name in names
            if old.get(name) != new.get(name) or (name in old) != (name in new)
        ]

    def without_derived(self) -> dict[str, Json]:
        """The body as the settings of another stage hold it, and as changes are told."""
        body = self.to_json()
        del body["origins"], body["reuse_key"]
        return body

    def settings_diff(self, other: "StageSpec") -> list[Change]:
        """`diff` without the digests of content: the changes that `--frozen` refuses.

        A scheduled job re-indexes changing content on purpose; its settings must not change.
        """
        return [c for c in self.diff(other) if not _is_content(c)]


def settings_digest(stage: str, semantics: int, settings: Json) -> str:
    """The `reuse_key` of a stage with these settings; they hold no digest of content."""
    return digest(canonical([stage, semantics, settings]))


class SpecShape(Shape):
    """The body of spec.json."""

    stage: str
    semantics: Count
    params: dict[str, Any]
    inputs: dict[str, str]
    produces: str
    origins: dict[str, str]
    reuse_key: str


def _is_content(change: Change) -> bool:
    """Whether only content differs; another set of input stores is a change of settings."""
    if change.field.startswith("inputs.content:"):
        return True  # other files, more files or fewer
    return change.field.startswith("inputs.") and None not in (change.old, change.new)


def _flat(value: Json, prefix: str = "") -> dict[str, Json]:
    if isinstance(value, Mapping) and value:
        out: dict[str, Json] = {}
        for key, inner in value.items():
            out.update(_flat(inner, f"{prefix}.{key}" if prefix else str(key)))
        return out
    return {prefix: value}


def _short(value: Json) -> str:
    text = value if isinstance(value, str) else canonical(value).decode()
    is_hash = len(text) >= 32 and all(c in "0123456789abcdef" for c in text)
    return text[:12] if is_hash else text
