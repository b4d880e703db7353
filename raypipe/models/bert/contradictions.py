"""Finds contradictions between a BERT's config.json and its tensors."""

from collections.abc import Mapping
from typing import Any

from raypipe.models.bert.tensor_names import SEGMENTS, expected_shapes, prefix_of
from raypipe.models.tensors import Shape

WORDS = "embeddings.word_embeddings.weight"
WIDENED = "encoder.layer.0.intermediate.dense.weight"
SIZES = {
    "vocab_size": (WORDS, 0),
    "hidden_size": (WORDS, 1),
    "max_position_embeddings": ("embeddings.position_embeddings.weight", 0),
    "type_vocab_size": (SEGMENTS, 0),
    "intermediate_size": (WIDENED, 0),
}
"""Each size in config.json, and the tensor's axis of that size."""
LAYER = "encoder.layer."


def contradictions(
    config: Mapping[str, Any], shapes: Mapping[str, Shape], *, any_segments: bool = False
) -> list[str]:
    """The differences between a valid config.json and the shapes of the tensors by name.

    With `any_segments`, the segment table may have another number of rows than type_vocab_size: the
    third row of a duoBERT model is often not mentioned in config.json.
    """
    prefix = prefix_of(shapes)
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
