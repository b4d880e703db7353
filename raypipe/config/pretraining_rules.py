"""The rules of a pre-training's recipe, and of what only a pre-training has."""

from collections.abc import Iterator

from raypipe.config.training import Training
from raypipe.config.yaml import Problem
from raypipe.vocabulary import MASKED_WORD_LOSS

_OF_QUERIES = (
    *("queries", "qrels", "negatives", "triples", "texts", "teacher", "exclude"),
    *("examples_at_most", "documents", "blend"),
)
_OF_PAIRS = ("query_limit", "passage_limit", "segment_row", "adapter")


def pretraining_problems(recipe: Training, *, pretrained: bool) -> Iterator[Problem]:
    """A problem for every broken rule; `pretrained` says what the preset's kind is."""
    yield from _of_pretraining(recipe) if pretrained else _of_others(recipe)


def _of_others(recipe: Training) -> Iterator[Problem]:
    only = "only for a pre-training (model.preset: bert); remove it"
    if recipe.masking is not None:
        yield Problem(("masking",), only)
    if recipe.model.weights == "random":
        yield Problem(("model", "weights"), only)


def _of_pretraining(recipe: Training) -> Iterator[Problem]:
    model, masking = recipe.model, recipe.masking
    if masking is None:
        text = "missing; write masking: {next_sentence: false}, or true"
        yield Problem(("masking",), text)
    for name in _OF_PAIRS:
        if getattr(model, name) is not None:
            yield Problem(("model", name), "a pre-training has no queries and pairs; remove it")
    if model.head != 2:
        yield Problem(("model", "head"), "a pre-training has its own heads; remove it")
    if model.weights == "random" and model.draw_missing:
        text = "with weights: random every weight is drawn; remove it"
        yield Problem(("model", "draw_missing"), text)
    for name, each in recipe.train.items():
        for key in _OF_QUERIES:
            if getattr(each, key) is not None:
                text = "a pre-training reads a collection's text alone; remove it"
                yield Problem(("train", name, key), text)
        if each.collection is None:
            yield Problem(("train", name, "collection"), "missing; its text is what is learnt")
    if recipe.dev:  # a guard may stand beside phases, for those after this one
        text = "a pre-training sees no queries; measure on masking.held_out and remove it"
        yield Problem(("dev",), text)
    yield from _measuring(recipe)


def _measuring(recipe: Training) -> Iterator[Problem]:
    held_out = 0 if recipe.masking is None else recipe.masking.held_out
    validate = recipe.validate_
    if validate is None and held_out:
        yield Problem(("validate",), "missing; it says when to measure on masking.held_out")
    if validate is None:
        return
    if not held_out:
        yield Problem(("masking", "held_out"), "missing; validate needs inputs to measure on")
    if validate.measure != MASKED_WORD_LOSS:
        text = f"expected {MASKED_WORD_LOSS} in a pre-training, found {validate.measure}"
        yield Problem(("validate", "measure"), text)
