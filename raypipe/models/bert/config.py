"""What config.json of a BERT must say for the forward here to be its model's."""

from collections.abc import Mapping
from typing import Any

NEEDED = (
    "hidden_size",
    "intermediate_size",
    "max_position_embeddings",
    "num_attention_heads",
    "num_hidden_layers",
    "type_vocab_size",
    "vocab_size",
)
LARGEST = {"num_hidden_layers": 1000}
"""More would take all memory before a tensor is looked at."""


def config_problems(config: Mapping[str, Any]) -> list[str]:
    """Why raypipe's forward is not this model's; empty where it is."""
    kind = config.get("model_type", "bert")
    if kind != "bert":
        return [f"model_type: expected bert, the one forward raypipe has, found {kind!r}"]
    problems = [
        f"{name}: expected a count{_at_most(name)}, found {config.get(name)!r}"
        for name in NEEDED
        if type(config.get(name)) is not int
        or not 1 <= config[name] <= LARGEST.get(name, config[name])
    ]
    for name, expected in (("hidden_act", "gelu"), ("position_embedding_type", "absolute")):
        if config.get(name, expected) != expected:
            problems.append(f"{name}: expected {expected}, found {config[name]!r}")
    if config.get("is_decoder"):
        problems.append("is_decoder: expected false, found true")
    return problems


def _at_most(name: str) -> str:
    return f" of {LARGEST[name]:,} at most" if name in LARGEST else ""
