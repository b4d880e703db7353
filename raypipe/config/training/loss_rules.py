"""The rules of a training's loss, and of what its sets bring for it."""

from collections.abc import Iterator

from raypipe.config.training.recipe import Training
from raypipe.config.training.sets import TrainingSet
from raypipe.config.yaml.document import Problem

TEACHER_LOSSES = ("margin-mse", "kl")
TEMPERED = ("info-nce", "kl", "listwise")
"""Losses with a temperature; that of listwise is of its kl."""


def loss_problems(recipe: Training, kind: str | None) -> Iterator[Problem]:
    """A problem for every broken rule; `kind` is that of the model."""
    loss = recipe.loss
    if loss.margin != 1.0 and loss.name != "pairwise-hinge":
        yield Problem(("loss", "margin"), f"only for pairwise-hinge, not {loss.name}; remove it")
    if loss.judgements and loss.name not in TEACHER_LOSSES:
        text = f"only for a teacher's loss, margin-mse or kl, not {loss.name}; remove it"
        yield Problem(("loss", "judgements"), text)
    if loss.judgements and kind == "encoder":
        yield Problem(("loss", "judgements"), "an encoder has no cross-entropy; remove it")
    if loss.judgements and not _have_teacher(recipe):
        text = "no training set has a teacher; write loss.name: cross-entropy"
        yield Problem(("loss", "judgements"), text)
    if loss.temperature != 1.0 and loss.name not in TEMPERED:
        text = f"only for info-nce, kl and listwise, not {loss.name}; remove it"
        yield Problem(("loss", "temperature"), text)
    for name in ("teacher_weight", "blend"):
        if getattr(loss, name) and loss.name != "listwise":
            yield Problem(("loss", name), f"only for listwise, not {loss.name}; remove it")
    if loss.teacher_weight and not _have_teacher(recipe):
        text = "no training set has a teacher; give train.NAME.teacher, or remove it"
        yield Problem(("loss", "teacher_weight"), text)
    yield from _blend(recipe)
    yield from _unlabelled(recipe)


def is_unlabelled(recipe: Training, wanted: TrainingSet) -> bool:
    """Whether a set has lists of passages that nobody judged, which a loss can learn from."""
    by_teacher = recipe.loss.name == "kl" or recipe.loss.teacher_weight > 0
    return (
        by_teacher
        and wanted.negatives is not None
        and wanted.qrels is None
        and wanted.teacher is not None
        and wanted.documents is None
    )


def _have_teacher(recipe: Training) -> bool:
    return any(each.teacher is not None for each in recipe.train.values())


def _blend(recipe: Training) -> Iterator[Problem]:
    sets = {name: each for name, each in recipe.train.items() if each.blend is not None}
    if recipe.loss.name == "listwise" and recipe.loss.blend and not sets:
        text = "no training set says where the first stage's scores come from; give its blend.runs"
        yield Problem(("loss", "blend"), text)
    for name, each in sets.items():
        key = ("train", name, "blend")
        if not recipe.loss.blend:
            yield Problem(key, "expected loss.blend, its weight, too; give it, or remove this")
        if each.texts is None and (each.negatives is None or each.documents is not None):
            yield Problem(key, "only for a set of passages with negatives; remove it")


def _unlabelled(recipe: Training) -> Iterator[Problem]:
    for name, each in recipe.train.items():
        negatives = each.negatives
        if negatives is None or not is_unlabelled(recipe, each):
            continue
        for key in ("relevant_last", "above_teacher"):
            if getattr(negatives, key) is not None:
                text = "a set without qrels has no relevant passages; remove it"
                yield Problem(("train", name, "negatives", key), text)
