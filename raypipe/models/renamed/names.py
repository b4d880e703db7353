"""What a family with BERT's layers calls its tensors and its sizes."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

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
