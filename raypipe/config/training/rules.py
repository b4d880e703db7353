"""The rules between the parts of a training recipe."""

from collections.abc import Iterator

from raypipe.config.pipeline.rules import collection_problems
from raypipe.config.training.documents import document_problems
from raypipe.config.training.loss_rules import TEACHER_LOSSES, is_unlabelled, loss_problems
from raypipe.config.training.pretraining_rules import pretraining_problems
from raypipe.config.training.recipe import TrainedModel, Training
from raypipe.config.training.sets import TrainingSet
from raypipe.config.yaml.document import Key, Problem
from raypipe.config.yaml.words import did_you_mean, listed
from raypipe.vocabulary import MASKED_WORD_LOSS

LOSSES = {
    "encoder": ("multi-label-margin", "info-nce", "margin-mse", "kl", "pairwise-hinge"),
    "mono": ("cross-entropy", "listwise", "margin-mse", "kl", "pairwise-hinge"),
    "duo": ("cross-entropy", "margin-mse"),
    "pretrained": ("masked-language-model",),
}
KINDS = {
    "repbert": "encoder",
    "minilm": "encoder",
    "monobert": "mono",
    "monobert-reference": "mono",
    "monobert-longest-first": "mono",
    "duobert": "duo",
    "duobert-reference": "duo",
    "bert": "pretrained",
}
"""The kind of each preset; a test compares them with the presets themselves."""
PROMPTED = ("monot5", "monot5-mmarco", "duot5")
"""Presets of models that read a prompt, which are scored with and not trained."""


def training_problems(recipe: Training) -> list[Problem]:
    """A problem for every broken rule."""
    kind = kind_of(recipe.model)
    pretrained = kind == "pretrained" or (kind is None and recipe.masking is not None)
    return [
        *_model(recipe),
        *pretraining_problems(recipe, pretrained=pretrained),
        *_collections(recipe),
        *_known_collections(recipe),
        *([] if pretrained else _sets(recipe)),
        *document_problems(recipe, kind),
        *_guards(recipe),
        *loss_problems(recipe, kind),
        *_length(recipe),
        *schedule_problems(recipe),
        *_resources(recipe),
    ]


def kind_of(model: TrainedModel) -> str | None:
    """The kind of the trained model; None if only the start's own folder says it."""
    if model.preset is None:
        return None if model.settings is None else str(model.settings.get("kind"))
    return KINDS.get(model.preset)


def _model(recipe: Training) -> Iterator[Problem]:
    preset, loss = recipe.model.preset, recipe.loss.name
    if preset is not None and recipe.model.settings is not None:
        yield Problem(("model", "settings"), "found preset too; remove one of them")
    if preset is None and recipe.model.weights == "random":
        text = "missing; with weights: random no folder says the settings"
        yield Problem(("model", "preset"), text)
    if preset is not None and preset not in KINDS:
        hint = did_you_mean(preset, KINDS)
        if preset in PROMPTED:
            hint = ", whose models read a prompt: they are scored with and not trained;"
        text = f"unknown preset {preset!r}{hint} known: {listed(KINDS)}"
        yield Problem(("model", "preset"), text)
        return
    kind = kind_of(recipe.model)
    if kind is None:
        return
    if kind not in LOSSES:
        text = f"expected the kind {listed(LOSSES)}; found {kind}"
        yield Problem(("model", "settings"), text)
        return
    if loss not in LOSSES[kind]:
        text = f"expected a loss of {kind} models: {listed(LOSSES[kind])}; found {loss}"
        yield Problem(("loss", "name"), text)
    if loss == "pairwise-hinge" and kind == "mono" and recipe.model.head != 1:
        text = "pairwise-hinge is on the raw score of a head of one unit; write model.head: 1"
        yield Problem(("model", "head"), text)
    if kind == "encoder" and recipe.model.head != 2:
        yield Problem(("model", "head"), "an encoder has no head; remove it")
    if recipe.model.adapter is not None and recipe.model.adapter.start == "minilm":
        text = (
            "expected an adapter: a folder or an included one "
            "(general-mono, minilm-mono, minilm-duo); found a whole model"
        )
        yield Problem(("model", "adapter", "start"), text)
    if recipe.model.segment_row and kind != "duo":
        yield Problem(("model", "segment_row"), f"only for duoBERT models, not {kind}; remove it")


