"""A training recipe with phases: each phase is a training that begins from an earlier one's model.

Keys beside `phases` hold for every phase, unless the phase says otherwise.
"""

from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from raypipe.config.fields import MAX_NAME, Name, Section
from raypipe.config.resolved import HEADER, resolved_yaml, section_lines
from raypipe.config.rounds import LAST, ROUND, rounds_of
from raypipe.config.structure import structural_problems
from raypipe.config.training import Guarded, Training
from raypipe.config.yaml import Document, Key, Problem, in_words
from raypipe.errors import InputError, did_you_mean, listed

SHARED = ("format", "name", "collections", "guard", "resources", "stores", "overrides")
"""What a recipe says once, for all its phases."""
MERGED = ("model", "optimiser", "validate")
"""Sections of which a phase may change single keys; any other key it replaces whole."""


class Own(Section):
    """The keys that only a phase has."""

    name: Name
    after: Name | None = None
    """The phase whose model it begins from; None means the one before."""


@dataclass(frozen=True)
class Phase:
    """One phase as a training of its own."""

    name: str
    after: str | None
    """The phase whose model it begins from; None for the first."""
    training: Training
    """Its `model.start` is that of the first phase."""


@dataclass(frozen=True)
class PhasedTraining:
    """A training recipe with phases, in their order."""

    phases: tuple[Phase, ...]

    @property
    def first(self) -> Training:
        """The first phase, which has all that is said once for all phases."""
        return self.phases[0].training

    @property
    def name(self) -> str:
        """The recipe's name."""
        return self.first.name

    def guarded(self, phase: Phase) -> Training:
        """The training of a phase with the other phases' dev sets among what is guarded.

        Else one phase could learn the queries by which another's checkpoint is chosen.
        """
        guard = dict(phase.training.guard)
        for other in self.phases:
            for name, dev in other.training.dev.items() if other is not phase else ():
                fields = {key: getattr(dev, key) for key in ("queries", "qrels", "collection")}
                guard[f"{other.name}.{name}"] = Guarded.model_construct(**fields)
        return phase.training.model_copy(update={"guard": guard})


@dataclass(frozen=True)
class Written:
    """A training as it is written, before it is checked: the recipe, or one of its phases."""

    body: dict[str, Any]
    origins: frozenset[Key] = frozenset()
    number: int | None = None
    """The phase's place in the list."""
    own: Own | None = None
    """The phase's own keys."""

    def problem(self, problem: Problem) -> Problem:
        """The problem at the key where the value is written: in the phase, or beside `phases`."""
        if self.number is None:
            return problem
        for stop in range(len(problem.key), 0, -1):
            inside: Key = ("phases", self.number, *problem.key[:stop])
            if inside in self.origins:
                return Problem(("phases", self.number, *problem.key), problem.text)
            if problem.key[:stop] in self.origins:
                return problem
        return Problem(("phases", self.number, *problem.key), problem.text)


def written_phases(document: Document) -> tuple[list[Written], list[Problem]]:
    """The phases of a recipe as it is written, each with what stands beside `phases`."""
    named, problems = _own_keys(document.data["phases"])
    if problems:
        return [], problems
    beside = {key: value for key, value in document.data.items() if key != "phases"}
    origins, phases = frozenset(document.origins), list[Written]()
    for number, (body, own) in enumerate(zip(document.data["phases"], named, strict=True)):
        key: Key = ("phases", number)
        earlier = [each.name for each in named[:number]]
        problems += _order(key, own, earlier)
        if own.after is None and earlier:
            own = own.model_copy(update={"after": earlier[-1]})
        merged = deepcopy(beside)
        for name, value in body.items():
            if name in Own.model_fields:
                continue
            if name in SHARED:
                text = "is said once for all phases; write it beside phases"
                problems.append(Problem((*key, name), text))
            elif name in MERGED and isinstance(value, dict) and isinstance(merged.get(name), dict):
                merged[name] = {**merged[name], **deepcopy(value)}
            else:
                merged[name] = deepcopy(value)
        if phases:
            problems += _begun(key, body, merged, phases[0].body)
        written = Written(merged, origins, number, own)
        problems += map(written.problem, unknown_phases(merged, earlier))
        phases.append(written)
    return phases, problems


def _own_keys(given: Any) -> tuple[list[Own], list[Problem]]:
    """The keys that only phases have, of each phase."""
    if not isinstance(given, list) or not given:
        text = f"expected a list of phases, each with a name; found {in_words(given)}"
        return [], [Problem(("phases",), text)]
    keys, problems = list[Own](), list[Problem]()
    for number, body in enumerate(given):
        key: Key = ("phases", number)
        if not isinstance(body, dict):
            problems.append(Problem(key, f"expected a mapping, KEY: VALUE; found {in_words(body)}"))
            continue
        own = {name: body[name] for name in Own.model_fields if name in body}
        try:
            keys.append(Own.model_validate(own))
        except ValidationError as error:
            faults = structural_problems(error, own, Own)
            problems += [Problem((*key, *each.key), each.text) for each in faults]
    return keys, problems


