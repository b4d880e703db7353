"""The phases of a training, one after the other: each begins from an earlier one's model."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from raypipe.config.phases import Phase, PhasedTraining, trainings_of
from raypipe.config.rounds import LAST
from raypipe.config.training import DevSet, Guarded, Training, TrainingSet
from raypipe.data.qrels import read_qrels
from raypipe.data.queries import read_queries
from raypipe.driver.mirror import address_of
from raypipe.driver.training.opened_sets import is_model, sources_of
from raypipe.driver.training.place import long_problems, start_model
from raypipe.driver.workspace import Workspace
from raypipe.errors import InputError, RaypipeError
from raypipe.models.folder.model_folder import resolve_model
from raypipe.training.job import conventions_of_training


@dataclass(frozen=True)
class Part:
    """A training, and what the phases before it left."""

    recipe: Training
    phase: str | None = None
    """None if the recipe has no phases."""
    is_last: bool = True
    new_head: bool = False
    """See Job."""
    seen: str | None = None
    """What the weights that it begins from were trained on; None: what their folder says."""
    models: Mapping[str, Path] = field(default_factory=dict)
    """The models of all earlier phases, by phase."""

    @property
    def named(self) -> str:
        """The recipe's name, with the phase."""
        return self.recipe.name if self.phase is None else f"{self.recipe.name}.{self.phase}"

    def folder(self, workspace: Workspace, name: str) -> Path:
        """The folder `name` of the workspace, or the phase's own inside it."""
        own = workspace.folder / name
        return own if self.phase is None else own / self.phase

    def of_collection(self, workspace: Workspace, name: str) -> Path:
        """The folder of a collection's own workspace; a name has no dot, so none meets another."""
        own = name if self.phase is None else f"{self.phase}.{name}"
        return workspace.folder / "collections" / own

    def model_name(self) -> str:
        """The name of the model's folder in OUT/models: the recipe's is the last phase's."""
        return self.recipe.name if self.is_last else self.named


def model_folders(recipe: Training | PhasedTraining) -> list[str]:
    """The names, in OUT, of the folders of all models that a recipe trains."""
    names = [recipe.name]
    if isinstance(recipe, PhasedTraining):
        for phase in recipe.phases[:-1]:
            names.append(Part(recipe.guarded(phase), phase.name, is_last=False).model_name())
    return [f"models/{name}" for name in names]


def check_phases(recipe: Training | PhasedTraining) -> None:
    """Returns nothing if later phases and guards can be read, later lengths fit the model, and
    models that search for negatives or teach are encoders and monoBERT models.

    A training without phases reads them before its first step; those of a later phase would
    otherwise be read only once the phases before it have been trained.

    Raises:
        InputError: every problem, with its phase.
    """
    problems = [*_no_encoders(recipe), *_no_teachers(recipe)]
    if isinstance(recipe, Training):
        if problems:
            raise InputError(problems)
        return
    start = start_model(recipe.first)
    problems += _unreadable(recipe.first.guard.values())
    for phase in recipe.phases[1:]:
        training = phase.training
        told = long_problems(training, start)
        told += _unreadable([*training.train.values(), *training.dev.values()])
        problems += [f"phase {phase.name}: {problem}" for problem in told]
    if problems:
        raise InputError(problems)


def _no_encoders(recipe: Training | PhasedTraining) -> Iterator[str]:
    """A problem for every set whose negatives another model than an encoder would search."""
    kinds, first = dict[str | None, str](), trainings_of(recipe)[0]
    for phase, key, each in _sets_of(recipe):
        kind = kinds[phase.name] = conventions_of_training(phase.training.model).kind
        mine = None if each.negatives is None else each.negatives.mine
        if mine is None or (mine.with_ == LAST and kind == "encoder"):
            continue
        searcher = phase.after if mine.with_ == LAST else mine.with_
        if searcher is None:
            kinds.setdefault(None, start_model(first).conventions.kind)
        if kinds[searcher] != "encoder":
            whose = first.model.start if searcher is None else f"phase {searcher}"
            yield (
                f"{key}.negatives.mine: expected an encoder, which searches; found a "
                f"{kinds[searcher]} model, of {whose}; give negatives.runs"
            )


