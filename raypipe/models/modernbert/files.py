"""The files of ModernBERT: names and shapes, and variants that are not packed.

A canonical name is that of transformers' model without a head (`layers.0.attn.Wqkv.weight`), or the
head's own: a linear layer, a normalisation and the classifier.
"""

from collections.abc import Mapping
from operator import index
from typing import Any

from raypipe.models.bert.files import BertFiles
from raypipe.models.tensors import Config, Shape

WORDS, HEAD_BIAS = "embeddings.tok_embeddings.weight", "head.dense.bias"
GLOBAL, LOCAL = "full_attention", "sliding_attention"
EVERY = 3
"""Of so many layers one is global, if config.json does not state it."""
WINDOW = 128
"""Tokens of a window, likewise: half of them before a token, and half behind it."""
THETAS = {GLOBAL: ("global_rope_theta", 160_000.0), LOCAL: ("local_rope_theta", 10_000.0)}
"""The key of transformers before release 5, and the value without it."""
PACKED: Mapping[str, tuple[Any, ...]] = {
    "hidden_activation": ("gelu",),
    "classifier_activation": ("gelu",),
    "classifier_pooling": ("cls", "mean"),
    "norm_bias": (False,),
    "attention_bias": (False,),
    "mlp_bias": (False,),
    "rope_scaling": (None,),
    "head_dim": (None,),
}
"""The values of config.json with which a ModernBERT is computed here, first what it means where it
does not state one."""


def attention_of(config: Config) -> list[tuple[float, int | None]]:
    """(base of the rotary positions, window if there is one) of each layer."""
    every = config.get("global_attn_every_n_layers", EVERY)
    kinds = config.get("layer_types") or [
        LOCAL if number % every else GLOBAL for number in range(config["num_hidden_layers"])
    ]
    rotary: Any = config.get("rope_parameters") or {}
    thetas: dict[str, Any] = {
        kind: (rotary.get(kind) or {}).get("rope_theta", config.get(key, default))
        for kind, (key, default) in THETAS.items()
    }
    half = index(config.get("local_attention", WINDOW)) // 2
    return [(float(thetas[kind]), None if kind == GLOBAL else half) for kind in kinds]


class ModernBertFiles(BertFiles):
    """Tensors and config.json of a ModernBERT."""

    @property
    def POOLER(self) -> tuple[str, str]:
        """A head's first layer, which mostly has no bias, and the normalisation behind it."""
        return "head.dense.weight", "head.norm.weight"

    def saved_name(self, name: str, *, head: bool) -> str:
        """The name with the prefix in a model with a head, unless the tensor is the head's own."""
        return name if name == HEAD_BIAS else super().saved_name(name, head=head)

    def may_have(self, name: str) -> bool:
        """Whether the tensor is a head's."""
        return name == HEAD_BIAS or super().may_have(name)

    def expected_shapes(self, config: Config, *, num_labels: int | None) -> dict[str, Shape]:
        """Shapes by canonical name, with the head's if there are labels."""
        hidden, wide = config["hidden_size"], config["intermediate_size"]
        shapes: dict[str, Shape] = {
            WORDS: (config["vocab_size"], hidden),
            "embeddings.norm.weight": (hidden,),
            "final_norm.weight": (hidden,),
        }
        for at in (f"layers.{number}" for number in range(config["num_hidden_layers"])):
            shapes |= {
                f"{at}.attn_norm.weight": (hidden,),
                f"{at}.attn.Wqkv.weight": (3 * hidden, hidden),
                f"{at}.attn.Wo.weight": (hidden, hidden),
                f"{at}.mlp_norm.weight": (hidden,),
                f"{at}.mlp.Wi.weight": (2 * wide, hidden),
                f"{at}.mlp.Wo.weight": (hidden, wide),
            }
        del shapes["layers.0.attn_norm.weight"]
        if num_labels is not None:
            dense, norm = self.POOLER
            shapes |= {dense: (hidden, hidden), norm: (hidden,)}
            shapes |= {HEAD_BIAS: (hidden,)} if config.get("classifier_bias") else {}
            shapes |= dict(zip(self.HEADS, ((num_labels, hidden), (num_labels,)), strict=True))
        return shapes

    def unpacked(self, config: Config) -> list[str]:
        """Other values than those that are computed here."""
        problems = [
            f"{key}: expected {' or '.join(map(str, values))}, found {config[key]!r}"
            for key, values in PACKED.items()
            if config.get(key, values[0]) not in values
        ]
        rotary: Any = config.get("rope_parameters") or {}
        kinds: Any = config.get("layer_types") or []
        try:
            types = {(rotary.get(kind) or {}).get("rope_type", "default") for kind in THETAS}
            if types != {"default"}:
                shown = ", ".join(sorted(map(str, types)))
                problems.append(f"rope_parameters: expected rope_type default, found {shown}")
            if not {*kinds} <= {*THETAS} or (kinds and len(kinds) != config["num_hidden_layers"]):
                problems.append(
                    f"layer_types: expected {GLOBAL} or {LOCAL} for each layer, found {kinds}"
                )
            elif "num_hidden_layers" in config:
                attention_of(config)
        except (AttributeError, KeyError, TypeError, ValueError, ZeroDivisionError) as error:
            problems.append(f"layer_types, rope_parameters or local_attention: {error}")
        return problems

    def decisive(self, config: Config) -> dict[str, Any]:
        """The sizes, each layer's attention, and the head's pooling."""
        values = super().decisive(config)
        del values["position_embedding_type"]
        attention = [[theta, window] for theta, window in attention_of(config)]
        return {
            **values,
            "attention": attention,
            "classifier_pooling": config.get("classifier_pooling", "cls"),
        }
