"""The rules between the parts of a training recipe."""

from collections.abc import Iterator

from raypipe.config.pretraining_rules import pretraining_problems
from raypipe.config.rounds import mining_problems, steps_between_searches
from raypipe.config.rules import collection_problems
from raypipe.config.training import (
    DevSet,
    Sparsity,
    TrainDocuments,
    TrainedModel,
    Training,
    TrainingSet,
)
from raypipe.config.yaml import Key, Problem
from raypipe.errors import did_you_mean, listed
from raypipe.vocabulary import MASKED_WORD_LOSS

TEACHER_LOSSES = ("margin-mse", "mse", "kl")
OF_LISTS = ("mse", "kl")
"""Those that need no relevant passage."""
TEMPERED = ("info-nce", "kl", "listwise")
"""Losses with a temperature; that of listwise is of its kl."""


def loss_problems(recipe: Training, kind: str | None) -> Iterator[Problem]:
    """A problem for every broken rule; `kind` is that of the model."""
    loss = recipe.loss
    if loss.margin != 1.0 and loss.name != "pairwise-hinge":
        yield Problem(("loss", "margin"), f"only for pairwise-hinge, not {loss.name}; remove it")
    if loss.judgements and loss.name not in TEACHER_LOSSES:
        text = f"only for a teacher's loss, margin-mse, mse or kl, not {loss.name}; remove it"
        yield Problem(("loss", "judgements"), text)
    if loss.judgements and kind == "encoder":
        yield Problem(("loss", "judgements"), "an encoder has no cross-entropy; remove it")
    if loss.judgements and not _have_teacher(recipe):
        text = "no training set has a teacher; write loss.name: cross-entropy"
        yield Problem(("loss", "judgements"), text)
    if loss.temperature != 1.0 and loss.name not in TEMPERED:
        text = f"only for info-nce, kl and listwise, not {loss.name}; remove it"
        yield Problem(("loss", "temperature"), text)
    if loss.teacher_temperature is not None:
        if loss.name not in TEACHER_LOSSES and not loss.teacher_weight:
            text = f"only for a loss that a teacher's scores are in, not {loss.name}; remove it"
            yield Problem(("loss", "teacher_temperature"), text)
    for name in ("teacher_weight", "blend"):
        if getattr(loss, name) and loss.name != "listwise":
            yield Problem(("loss", name), f"only for listwise, not {loss.name}; remove it")
    if loss.teacher_weight and not _have_teacher(recipe):
        text = "no training set has a teacher; give train.NAME.teacher, or remove it"
        yield Problem(("loss", "teacher_weight"), text)
    yield from _blend(recipe)
    yield from _unlabelled(recipe)
    yield from _sparsity(recipe)


SPARSITY = ("flops", "l1")
"""What is added to the loss of a splade model."""


def _sparsity(recipe: Training) -> Iterator[Problem]:
    model = recipe.model
    stated = model.preset is not None or model.settings is not None
    pooling = str((model.settings or {}).get("pooling"))
    sparse = model.preset == "splade" or pooling.startswith("splade")
    for name in SPARSITY:
        sparsity: Sparsity | None = getattr(recipe.loss, name)
        if sparsity is None:
            continue
        if stated and not sparse:
            text = "only for a splade model (model.preset: splade), with a weight a word; remove it"
            yield Problem(("loss", name), text)
        if not sparsity.queries and not sparsity.passages:
            text = "expected queries or passages above 0, found neither; give one, or remove it"
            yield Problem(("loss", name), text)