def _no_teachers(recipe: Training | PhasedTraining) -> Iterator[str]:
    """A problem for every teacher that is a model and cannot score a set's one run."""
    for _, key, each in _sets_of(recipe):
        if each.teacher is None or not is_model(each.teacher):
            continue
        where = f"{key}.teacher: {each.teacher}"
        try:
            kind = resolve_model(each.teacher).conventions.kind
        except InputError as error:
            yield from (f"{where}: {problem}" for problem in error.problems)
            continue
        if kind != "mono":
            yield f"{where}: expected a monoBERT model or its scores, found one of kind {kind}"
        if len(sources_of(each)) != 1:
            yield f"{where}: it scores one run; give one file in negatives.runs, or mine alone"


def _sets_of(recipe: Training | PhasedTraining) -> Iterator[tuple[Phase, str, TrainingSet]]:
    """Every training set with its phase and its key, in order; one phase without a name of none."""
    phases = [Phase("", None, recipe)] if isinstance(recipe, Training) else recipe.phases
    for phase in phases:
        where = f"phase {phase.name}: " if phase.name else ""
        for name, each in phase.training.train.items():
            yield phase, f"{where}train.{name}", each


_READERS: dict[str, Callable[[Path], object]] = {"queries": read_queries, "qrels": read_qrels}


def _unreadable(sets: Iterable[TrainingSet | DevSet | Guarded]) -> list[str]:
    """The problems of the sets' queries and qrels that are on this machine."""
    named = {(getattr(each, kind), kind) for each in sets for kind in _READERS}
    problems = []
    for path, kind in sorted(each for each in named if each[0] is not None):
        try:
            if "://" not in path:
                _READERS[kind](Path(path))
        except InputError as error:
            problems += error.problems
    return problems


def check_reachable(recipe: Training | PhasedTraining, folder: Path, *, joins: bool) -> None:
    """Returns nothing if every node can read the models that phases leave in `folder`.

    Raises:
        InputError: the workspace is in a bucket and other machines train.
    """
    if isinstance(recipe, PhasedTraining) and joins and address_of(folder) != str(folder):
        raise InputError(
            f"{address_of(folder)}: a later phase begins from the model of an earlier one, which "
            "other nodes cannot read there; expected as --out a folder that all nodes share. The "
            "recipe's stores may be in a bucket"
        )


def parts_of(recipe: Training | PhasedTraining, models: Mapping[str, Path]) -> Iterator[Part]:
    """The trainings of a recipe, in order; `models` has those of the phases that have ended.

    Each part is made when it is asked for: a later phase needs the folder of the one that it
    begins from.
    """
    if isinstance(recipe, Training):
        yield Part(recipe)
        return
    for phase in recipe.phases:
        yield _part(recipe, phase, models)


def _part(recipe: PhasedTraining, phase: Phase, models: Mapping[str, Path]) -> Part:
    training = recipe.guarded(phase)
    is_last = phase is recipe.phases[-1]
    if phase.after is None:
        return Part(training, phase.name, is_last, models=dict(models))
    folder = models[phase.after]
    before = next(each.training for each in recipe.phases if each.name == phase.after)
    model = training.model.model_copy(update={"start": str(folder)})
    kinds = [conventions_of_training(each.model).kind for each in (before, training)]
    body = json.loads((folder / "raypipe.json").read_bytes())
    return Part(
        training.model_copy(update={"model": model}),
        phase.name,
        is_last,
        new_head=kinds[0] != kinds[1] and kinds[1] != "encoder",
        seen=str(body["start_weights_saw"]),
        models=dict(models),
    )


def in_phases(
    recipe: Training | PhasedTraining,
    train: Callable[[Part], tuple[dict[str, Any], str, Path]],
    say: Callable[[str], None],
) -> tuple[dict[str, Any], str, Path]:
    """Summary, table and model folder of a recipe; of phases the last one's, with the others'.

    Args:
        recipe: with or without phases.
        train: one training to its end: its summary, its table and its model's folder.
        say: a line for each phase.
    """
    models: dict[str, Path] = {}
    summaries, tables = dict[str, Any](), list[str]()
    for number, part in enumerate(parts_of(recipe, models), 1):
        if part.phase is not None and isinstance(recipe, PhasedTraining):
            say(f"phase {part.phase} ({number} of {len(recipe.phases)})")
        try:
            summary, table, folder = train(part)
        except RaypipeError as error:
            if part.phase is not None:
                error.add_note(f"in phase {part.phase}")
            raise
        if part.phase is None:
            return summary, table, folder
        # A worker of Ray Train has a working directory of its own.
        models[part.phase], summaries[part.phase] = folder.absolute(), summary
        tables.append(table)
    return summary | {"phases": summaries}, "\n".join(tables), folder
