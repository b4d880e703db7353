"""Lines about settings that are allowed and seldom meant."""

from collections.abc import Iterator, Mapping
from typing import Any

from raypipe.config.training import Training
from raypipe.config.training_rules import TEACHER_LOSSES
from raypipe.models.folder.settings import Conventions
from raypipe.training.job import conventions_of_training

DROPOUTS = (
    *("hidden_dropout_prob", "attention_probs_dropout_prob", "dropout", "attention_dropout"),
    *("embedding_dropout", "mlp_dropout"),
)
"""Keys of a config.json of the families that are trained."""


def notes_of(
    recipe: Training, facts: Mapping[str, Mapping[str, Any]], config: Mapping[str, Any]
) -> Iterator[str]:
    """Lines about a training whose sets have these facts.

    Args:
        recipe: the training.
        facts: of each training set's examples, or a pre-training's inputs.
        config: the start's config.json.
    """
    own = {config[name] for name in DROPOUTS if isinstance(config.get(name), int | float)}
    if own and "dropout" not in recipe.model_fields_set and recipe.dropout not in own:
        yield (
            f"train: dropout is {recipe.dropout:g}, the default; the start's config.json has "
            f"{', '.join(f'{rate:g}' for rate in sorted(own))}, which other trainers use: write one"
        )
    num_examples = sum(each["examples"] for each in facts.values())
    if num_examples < recipe.batch:
        yield (
            f"train: a batch of {recipe.batch:,} takes the {num_examples:,} examples more than "
            f"once; batch: {num_examples} takes each once"
        )
    if recipe.masking is not None:
        return
    conventions, loss = conventions_of_training(recipe.model), recipe.loss
    are_cosines = isinstance(conventions, Conventions) and conventions.normalise
    if are_cosines and loss.name == "info-nce" and "temperature" not in loss.model_fields_set:
        yield (
            "train: the model's scores are cosines, from -1 to 1, between which info-nce at "
            "temperature 1 hardly tells; write loss.temperature, such as 0.05, which is "
            "sentence-transformers' scale of 20, or 1.0"
        )
    taught = loss.name in TEACHER_LOSSES or loss.teacher_weight
    if not taught or loss.teacher_temperature is not None:
        return
    for name, each in facts.items():
        low, high = each.get("teacher_scores", (0.0, 0.0))
        if low < high:
            yield from _of_scale(name, low, high, loss.name, are_cosines=are_cosines)


def _of_scale(name: str, low: float, high: float, loss: str, *, are_cosines: bool) -> Iterator[str]:
    """A line if a teacher's scores have another scale than what learns them."""
    span = f"train: {name}: the teacher's scores lie from {low:.3g} to {high:.3g}"
    if are_cosines:
        if high - low > 2:
            yield (f"{span}, the model's are cosines, from -1 to 1; write loss.teacher_temperature")
    elif low >= 0 and high <= 1:
        yield (
            f"{span}, as probabilities do, between which {loss} sees small differences; give raw "
            "scores, such as logits, or write loss.teacher_temperature"
        )
    elif high <= 0:
        yield (
            f"{span}, as log-probabilities do, which are all near 0 where the teacher is sure; "
            "give raw scores, such as logits, or write loss.teacher_temperature"
        )
