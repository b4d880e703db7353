"""A BERT's config.json: the values for which raypipe's forward pass is that model's."""

from collections.abc import Mapping
from typing import Any

from raypipe.models.units import unit_names

NEEDED = (
    "hidden_size",
    "intermediate_size",
    "max_position_embeddings",
    "num_attention_heads",
    "num_hidden_layers",
    "type_vocab_size",
    "vocab_size",
)
DECISIVE = (*NEEDED, "hidden_act", "layer_norm_eps", "model_type", "position_embedding_type")
"""Everything in a config.json that raypipe's forward pass reads, or that transformers would read
for a BERT. What is left out changes no result: dropout rates, names, versions, the file's dtype."""
KEPT = (
    *NEEDED,
    "attention_probs_dropout_prob",
    "classifier_dropout",
    "hidden_act",
    "hidden_dropout_prob",
    "initializer_range",
    "layer_norm_eps",
    "pad_token_id",
)
LAYER_NORM_EPS = 1e-12
"""The value of tf.contrib.layers.layer_norm, which TensorFlow's bert_config.json does not state."""
LARGEST = {"num_hidden_layers": 1000}
"""Limits: larger values would exhaust the memory before any tensor is checked."""


def config_problems(config: Mapping[str, Any]) -> list[str]:
    """Why raypipe cannot compute this model; empty if it can."""
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


def own_problems(config: Mapping[str, Any]) -> list[str]:
    """Like `config_problems`, for a model folder's own config.json, which must state more."""
    problems = config_problems(config)
    for name, expected in (("model_type", "bert"), ("hidden_act", "gelu")):
        if name not in config:
            problems.append(f"{name}: expected {expected}, found none")
    eps: Any = config.get("layer_norm_eps")
    if not _is_number(eps) or not 0 < eps < 1:
        problems.append(f"layer_norm_eps: expected a number between 0 and 1, found {eps!r}")
    if "initializer_range" in config and not _is_number(config["initializer_range"]):
        problems.append(
            f"initializer_range: expected a number, found {config['initializer_range']!r}"
        )
    if not problems and config["hidden_size"] % config["num_attention_heads"]:
        problems.append(
            f"num_attention_heads: expected a divisor of hidden_size {config['hidden_size']}, "
            f"found {config['num_attention_heads']}"
        )
    return problems


def decisive(config: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a valid config.json that affect a row's value, for fingerprints."""
    values = {name: config[name] for name in DECISIVE if name in config}
    values["layer_norm_eps"] = float(config["layer_norm_eps"])
    values.setdefault("position_embedding_type", "absolute")
    return values


def num_positions(config: Mapping[str, Any]) -> int:
    """Number of tokens of the longest input, special tokens included."""
    return int(config["max_position_embeddings"])


def as_bert(config: Mapping[str, Any]) -> dict[str, Any]:
    """The content of a BERT's config.json, unchanged."""
    return dict(config)


def architecture(*, head: bool) -> str:
    """The transformers class that opens a model with or without a reranker's head."""
    return "BertForSequenceClassification" if head else "BertModel"


def converted_config(
    config: Mapping[str, Any], *, segment_rows: int, num_labels: int | None
) -> dict[str, Any]:
    """The content of the converted folder's config.json, which transformers can open."""
    body = {
        "architectures": [architecture(head=num_labels is not None)],
        "model_type": "bert",
        "hidden_act": "gelu",
        "layer_norm_eps": LAYER_NORM_EPS,
        "position_embedding_type": "absolute",
        **{name: config[name] for name in KEPT if config.get(name) is not None},
        "type_vocab_size": segment_rows,
    }
    if num_labels is not None:
        body |= unit_names(num_labels)
    return dict(sorted(body.items()))


def _at_most(name: str) -> str:
    return f" of {LARGEST[name]:,} at most" if name in LARGEST else ""


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