def _known_collections(recipe: Training) -> Iterator[Problem]:
    for group in ("train", "dev", "guard"):
        for name, each in getattr(recipe, group).items():
            if each.collection is not None and each.collection not in recipe.collections:
                hint = did_you_mean(each.collection, recipe.collections)
                text = f"no such collection{hint} collections has {listed(recipe.collections)}"
                yield Problem((group, name, "collection"), text)


def _sets(recipe: Training) -> Iterator[Problem]:
    widths = set()
    for name, each in recipe.train.items():
        key = ("train", name)
        if each.texts is not None:
            brought = ("collection", "queries", "qrels", "negatives", "pairs", "triples", "teacher")
            for other in (*brought, "documents", "blend"):
                if getattr(each, other) is not None:
                    yield Problem((*key, other), "texts bring their own; remove it")
            if recipe.loss.name in TEACHER_LOSSES and not recipe.loss.judgements:
                text = f"{recipe.loss.name} learns from a teacher's scores, and texts have none"
                yield Problem((*key, "texts"), f"{text}; use negatives and teacher")
            if name in recipe.collections:
                text = f"texts make a collection of this name; rename collections.{name}"
                yield Problem(key, text)
            widths.add(1)
            continue
        for needed in ("collection", "queries"):
            if getattr(each, needed) is None:
                yield Problem((*key, needed), "missing; only a set of texts has none")
        sources = [each.triples, each.negatives, each.pairs]
        if (found := len(sources) - sources.count(None)) != 1:
            text = f"expected one of triples, negatives and pairs; found {found or 'none'} of them"
            yield Problem(key, text)
        yield from _pairs(recipe, key, each)
        if each.min_grade > 1 and recipe.loss.name == "multi-label-margin":
            text = (
                f"expected 1 with multi-label-margin, found {each.min_grade}: it would learn every "
                "judged document of a batch as relevant, lower grades too; use info-nce"
            )
            yield Problem((*key, "min_grade"), text)
        if each.negatives is not None and each.qrels is None and not is_unlabelled(recipe, each):
            text = (
                "missing; negatives need to know what is relevant, except beside a teacher with kl "
                "or with loss.teacher_weight"
            )
            yield Problem((*key, "qrels"), text)
        if each.triples is not None and each.teacher is not None:
            text = "cannot be combined with triples, which are used as they are; use negatives"
            yield Problem((*key, "teacher"), text)
        elif (
            recipe.loss.name in TEACHER_LOSSES
            and each.teacher is None
            and not recipe.loss.judgements
        ):
            yield Problem((*key, "teacher"), f"missing; {recipe.loss.name} learns from its scores")
        negatives = each.negatives
        if negatives is not None and negatives.last < negatives.first:
            text = f"expected at least negatives.first, {negatives.first}; found {negatives.last}"
            yield Problem((*key, "negatives", "last"), text)
        if negatives is not None and negatives.above_teacher is not None and each.teacher is None:
            yield Problem((*key, "teacher"), "missing; negatives.above_teacher compares its scores")
        width = 1 if negatives is None else negatives.per_example
        widths.add(0 if each.pairs is not None else width)
    if len(widths) > 1:
        text = f"expected one number of negatives an example in all of them; found {sorted(widths)}"
        yield Problem(("train",), text)
    if recipe.validate_ is not None and recipe.validate_.measure == MASKED_WORD_LOSS:
        text = f"{MASKED_WORD_LOSS} is only for a pre-training (model.preset: bert)"
        yield Problem(("validate", "measure"), text)
    if recipe.validate_ is not None and not recipe.dev:
        yield Problem(("dev",), "missing; validate needs queries to measure on")


