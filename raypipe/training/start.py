"""The starting weights of a training: a checkpoint's, with what it lacks drawn or refused."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from raypipe.config.training import Training
from raypipe.errors import InputError, problems_in
from raypipe.models.family import family_of
from raypipe.models.folder.adapters import adapter_folder
from raypipe.models.folder.files import initializer_range
from raypipe.models.folder.model_folder import RANDOM, ModelFolder, layouts_of, load_weights
from raypipe.models.folder.modules import ModelFiles, checkpoint_shapes
from raypipe.models.folder.settings import (
    AnyConventions,
    Conventions,
    PairConventions,
    PretrainedConventions,
)
from raypipe.models.tensors import Shape, with_third_segment
from raypipe.text.inputs import Layouts
from raypipe.training.adapter_start import adapter_lacks, start_from_
from raypipe.training.job import Job, conventions_of_training
from raypipe.training.trainee import LowRank, Trainee


@dataclass(frozen=True, slots=True)
class PretrainingTensors:
    """All tensors of a model in pre-training, fp32, by the names that transformers saves."""

    trained: dict[str, Tensor]
    carried: dict[str, Tensor]
    """Tensors that this training does not change and hands on: without next-sentence prediction,
    the pooler and its classifier."""


def pretraining_tensors(
    checkpoint: Mapping[str, Tensor] | None,
    config: Mapping[str, Any],
    *,
    next_sentence: bool,
    draw_missing: bool,
    seed: int,
) -> PretrainingTensors:
    """The tensors of a checkpoint, with the heads of pre-training.

    What is drawn comes from N(0, initializer_range), with biases 0 and normalisations 1, as in
    BERT's own code but for its cut at two standard deviations.

    Args:
        checkpoint: tensors by saved name; None draws all of them, the pooler too.
        config: config.json.
        next_sentence: whether pooler and classifier are trained.
        draw_missing: draw the heads that the checkpoint lacks.
        seed: of the draws.

    Raises:
        InputError: the checkpoint lacks a tensor and `draw_missing` is off, a tensor has another
            shape, or its decoder is not its table of word embeddings.
    """
    shapes = _shapes(config, next_sentence=next_sentence)
    generator, std = torch.Generator().manual_seed(seed), initializer_range(config)
    tensors = {} if checkpoint is None else _named(checkpoint, config)
    missing = [name for name in shapes if name not in tensors]
    if checkpoint is not None and missing and not draw_missing:
        raise InputError([lacking(name) for name in missing])
    drawn = {name: shapes[name] for name in missing}
    if checkpoint is None:
        drawn |= _pooler(config)
    for name, shape in drawn.items():
        tensors[name] = _drawn(name, shape, generator, std)
    problems = [
        f"{name}: expected shape {list(shape)}, found {list(tensors[name].shape)}"
        for name, shape in shapes.items()
        if tuple(tensors[name].shape) != shape
    ]
    if problems:
        raise InputError(problems)
    return PretrainingTensors(
        {name: tensors[name] for name in shapes},
        {name: tensor for name, tensor in tensors.items() if name not in shapes},
    )


def missing_at_start(
    shapes: Mapping[str, Shape], config: Mapping[str, Any], *, next_sentence: bool
) -> list[str]:
    """The tensors that a pre-training needs and a checkpoint of these shapes lacks."""
    wanted = _shapes(config, next_sentence=next_sentence)
    return [name for name in wanted if name not in _names(shapes, config).values()]


def lacking(name: str) -> str:
    """The problem of a tensor that a training needs and its start lacks."""
    return (
        f"the checkpoint lacks the tensor {name}; start from one that has it, or write "
        "model.draw_missing: true to draw it by the seed"
    )


def _shapes(config: Mapping[str, Any], *, next_sentence: bool) -> dict[str, Shape]:
    family = family_of(config)
    if next_sentence and not family.pretraining.FOLLOWS:
        raise InputError(
            f"masking.next_sentence: expected model_type bert, found {config['model_type']}, which "
            "has no such head; write next_sentence: false"
        )
    body = family.files.expected_shapes(config, num_labels=None)
    named = {family.files.saved_name(name, head=True): shape for name, shape in body.items()}
    return {**named, **family.pretraining.shapes(config, next_sentence=next_sentence)}


def _pooler(config: Mapping[str, Any]) -> dict[str, Shape]:
    files = family_of(config).files
    shapes = files.expected_shapes(config, num_labels=1)
    return {files.saved_name(name, head=True): shapes[name] for name in files.POOLER}


def _names(names: Mapping[str, Any], config: Mapping[str, Any]) -> dict[str, str]:
    """Name in the checkpoint -> name in the training: body, pooler and heads."""
    family = family_of(config)
    trained = family.files.trained_names(list(names), head=True)
    kept = {name: full for name, full in trained.items() if full not in family.files.HEADS}
    heads = family.pretraining.canonical_names(name for name in names if name not in kept)
    return {**kept, **{name: place for place, name in heads.items()}}


def _named(checkpoint: Mapping[str, Tensor], config: Mapping[str, Any]) -> dict[str, Tensor]:
    if problems := family_of(config).pretraining.untied(checkpoint):
        raise InputError(problems)
    names = _names(checkpoint, config)
    return {full: checkpoint[name].float().clone() for name, full in names.items()}


def is_normalisation(name: str) -> bool:
    """Whether a tensor of that name belongs to a normalisation.

    BERT's are called LayerNorm, others `sa_layer_norm`, `attn_norm` or `head.norm`.
    """
    return "norm" in name.lower()


def _drawn(name: str, shape: Shape, generator: torch.Generator, std: float) -> Tensor:
    if is_normalisation(name) and name.endswith(".weight"):
        return torch.ones(shape)
    if name.endswith("bias"):
        return torch.zeros(shape)
    return torch.randn(shape, generator=generator) * std


def starting_tensors(
    checkpoint: Mapping[str, Tensor],
    config: Mapping[str, Any],
    conventions: AnyConventions,
    *,
    num_units: int,
    seed: int,
    draw_missing: bool = False,
    new_head: bool = False,
) -> dict[str, Tensor]:
    """The tensors of a reranker, or of an encoder without pooler and head, fp32.

    Names are those under which transformers saves a reranker; for an encoder too, until the export.
    A splade model has the masked-word head too, and `draw_missing` draws what it lacks.
    A missing classifier is drawn from N(0, initializer_range) with the seed, as in BERT's own code,
    and with `draw_missing` a missing pooler too; a duoBERT model's third segment row follows
    `segment_row` in its settings. With `new_head` a classifier is drawn even if the checkpoint has
    one: that one judges something else.

    Raises:
        InputError: the pooler is missing, or a third segment cannot be had (`with_third_segment`);
            or for a splade model, see `pretraining_tensors`.
    """
    assert not isinstance(conventions, PretrainedConventions)
    if conventions.is_sparse:
        return pretraining_tensors(
            checkpoint, config, next_sentence=False, draw_missing=draw_missing, seed=seed
        ).trained
    files = family_of(config).files
    is_encoder = isinstance(conventions, Conventions)
    names = files.trained_names(checkpoint, head=not is_encoder)
    kept = {full: checkpoint[name].float().clone() for name, full in names.items()}
    if isinstance(conventions, Conventions):
        return kept
    generator = torch.Generator().manual_seed(seed)
    std, hidden = initializer_range(config), files.as_bert(config)["hidden_size"]
    pooler, beside = (files.saved_name(name, head=True) for name in files.POOLER)
    missing = [name for name in (pooler, beside) if name not in kept]
    if missing and not draw_missing:
        raise InputError([lacking(name) for name in missing])
    if missing:
        kept[pooler] = _drawn(pooler, (hidden, hidden), generator, std)
        kept[beside] = _drawn(beside, (hidden,), generator, std)
    classifier, bias = files.HEADS
    if new_head or len(kept.get(bias, ())) != num_units:
        kept[classifier] = torch.randn(num_units, hidden, generator=generator) * std
        kept[bias] = torch.zeros(num_units)
    if conventions.kind == "duo":
        segments = files.saved_name(files.SEGMENTS, head=True)
        table = kept.get(segments, torch.empty(0, hidden))
        choice = conventions.segment_row if len(table) < 3 else None
        kept[segments] = with_third_segment(table, choice).clone()
    return kept


def missing_problems(recipe: Training, start: ModelFolder) -> list[str]:
    """One problem for each tensor that the training needs, and neither has nor may draw."""
    missing = missing_tensors(recipe, start)
    if recipe.model.adapter is not None:
        return [
            f"model.start: {start.path}: the checkpoint lacks the tensor {name}, and a low-rank "
            "adapter cannot carry it; remove model.adapter to train every weight, or start from a "
            "checkpoint that has it"
            for name in missing
        ]
    if recipe.model.draw_missing:
        return []
    return [f"model.start: {start.path}: {lacking(name)}" for name in missing]


def drawn_lines(recipe: Training, start: ModelFolder) -> list[str]:
    """What is drawn before the first step, for the log and the table; a classifier goes without
    saying, but not in the place of the start's own."""
    how = f"from N(0, {initializer_range(start.config()):g}) with seed {recipe.seed}"
    if start.weights_sha256 == RANDOM:
        return [f"start: every weight is drawn {how}"]
    missing, units, head = missing_tensors(recipe, start), _units_of(start), recipe.model.head
    lines = [f"start: the checkpoint lacks {', '.join(missing)}: drawn {how}"] if missing else []
    if lacking_head := adapter_lacks(recipe, start):
        lines.append(f"start: the adapter lacks {lacking_head}: drawn {how}")
    is_pair = isinstance(conventions_of_training(recipe.model), PairConventions)
    if is_pair and recipe.masking is None and units not in (None, head):
        keep = f"; model.head: {units} begins with its own" if units in (1, 2) else ""
        lines.append(
            f"start: its head has {units} units, and model.head is {head}: a new one is drawn "
            f"{how}{keep}"
        )
    return lines