def trainings_of(recipe: Training | PhasedTraining) -> list[Training]:
    """The training of each phase; a recipe without phases is one training."""
    if isinstance(recipe, Training):
        return [recipe]
    return [phase.training for phase in recipe.phases]


def resolved_training(recipe: Training | PhasedTraining) -> str:
    """The recipe as text, as `resolved_yaml` writes one: each phase with all of its own keys.

    Loading the text gives the recipe.
    """
    if isinstance(recipe, Training):
        return resolved_yaml(recipe)
    every = set(Training.model_fields)
    shared = section_lines(recipe.first, without=every - {*SHARED} | {"stores", "overrides"})
    last = section_lines(recipe.first, without=every - {"stores", "overrides"})
    lines = [HEADER, *shared, *last, "phases:"]
    for phase in recipe.phases:
        lines.append(f"- name: {phase.name}")
        lines += [] if phase.after is None else [f"  after: {phase.after}"]
        own = list(section_lines(phase.training, indent="  ", without=SHARED))
        lines += own if phase.after is None else _without_start(own)
    return "\n".join(lines) + "\n"


def _without_start(lines: Sequence[str]) -> list[str]:
    """The lines of a later phase, which does not say where it begins."""
    at = lines.index("  model:") + 1
    return [line for place, line in enumerate(lines) if place != at]


def _order(key: Key, own: Own, earlier: Sequence[str]) -> Iterator[Problem]:
    if own.name in earlier:
        yield Problem((*key, "name"), f"an earlier phase is called {own.name}; rename one")
    if own.name == LAST:
        text = f"expected another name than {LAST}, which is the model that a phase begins from"
        yield Problem((*key, "name"), text)
    if own.after is not None and own.after not in earlier:
        hint = did_you_mean(own.after, earlier)
        text = f"no earlier phase has this name{hint} there are {listed(earlier)}"
        yield Problem((*key, "after"), text)


def _begun(
    key: Key, body: dict[str, Any], merged: dict[str, Any], first: dict[str, Any]
) -> Iterator[Problem]:
    """A later phase begins from a model of this recipe: of neither another one nor an adapter."""
    model, begun = merged.get("model"), first.get("model")
    if not isinstance(model, dict) or not isinstance(begun, dict):
        return
    written = body.get("model")
    if isinstance(written, dict) and "start" in written:
        text = "a later phase begins from an earlier phase's model; remove it, or name it in after"
        yield Problem((*key, "model", "start"), text)
    if "start" in begun:
        model["start"] = begun["start"]
    adapter = model.get("adapter")
    if isinstance(adapter, dict) and "start" in adapter:
        if isinstance(written, dict) and "adapter" in written:
            text = "a later phase begins a new adapter of the model so far; remove it"
            yield Problem((*key, "model", "adapter", "start"), text)
        model["adapter"] = {name: value for name, value in adapter.items() if name != "start"}


_OF_PHASES = {("documents", "scored_by"): (), ("negatives", "mine", "with"): (LAST,)}
"""Where a training set names an earlier phase, and what else may stand there."""


def unknown_phases(body: Any, earlier: Sequence[str]) -> Iterator[Problem]:
    """A problem for every key of a training set that expects an earlier phase and names none."""
    train = body.get("train") if isinstance(body, dict) else None
    for name, each in train.items() if isinstance(train, dict) else ():
        for key, others in _OF_PHASES.items():
            value = each
            for part in key:
                value = value.get(part) if isinstance(value, dict) else None
            phases = [*others, *earlier]
            if isinstance(value, str) and value not in phases:
                text = f"expected an earlier phase{did_you_mean(value, phases)} there are "
                yield Problem(("train", name, *key), text + listed(phases))


def phased(parts: Sequence[Written], trainings: Sequence[Training]) -> Training | PhasedTraining:
    """The checked phases; a recipe without them is one training, or one phase for each round.

    Raises:
        InputError: a round has the name of another phase, or one that is too long.
    """
    phases = list[Phase]()
    for part, training in zip(parts, trainings, strict=True):
        own = part.own or Own(name=ROUND)
        after = own.after
        for name, each in rounds_of(own.name, training, is_phase=part.own is not None):
            phases.append(Phase(name, after, each))
            after = name
    if len(phases) == 1 and parts[0].own is None:
        return phases[0].training
    names = [phase.name for phase in phases]
    for name in names:
        if names.count(name) > 1 or len(name) > MAX_NAME:
            raise InputError(
                f"phases: {name}: expected a name of at most {MAX_NAME} letters that no round of "
                "negatives.mine.every has, which are PHASE-1, PHASE-2 and so on; rename the phase"
            )
    return PhasedTraining(tuple(phases))