def _pairs(recipe: Training, key: Key, each: TrainingSet) -> Iterator[Problem]:
    if each.pairs is None:
        return
    if each.qrels is None:
        yield Problem((*key, "qrels"), "missing; pairs need to know what is relevant")
    if each.teacher is not None:
        yield Problem((*key, "teacher"), "pairs are learnt by their labels; remove it")
    kind = kind_of(recipe.model) or "mono"
    if recipe.loss.name != "cross-entropy" or kind != "mono":
        text = f"only for the cross-entropy of a mono model, not {recipe.loss.name} of {kind}"
        yield Problem((*key, "pairs"), f"{text}; use negatives")


def _guards(recipe: Training) -> Iterator[Problem]:
    for name, each in recipe.guard.items():
        key = ("guard", name)
        if each.leave_out_passages and (each.qrels is None or each.collection is None):
            text = "needs qrels and collection, which say what was judged and where it is"
            yield Problem((*key, "leave_out_passages"), text)
        if each.collection is not None and each.qrels is None:
            yield Problem((*key, "collection"), "says where the qrels' passages are; give qrels")
    if recipe.dev and recipe.validate_ is None:
        yield Problem(("validate",), "missing; it says when to measure on the dev sets")


def _collections(recipe: Training) -> Iterator[Problem]:
    for name, each in recipe.collections.items():
        key = ("collections", name)
        if each.format == "python-docs":
            text = (
                "python-docs is written by `raypipe pipeline python-docs`; name its files here: "
                "format msmarco-v1, input OUT/python-docs/passages.tsv"
            )
            yield Problem((*key, "format"), text)
            continue
        for problem in collection_problems(each):
            yield Problem((*key, *problem.key[1:]), problem.text)


def _resources(recipe: Training) -> Iterator[Problem]:
    workers = recipe.resources.workers
    if workers > 1 and recipe.resources.backend == "inline":
        text = "several workers need resources.backend: ray"
        yield Problem(("resources", "workers"), text)
    if workers > recipe.batch:
        text = f"expected at most one worker an example of a batch, {recipe.batch}; found {workers}"
        yield Problem(("resources", "workers"), text)


def _length(recipe: Training) -> Iterator[Problem]:
    if recipe.steps is None and recipe.epochs is None:
        yield Problem(("steps",), "missing; say how long the training is: steps or epochs")
    if recipe.steps is not None and recipe.epochs is not None:
        yield Problem(("epochs",), "found steps too; remove one of them")


def schedule_problems(recipe: Training) -> Iterator[Problem]:
    """The problems of a schedule; steps that follow from epochs are checked once they are known."""
    warmup, steps = recipe.optimiser.warmup, recipe.steps
    if steps is not None and warmup > steps / 2:
        text = (
            f"{warmup:,} steps of warm-up exceed half of the {steps:,} steps; a shorter "
            "training states its own schedule"
        )
        yield Problem(("optimiser", "warmup"), text)
    falls = recipe.schedule_steps
    if falls is not None and recipe.optimiser.decay == "constant":
        yield Problem(("schedule_steps",), "a constant rate falls to nothing; remove it")
    elif falls is not None and steps is not None and falls < steps:
        text = f"expected at least steps, {steps:,}; found {falls:,}"
        yield Problem(("schedule_steps",), text)
    patience = recipe.validate_.patience if recipe.validate_ else None
    if recipe.validate_ is not None and steps is not None and recipe.validate_.every > steps:
        text = f"expected at most steps, {steps:,}; found {recipe.validate_.every:,}"
        yield Problem(("validate", "every"), text)
    if patience is not None and recipe.optimiser.decay != "constant" and patience < 2:
        text = "expected 2 or more: with a falling rate one measurement says little"
        yield Problem(("validate", "patience"), text)