def _units_of(start: ModelFolder) -> int | None:
    """The number of units of a checkpoint's head; None if it has none."""
    shapes = checkpoint_shapes(ModelFiles(start.folder), start.config())
    files = start.family.files
    names = files.trained_names(list(shapes), head=True)
    found = [shapes[name] for name, full in names.items() if full == files.HEADS[1]]
    return found[0][0] if found and found[0] else None


def missing_tensors(recipe: Training, start: ModelFolder) -> list[str]:
    """The tensors, but for a reranker's classifier, that the training needs and its start lacks."""
    if start.weights_sha256 == RANDOM:
        return []
    shapes = checkpoint_shapes(ModelFiles(start.folder), start.config())
    if recipe.masking is not None:
        next_sentence = recipe.masking.next_sentence
        return missing_at_start(shapes, start.config(), next_sentence=next_sentence)
    conventions = conventions_of_training(recipe.model)
    if conventions.is_sparse:
        return missing_at_start(shapes, start.config(), next_sentence=False)
    if not isinstance(conventions, PairConventions):
        return []
    files = start.family.files
    held = set(files.trained_names(list(shapes), head=True).values())
    poolers = [files.saved_name(name, head=True) for name in files.POOLER]
    return [name for name in poolers if name not in held]


def is_whole(job: Job) -> bool:
    """Whether the starting weights have every tensor of the trained model, its head included."""
    if missing_tensors(job.recipe, job.start):
        return False
    if not isinstance(job.conventions, PairConventions):
        return True
    return _units_of(job.start) == job.recipe.model.head


