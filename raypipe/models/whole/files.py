"""`raypipe.models.family.Files` of a model that transformers computes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NoReturn

from raypipe.errors import InputError
from raypipe.models.tensors import Named, Shape, Source, shape_problems
from raypipe.models.whole import module

if TYPE_CHECKING:
    from torch import Tensor

FIRST_POSITIONS = {"mpnet": 2}
"""Where positions begin, if not at 0."""
ANY_POSITIONS = 1 << 20
"""For a model without a table of positions."""
MOST_LAYERS = 1000
"""Far beyond those of any model; building more would not end."""
SIZES = {
    "hidden_size": None,
    "num_hidden_layers": MOST_LAYERS,
    "num_attention_heads": None,
    "intermediate_size": None,
}
"""BERT's names of counts that others state too, and the largest that is computed."""


class WholeFiles:
    """See Files; a tensor has one name, the checkpoint's."""

    SEGMENTS = "embeddings.token_type_embeddings.weight"
    POOLER = ("", "")
    HEADS = ("", "")
    ADAPTED: tuple[str, ...] = ()
    SPECIAL_TOKENS: tuple[str, ...] = ()
    USED = "encoded with and scored with"
    """What such a model is for."""

    def __init__(self, kind: str, *, has_segments: bool) -> None:
        """Of models with this model_type, which read segments or not."""
        self.kind, self.HAS_SEGMENTS = kind, has_segments

    def canonical_names(self, names: Iterable[str]) -> Named:
        """See Files; without what the body's names begin with in a model with a head."""
        prefix = module.prefix_of({"model_type": self.kind}) + "."
        found = {name.removeprefix(prefix): Source(name, False) for name in sorted(names)}
        return Named(found, [], [])

    def saved_name(self, name: str, *, head: bool) -> str:
        """See Files."""
        return name

    def trained_names(self, names: Iterable[str], *, head: bool) -> dict[str, str]:
        """Raises InputError."""
        self._refuse("trained")

    def linear_names(self, tensors: Mapping[str, Tensor], *, head: bool) -> list[str]:
        """Raises InputError."""
        self._refuse("trained")

    def expected_shapes(
        self, config: Mapping[str, Any], *, num_labels: int | None
    ) -> dict[str, Shape]:
        """See Files; by transformers' names."""
        with_units = config if num_labels is None else {**config, "num_labels": num_labels}
        shapes = module.shapes_of(with_units, head=num_labels is not None)
        prefix = module.prefix_of(config) + "."
        return {name.removeprefix(prefix): shape for name, shape in shapes.items()}

    def may_have(self, name: str) -> bool:
        """Any: transformers leaves out what its module does not have."""
        return True

    def config_problems(self, config: Mapping[str, Any]) -> list[str]:
        """See Files."""
        try:
            found = module.config_of(config)
        except InputError as error:
            return error.problems
        decodes = [key for key in ("is_decoder", "is_encoder_decoder") if getattr(found, key, None)]
        problems = [f"{key}: expected false, found true" for key in decodes]
        for name, most in SIZES.items():
            size = getattr(found, name, 1)
            if size < 1 or (most is not None and size > most):
                expected = "1 or more" if most is None else f"1 to {most}"
                problems.append(f"{name}: expected {expected}, found {size!r}")
        segments = getattr(found, "type_vocab_size", 0)
        if not self.HAS_SEGMENTS and segments not in (None, 0):
            problems.append(f"type_vocab_size: expected 0, found {segments}")
        return problems

    def own_problems(self, config: Mapping[str, Any]) -> list[str]:
        """See Files."""
        return self.config_problems(config)

    def decisive(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """See Files; with transformers' version, whose code computes the rows."""
        kept = {key: value for key, value in config.items() if key not in module.NOT_DECISIVE}
        return {**kept, "transformers": module.version()}

    def num_positions(self, config: Mapping[str, Any]) -> int:
        """See Files."""
        rows = int(getattr(module.config_of(config), "max_position_embeddings", ANY_POSITIONS))
        return rows - FIRST_POSITIONS.get(self.kind, 0)

    def as_bert(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """See Files."""
        found = module.config_of(config)
        stated = {name: getattr(found, name) for name in SIZES if hasattr(found, name)}
        return {**config, **stated, "max_position_embeddings": self.num_positions(config)}

    def contradictions(
        self, config: Mapping[str, Any], shapes: Mapping[str, Shape], *, any_segments: bool = False
    ) -> list[str]:
        """See Files; tensors of further layers are told, others that are not read are not."""
        expected = module.shapes_of(config, head=module.has_head(config, shapes))
        prefix = module.prefix_of(config)
        named = module.names_of(shapes, expected, prefix)
        held = {name: (place, shapes[place]) for name, place in named.items()}
        known = {_of_any_layer(name, prefix) for name in expected}
        others = sorted({*shapes} - {*named.values()})
        further = [name for name in others if _of_any_layer(name, prefix) in known]
        problems = shape_problems(expected, held)
        if further:
            problems.append(
                f"{further[0]}: no such tensor in a model of the sizes in config.json; with it, "
                f"the checkpoint has {len(further)} of further layers"
            )
        return problems

    def converted_config(
        self, config: Mapping[str, Any], *, segment_rows: int, num_labels: int | None
    ) -> dict[str, Any]:
        """Raises InputError."""
        self._refuse("converted")

    def architecture(self, *, head: bool) -> str:
        """See Files."""
        return "AutoModelForSequenceClassification" if head else "AutoModel"

    def _refuse(self, what: str) -> NoReturn:
        raise InputError(
            f"model_type {self.kind}: expected a model whose forward pass is raypipe's own, found "
            f"one that transformers computes: it is {self.USED}, and not {what}"
        )


def _of_any_layer(name: str, prefix: str) -> str:
    """A tensor's name without the body's prefix and the numbers of layers."""
    return re.sub(r"\d+", "", name.removeprefix(f"{prefix}."))