def is_unlabelled(recipe: Training, training_set: TrainingSet) -> bool:
    """Whether a set has lists of passages that nobody judged, which a loss can learn from."""
    by_teacher = recipe.loss.name in OF_LISTS or recipe.loss.teacher_weight > 0
    return (
        by_teacher
        and training_set.negatives is not None
        and training_set.qrels is None
        and training_set.teacher is not None
        and training_set.documents is None
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


LOSSES = {
    "encoder": ("multi-label-margin", "info-nce", "margin-mse", "kl", "pairwise-hinge"),
    "mono": ("cross-entropy", "listwise", "margin-mse", "mse", "kl", "pairwise-hinge"),
    "duo": ("cross-entropy", "margin-mse"),
    "pretrained": ("masked-language-model",),
}
KINDS = {
    "repbert": "encoder",
    "minilm": "encoder",
    "splade": "encoder",
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
        *mining_problems(recipe, kind),
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
        if preset == "unicoil":
            hint = ": uniCOIL is not supported; a sparse model is trained with preset splade;"
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
            for other in (*brought, "exclude", "documents", "blend"):
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
        if (number := len(sources) - sources.count(None)) != 1:
            text = f"expected one of triples, negatives and pairs; found {number or 'none'} of them"
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
                "missing; negatives need to know what is relevant, except beside a teacher with "
                "mse, kl or loss.teacher_weight"
            )
            yield Problem((*key, "qrels"), text)
        if each.triples is not None and each.exclude is not None:
            yield Problem((*key, "exclude"), "only for runs, and triples have none; remove it")
        if each.triples is not None and each.teacher is not None:
            text = "cannot be combined with triples, which are used as they are; use negatives"
            yield Problem((*key, "teacher"), text)
        elif (
            recipe.loss.name in TEACHER_LOSSES
            and each.teacher is None
            and not recipe.loss.judgements
        ):
            yield Problem((*key, "teacher"), f"missing; {recipe.loss.name} learns from its scores")
        elif each.teacher is not None and not _uses_teacher(recipe, each):
            text = (
                f"{recipe.loss.name} learns from no teacher, and relevant passages without its "
                "score would be left out; remove it, write loss.name: margin-mse, mse or kl (or "
                "listwise with teacher_weight), or give negatives.above_teacher"
            )
            yield Problem((*key, "teacher"), text)
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


def _uses_teacher(recipe: Training, each: TrainingSet) -> bool:
    """Whether a loss learns from a set's teacher, or its negatives are chosen by it; so also of
    sets that other rules keep from having one."""
    if each.negatives is None or each.documents is not None:
        return True
    chosen = each.negatives.above_teacher is not None
    return recipe.loss.name in TEACHER_LOSSES or recipe.loss.teacher_weight > 0 or chosen


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
    warmup = recipe.optimiser.warmup
    steps = steps_between_searches(recipe) or recipe.steps  # each round has its own schedule
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
    for name in SPARSITY:
        sparsity: Sparsity | None = getattr(recipe.loss, name)
        if sparsity is not None and steps is not None and sparsity.warmup > steps:
            text = f"expected at most steps, {steps:,}; found {sparsity.warmup:,}"
            yield Problem(("loss", name, "warmup"), text)
    patience = recipe.validate_.patience if recipe.validate_ else None
    if recipe.validate_ is not None and steps is not None and recipe.validate_.every > steps:
        text = f"expected at most steps, {steps:,}; found {recipe.validate_.every:,}"
        yield Problem(("validate", "every"), text)
    if patience is not None and recipe.optimiser.decay != "constant" and patience < 2:
        text = "expected 2 or more: with a falling rate one measurement says little"
        yield Problem(("validate", "patience"), text)


def document_problems(recipe: Training, kind: str | None) -> Iterator[Problem]:
    """A problem for every broken rule about sets of documents."""
    for name, each in recipe.train.items():
        if each.documents is not None:
            yield from _of_documents(recipe, ("train", name), each)
            yield from _train_documents(("train", name), each, each.documents)
    for name, dev in recipe.dev.items():
        if dev.documents is None:
            continue
        key: Key = ("dev", name, "documents")
        yield from _of_documents(recipe, ("dev", name), dev)
        if dev.documents.k is not None and dev.documents.method != "k-max-avgp":
            text = f"for method k-max-avgp only, not {dev.documents.method}; remove it"
            yield Problem((*key, "k"), text)
        if kind == "duo":
            yield Problem(key, "a duoBERT model scores no single passage; remove it")


def _of_documents(recipe: Training, key: Key, each: TrainingSet | DevSet) -> Iterator[Problem]:
    collection = None if each.collection is None else recipe.collections.get(each.collection)
    if collection is not None and collection.split is None:
        text = f"expected a collection with split; collections.{each.collection} has none"
        yield Problem((*key, "documents"), text)


def _train_documents(key: Key, each: TrainingSet, documents: TrainDocuments) -> Iterator[Problem]:
    if each.negatives is None:
        yield Problem((*key, "documents"), "needs qrels and negatives, both of documents")
    if each.teacher is not None:
        yield Problem((*key, "teacher"), "has no scores of documents' passages; remove it")
    if documents.best is not None and documents.scored_by is None:
        text = "missing; best needs the earlier phase whose model tells which passages they are"
        yield Problem((*key, "documents", "scored_by"), text)
    if documents.scored_by is not None and documents.best is None:
        text = "scores passages only to keep the best of them; give best, or remove it"
        yield Problem((*key, "documents", "scored_by"), text)
