"""The model that a training starts from: its commit, its folder's settings, and its proof."""

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from raypipe.config.parts import Model
from raypipe.config.phases import PhasedTraining, trainings_of
from raypipe.config.training import Training
from raypipe.config.training_rules import kind_of, training_problems
from raypipe.config.yaml import dotted
from raypipe.driver.models import at_commit, models_before
from raypipe.driver.proof.proof import UNPROVED, Subject, proofs_of, subject_of
from raypipe.errors import InputError
from raypipe.models.folder.model_folder import (
    RANDOM,
    layout_of,
    open_tokenizer,
    resolve_model,
)
from raypipe.models.folder.settings import (
    SPLADE,
    AnyConventions,
    Conventions,
    PairConventions,
    PretrainedConventions,
)
from raypipe.storage.storage import Storage
from raypipe.training.job import Job
from raypipe.training.start import is_whole
from raypipe.uris import address, is_hub


def with_start(
    recipe: Training | PhasedTraining, folder: Path, say: Callable[[str], None]
) -> Training | PhasedTraining:
    """A training's recipe, all of whose phases name the commit of its starting model.

    Raises:
        InputError: the hub does not say.
    """
    first = trainings_of(recipe)[0].model
    if not is_hub(first.start):
        return recipe
    model = Model(path=first.start, revision=first.revision, branch=first.branch)
    try:
        pinned = at_commit("model.start", model, models_before(folder), say)
    except InputError as error:
        raise InputError([f"model.start: {problem}" for problem in error.problems]) from error
    update = {"revision": pinned.revision, "branch": pinned.branch}
    return with_model(recipe, lambda training: update)


def with_own_settings(recipe: Training | PhasedTraining) -> Training | PhasedTraining:
    """The recipe with the settings of its start written down, where it names neither these nor a
    preset.

    What the rules say of a kind of model is checked now.

    Raises:
        InputError: the start does not say its settings, or has more than is trained, or the recipe
            does not fit its kind.
    """
    if all(kind_of(each.model) is not None for each in trainings_of(recipe)):
        return recipe
    first = trainings_of(recipe)[0].model
    start = address(first.start, first.revision)
    try:
        opened = resolve_model(start, None)
    except InputError as error:
        problems = [f"model.start: {problem}" for problem in error.problems]
        remedy = (
            "missing; name the settings of the trained model here, if its start does not say them"
        )
        raise InputError([*problems, f"model.preset: {remedy}"]) from error
    if opened.by_library:
        raise InputError(
            f"model.start: {start}: sentence-transformers computes this model, which a training "
            "neither trains nor keeps; name model.preset or model.settings to train the body of a "
            "BERT, or a relative of it, without what follows"
        )
    conventions = opened.conventions

    if isinstance(conventions, Conventions) and conventions.query_table is not None:
        raise InputError(
            f"model.start: {start}: expected queries that the model encodes, found those by the "
            f"table in {conventions.query_table}, which a training neither trains nor keeps; name "
            "model.preset: splade to train its body for both"
        )

    def described(training: Training) -> dict[str, Any]:
        return {} if kind_of(training.model) is not None else _settings(training, conventions)

    made = with_model(recipe, described)
    problems = [
        f"{dotted(problem.key)}: {problem.text} ({start} is of kind {conventions.kind})"
        for each in trainings_of(made)
        for problem in training_problems(each)
    ]
    if problems:
        raise InputError(list(dict.fromkeys(problems)))
    return made


def _settings(training: Training, conventions: AnyConventions) -> dict[str, Any]:
    """The start's settings, and its number of units if the recipe names none."""
    update: dict[str, Any] = {"settings": conventions.to_json()}
    one_unit = isinstance(conventions, PairConventions) and conventions.relevant_label is None
    if one_unit and "head" not in training.model.model_fields_set:
        update["head"] = 1
    return update


def with_model(
    recipe: Training | PhasedTraining, update: Callable[[Training], Mapping[str, Any]]
) -> Training | PhasedTraining:
    """The recipe, whose `model` section gets these keys, in each phase."""
    if isinstance(recipe, Training):
        model = recipe.model.model_copy(update=update(recipe))
        return recipe.model_copy(update={"model": model})
    phases = []
    for phase in recipe.phases:
        training = with_model(phase.training, update)
        assert isinstance(training, Training)
        phases.append(replace(phase, training=training))
    return PhasedTraining(tuple(phases))


START = "model.start"
"""The key of a training's starting model, with which lines and problems begin."""


def check_start(job: Job, stores: Storage, say: Callable[[str], None]) -> None:
    """Returns nothing if the model before its first step computes what its own library does.

    A start of random weights has no library.

    Raises:
        InputError: it reads or computes otherwise, or the library cannot compute it.
    """
    if os.environ.get(UNPROVED) or job.start.weights_sha256 == RANDOM:
        return
    subject = subject_of_start(job)
    proof = proofs_of({START: subject}, stores, say)[START]
    if not proof.problem:
        return
    if proof.refused:
        raise InputError(
            f"{START}: {job.start.path}: raypipe trains only from models that {proof.library} "
            f"computes too, and {proof.problem}"
        )
    how = (
        "name model.preset, or settings of your own in model.settings, to train the body alone, by "
        "the inputs of these"
        if subject.own
        else "open weights and tokenizer with transformers, save both anew with save_pretrained, "
        "and start from that folder"
    )
    raise InputError(
        f"{START}: {job.start.path}: raypipe reads or computes this model otherwise than "
        f"{proof.library} does, and so trains nothing from it; {proof.problem.rstrip('.')}; {how}"
    )


def subject_of_start(job: Job) -> Subject:
    """The starting model as it is compared: as sentence-transformers opens its folder, where the
    training has the folder's settings.

    Otherwise transformers opens it, with its head if the training begins with that, or its body.
    """
    start, trained = job.start, job.conventions
    own = subject_of(start)
    if start.adapter is not None:
        return own
    if own.own and _has_settings_of_folder(job):
        return own
    return Subject(replace(own.model, conventions=_settings_to_prove(job, trained)), own=False)


def _has_settings_of_folder(job: Job) -> bool:
    """Whether the training has the settings that its start's folder states, limits aside."""
    settings = job.recipe.model.settings
    if settings is None:
        return False
    try:
        return settings == resolve_model(job.start.path, None).conventions.to_json()
    except InputError:  # the folder does not state them all
        return False


def _settings_to_prove(job: Job, trained: AnyConventions) -> AnyConventions:
    """The settings by which transformers opens what the training begins with."""
    whole, segments = is_whole(job), int(job.start.config().get("type_vocab_size", 1))
    if isinstance(trained, PairConventions) and whole:
        row = trained.segment_row if segments < len(trained.segments) else None
        return replace(trained, precision=None, first_tokenizer=False, segment_row=row)
    if isinstance(trained, Conventions) and (whole or not trained.is_sparse):
        return replace(trained, precision=None)
    words = isinstance(trained, PretrainedConventions) and whole
    if isinstance(trained, Conventions):
        limit = trained.passage_limit
    else:
        alone = layout_of(job.start, open_tokenizer(job.start), (0,))
        limit = max(1, trained.total_limit - alone.num_specials)
    return Conventions(
        pooling=SPLADE if words else "mean",
        normalise=False,
        query_segment=0,
        passage_segment=min(1, segments - 1),
        query_limit=limit,
        passage_limit=limit,
    )
