"""config.json of a converted model: BERT's fields, and what the tensors say."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from raypipe.errors import InputError
from raypipe.models.bert.config import NEEDED, config_problems
from raypipe.models.folder.evidence import read_object

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
