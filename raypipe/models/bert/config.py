"""config.json of a BERT: what it must say for the forward here to be its model's."""

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
DECISIVE = (*NEEDED, "hidden_act", "layer_norm_eps", "model_type", "position_embedding_type")
"""All that raypipe's forward reads of a config.json, or that transformers' would read of a BERT.
What is left out changes no number: dropout rates, names, versions, the dtype of the file."""
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
"""tf.contrib.layers.layer_norm's, which TensorFlow's bert_config.json does not state."""
LARGEST = {"num_hidden_layers": 1000}
"""More would take all memory before a tensor is looked at."""


def config_problems(config: Mapping[str, Any]) -> list[str]:
    """Why raypipe's forward is not this model's; empty where it is."""
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
    """As `config_problems`, of a folder's own config.json, which must name more."""
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
    """The values of a config.json without problems that decide a row, for fingerprints."""
    values = {name: config[name] for name in DECISIVE if name in config}
    values["layer_norm_eps"] = float(config["layer_norm_eps"])
    values.setdefault("position_embedding_type", "absolute")
    return values


def architecture(*, head: bool) -> str:
    """The class of transformers that opens a model, with the head of a reranker or without."""
    return "BertForSequenceClassification" if head else "BertModel"


def converted_config(
    config: Mapping[str, Any], *, segment_rows: int, num_labels: int | None
) -> dict[str, Any]:
    """What config.json of the converted folder holds; transformers opens it."""
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
        body["id2label"] = {str(unit): f"LABEL_{unit}" for unit in range(num_labels)}
        body["label2id"] = {f"LABEL_{unit}": unit for unit in range(num_labels)}
    return dict(sorted(body.items()))


def _at_most(name: str) -> str:
    return f" of {LARGEST[name]:,} at most" if name in LARGEST else ""


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