def layouts_for(job: Job) -> Layouts:
    """How the trained model's inputs are made, whatever kind of model it starts from."""
    return layouts_of(replace(job.start, conventions=job.conventions))


def pretraining_start(job: Job) -> PretrainingTensors:
    """The tensors of a pre-training before its first step."""
    recipe = job.recipe
    assert recipe.masking is not None
    return pretraining_tensors(
        None if recipe.model.weights == "random" else load_weights(job.start),
        job.start.config(),
        next_sentence=recipe.masking.next_sentence,
        draw_missing=recipe.model.draw_missing,
        seed=recipe.seed,
    )


def starting_tensors_of(job: Job) -> dict[str, Tensor]:
    """The trained tensors before the first step."""
    if job.is_pretraining:
        return pretraining_start(job).trained
    checkpoint = load_weights(job.start)
    with problems_in(job.start.folder):
        _check_finite(checkpoint)
        return starting_tensors(
            checkpoint,
            job.start.config(),
            job.conventions,
            num_units=job.recipe.model.head,
            seed=job.recipe.seed,
            draw_missing=job.recipe.model.draw_missing,
            new_head=job.new_head,
        )


def _check_finite(checkpoint: Mapping[str, Tensor]) -> None:
    """Returns nothing if the starting weights are numbers.

    Raises:
        InputError: tensors hold NaN or infinite values, of which nothing can be trained.
    """
    wrong = [name for name, tensor in checkpoint.items() if not tensor.isfinite().all()]
    if wrong:
        raise InputError(
            f"{wrong[0]}: expected finite numbers, found NaN or infinite ones, in {len(wrong)} of "
            f"{len(checkpoint)} tensors; start from weights of before they broke"
        )


def trainee_of(job: Job, device: str) -> Trainee:
    """The model before its first step, the same in every worker."""
    recipe, conventions = job.recipe, job.conventions
    config = job.start.config()
    tensors = starting_tensors_of(job)
    adapter = recipe.model.adapter
    trainee = Trainee(
        tensors,
        config,
        conventions,
        low_rank=None if adapter is None else LowRank(adapter.rank, adapter.alpha),
        seed=recipe.seed,
        device=device,
        dropout=recipe.dropout,
        recompute=recipe.resources.recompute,
        bf16=recipe.resources.precision == "bf16",
    )
    if adapter is not None and adapter.start is not None:
        expected = job.spec.params["adapter_sha256"]
        start_from_(trainee, adapter_folder(adapter.start), sha256=expected)
    return trainee
