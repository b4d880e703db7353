"""config.json of a BERT: the values that decide its forward, and what contradicts the weights."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from raypipe.errors import InputError
from raypipe.models.bert.config import NEEDED, config_problems
from raypipe.models.bert.tensor_names import SEGMENTS, Shape, expected_shapes
from raypipe.models.folder.evidence import read_object

DECISIVE = (*NEEDED, "hidden_act", "layer_norm_eps", "model_type", "position_embedding_type")
"""All that raypipe's forward reads of a config.json, or that transformers' would read of a BERT.
What is left out changes no number: dropout rates, names, versions, the dtype of the file."""

WORDS = "embeddings.word_embeddings.weight"
WIDENED = "encoder.layer.0.intermediate.dense.weight"
SIZES = {
    "vocab_size": (WORDS, 0),
    "hidden_size": (WORDS, 1),
    "max_position_embeddings": ("embeddings.position_embeddings.weight", 0),
    "type_vocab_size": (SEGMENTS, 0),
    "intermediate_size": (WIDENED, 0),
}
"""Each size of config.json and the tensor's axis that has it."""
LAYER = "encoder.layer."
INITIALIZER_RANGE = 0.02
"""BERT's own, where config.json does not say it."""


def read_config(folder: Path) -> dict[str, Any]:
    """config.json, of a model that raypipe's forward computes.

    Raises:
        InputError: no JSON object, another architecture, or values that no BERT has; all at once.
    """
    file = folder / "config.json"
    config = read_object(file)
    problems = own_problems(config)
    if problems:
        raise InputError([f"{file}: {problem}" for problem in problems])
    return config


def own_problems(config: Mapping[str, Any]) -> list[str]:
    """Why a config.json is not of a model that raypipe's forward computes; empty where it is."""
    problems = config_problems(config)
    for name, expected in (("model_type", "bert"), ("hidden_act", "gelu")):
        if name not in config:
            problems.append(f"{name}: expected {expected}, found none")
    eps: Any = config.get("layer_norm_eps")
    if not _is_number(eps) or not 0 < eps < 1:
        problems.append(f"layer_norm_eps: expected a number between 0 and 1, found {eps!r}")
    if not _is_number(config.get("initializer_range", INITIALIZER_RANGE)):
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
    """The values of a `read_config` that decide a row, for fingerprints."""
    values = {name: config[name] for name in DECISIVE if name in config}
    values["layer_norm_eps"] = float(config["layer_norm_eps"])
    values.setdefault("position_embedding_type", "absolute")
    return values


def initializer_range(config: Mapping[str, Any]) -> float:
    """The standard deviation of weights that a training draws."""
    return float(config.get("initializer_range", INITIALIZER_RANGE))


def tensor_shapes(file: Path) -> dict[str, Shape]:
    """Shapes by name as saved; the tensors are not read.

    Raises:
        InputError: no safetensors file.
    """
    try:
        with safe_open(file, framework="numpy") as opened:
            return {n: tuple(opened.get_slice(n).get_shape()) for n in opened.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise InputError(f"{file}: not a safetensors file: {error}") from error


def contradictions(
    config: Mapping[str, Any], shapes: Mapping[str, Shape], *, any_segments: bool = False
) -> list[str]:
    """Where a `read_config` and the tensors (see `tensor_shapes`) are of different models.

    With `any_segments` the segment table may have other rows than type_vocab_size says: a duo's
    third was put there by whoever made the checkpoint, often without a word in config.json.
    """
    prefix = "bert." if any(name.startswith("bert.") for name in shapes) else ""
    own = {name.removeprefix(prefix): shape for name, shape in shapes.items()}
    if any_segments and SEGMENTS in own:
        config = {**config, "type_vocab_size": own[SEGMENTS][0]}
    problems = [
        f"{size}: config.json says {config[size]}, the checkpoint has {own[name][axis]} "
        f"({prefix}{name} is {list(own[name])})"
        for size, (name, axis) in SIZES.items()
        if name in own and len(own[name]) == 2 and own[name][axis] != config[size]
    ]
    numbers = {name.removeprefix(LAYER).split(".")[0] for name in own if name.startswith(LAYER)}
    if len(numbers) != config["num_hidden_layers"]:
        problems.append(
            f"num_hidden_layers: config.json says {config['num_hidden_layers']}, the checkpoint "
            f"has {len(numbers)}"
        )
    if problems:
        return problems
    expected = expected_shapes(config, num_labels=None)
    problems = [f"the checkpoint lacks the tensor {prefix}{n}" for n in expected if n not in own]
    problems += [
        f"{prefix}{name}: expected shape {list(shape)}, found {list(own[name])}"
        for name, shape in expected.items()
        if name in own and own[name] != shape
    ]
    return problems


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
