"""`raypipe.models.family.Files` of a family with BERT's layers, and its names of tensors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from raypipe.models.bert import files as bert
from raypipe.models.bert.files import BUFFERS, SEGMENTS, named_by
from raypipe.models.bert.files import expected_shapes as shapes_of_bert
from raypipe.models.tensors import Named, Shape, shape_problems
from raypipe.models.units import unit_names

if TYPE_CHECKING:
    from torch import Tensor


LAYERS_OF_BERT = "encoder.layer."
HEAD_OF_BERT = ("pooler.dense.", "classifier.")
"""Beginnings of canonical names of a head's two layers in BERT."""


@dataclass(frozen=True, slots=True)
class Names:
    """The names of one family, beside BERT's."""

    kind: str
    """model_type in config.json."""
    architecture: str
    """transformers' name of the classes, without Model and ForSequenceClassification."""
    prefix: str
    """Of the body's tensors in a model with a head."""
    layers: str
    """The own beginning of names in a layer, for BERT's `encoder.layer.`."""
    parts: tuple[tuple[str, str], ...]
    """(BERT's, own) parts of names in a layer; the first that is found is replaced."""
    head: tuple[str, str]
    """Own beginnings of the names of a head's two layers."""
    adapted: tuple[str, ...]
    """Last parts of the linear layers' names, as peft expects them."""
    keys: Mapping[str, str]
    """Keys of config.json by BERT's keys, where they differ."""
    fixed: Mapping[str, Any]
    """Values for BERT's keys that config.json does not have."""
    required: Mapping[str, Any]
    """Values of own keys without which raypipe's inputs or layers would be others."""
    specials: tuple[str, str, str]
    """Special tokens: before the first text, behind a text, and for what is unknown."""
    num_separators: int
    """Special tokens between two texts."""
    first_position: int
    has_segments: bool
    """Whether there is a segment table; one that there is has one row."""

    def own(self, name: str) -> str:
        """The own canonical name for BERT's."""
        for of_bert, mine in zip(HEAD_OF_BERT, self.head, strict=True):
            if name.startswith(of_bert):
                return mine + name.removeprefix(of_bert)
        part = next((pair for pair in self.parts if pair[0] in name), ("", ""))
        return name.replace(*part).replace(LAYERS_OF_BERT, self.layers)

    def as_bert(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """The values of config.json under BERT's keys, those that are missing left out."""
        own = set(self.keys.values())
        found = {key: value for key, value in config.items() if key not in own}
        found |= {key: config[mine] for key, mine in self.keys.items() if mine in config}
        kind = config.get("model_type")
        return {**found, **self.fixed, "model_type": "bert" if kind == self.kind else kind}

    def key(self, of_bert: str) -> str:
        """The own key for one of BERT's."""
        return self.keys.get(of_bert, of_bert)


class RelativeFiles:
    """See Files."""

    SEGMENTS = SEGMENTS
    HAS_SEGMENTS = False

    def __init__(self, names: Names) -> None:
        """The files of the family with these names."""
        self.names = names
        first, last = names.head
        self.POOLER = (f"{first}weight", f"{first}bias")
        self.HEADS = (f"{last}weight", f"{last}bias")
        self.ADAPTED = names.adapted
        self.SPECIAL_TOKENS: tuple[str, ...] = names.specials

    def canonical_names(self, names: Iterable[str]) -> Named:
        """See Files; other heads, and a pooler that no head here uses, are unused."""
        return named_by(self._canonical, names)

    def saved_name(self, name: str, *, head: bool) -> str:
        """See Files."""
        place = name.removeprefix(self.names.prefix)
        return self.names.prefix + place if head and not self._in_head(place) else place

    def trained_names(self, names: Iterable[str], *, head: bool) -> dict[str, str]:
        """See Files."""
        found = {}
        for name in names:
            place = self._canonical(name)
            if place is not None and (head or not self._in_head(place)):
                found[name] = self.saved_name(place, head=True)
        return found

    def linear_names(self, tensors: Mapping[str, Tensor], *, head: bool) -> list[str]:
        """See Files."""
        first = self.names.head[0] + "weight"
        return [
            name.removesuffix(".weight")
            for name in tensors
            if (
                head
                if name == first
                else name.startswith(self.names.prefix + self.names.layers)
                and name.removesuffix(".weight").rpartition(".")[2] in self.names.adapted
            )
        ]

    def expected_shapes(
        self, config: Mapping[str, Any], *, num_labels: int | None
    ) -> dict[str, Shape]:
        """See Files."""
        found = shapes_of_bert(self.names.as_bert(config), num_labels=num_labels)
        if not self.names.has_segments:
            del found[SEGMENTS]
        return {self.names.own(name): shape for name, shape in found.items()}

    def may_have(self, name: str) -> bool:
        """See Files."""
        return self._in_head(name)

    def config_problems(self, config: Mapping[str, Any]) -> list[str]:
        """See Files."""
        return self._told(bert.config_problems(self.names.as_bert(config)))

    def own_problems(self, config: Mapping[str, Any]) -> list[str]:
        """See Files."""
        problems = self._told(bert.own_problems(self.names.as_bert(config)))
        return problems + [
            f"{key}: expected {value}, found {config.get(key)!r}"
            for key, value in self.names.required.items()
            if config.get(key) != value
        ]

    def decisive(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """See Files; under BERT's keys."""
        return bert.decisive(self.names.as_bert(config)) | {"model_type": self.names.kind}

    def num_positions(self, config: Mapping[str, Any]) -> int:
        """See Files."""
        positions = int(self.names.as_bert(config)["max_position_embeddings"])
        return positions - self.names.first_position

    def as_bert(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """See Files."""
        return self.names.as_bert(config)

    def contradictions(
        self, config: Mapping[str, Any], shapes: Mapping[str, Shape], *, any_segments: bool = False
    ) -> list[str]:
        """See Files."""
        found = self.canonical_names(shapes).found
        own = {place: (source.name, shapes[source.name]) for place, source in found.items()}
        expected = self.expected_shapes(config, num_labels=None)
        if any_segments and SEGMENTS in own:
            expected.pop(SEGMENTS, None)
        return shape_problems(expected, own) + [
            f"{name}: config.json says {config[self.names.key('num_hidden_layers')]} layers, the "
            "checkpoint has this tensor too"
            for place, (name, _) in own.items()
            if place.startswith(self.names.layers) and place not in expected
        ]

    def converted_config(
        self, config: Mapping[str, Any], *, segment_rows: int, num_labels: int | None
    ) -> dict[str, Any]:
        """See Files."""
        body = dict(config) | {"architectures": [self.architecture(head=num_labels is not None)]}
        if num_labels is not None:
            body |= unit_names(num_labels)
        return dict(sorted(body.items()))

    def architecture(self, *, head: bool) -> str:
        """See Files."""
        kind = "ForSequenceClassification" if head else "Model"
        return self.names.architecture + kind

    def _canonical(self, name: str) -> str | None:
        """The canonical name of a tensor; None if it is not the family's."""
        plain = name.removeprefix("module.")
        place = plain.removeprefix(self.names.prefix)
        if self._in_head(place):
            return place if place == plain else None
        body = ("embeddings.", self.names.layers)
        return place if place.startswith(body) and place not in BUFFERS else None

    def _in_head(self, place: str) -> bool:
        return place in self.POOLER or place in self.HEADS

    def _told(self, problems: list[str]) -> list[str]:
        """BERT's problems with own keys and the own kind."""
        own = []
        for problem in problems:
            key, colon, rest = problem.partition(":")
            rest = rest.replace(" expected bert,", f" expected {self.names.kind},")
            rest = rest.replace(" hidden_size ", f" {self.names.key('hidden_size')} ")
            own.append(self.names.key(key) + colon + rest)
        return own
