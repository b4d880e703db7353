"""config.json of a converted model: BERT's fields, and what the tensors say."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from raypipe.errors import InputError
from raypipe.models.evidence import read_object

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


def read_config(folder: Path) -> tuple[str, dict[str, Any]]:
    """(file name, content) of config.json, or of bert_config.json as Google wrote it.

    Raises:
        InputError: there is neither, or it is no BERT that raypipe computes.
    """
    for name in ("config.json", "bert_config.json"):
        if (folder / name).exists():
            config = read_object(folder / name)
            problems = [f"{folder / name}: {problem}" for problem in config_problems(config)]
            if problems:
                raise InputError(problems)
            return name, config
    raise InputError(f"{folder}: no config.json or bert_config.json beside the checkpoint")


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


def converted_config(
    config: Mapping[str, Any], *, segment_rows: int, num_labels: int | None
) -> dict[str, Any]:
    """What config.json of the converted folder holds; transformers opens it."""
    named = "BertModel" if num_labels is None else "BertForSequenceClassification"
    body = {
        "architectures": [named],
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
