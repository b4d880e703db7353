"""The steps of a reproduction as checked recipes, each with its workspace."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from raypipe.config import Recipe, Training, named_recipe, named_training, recipe_text, verb_of
from raypipe.config.phases import PhasedTraining
from raypipe.config.words import did_you_mean, listed
from raypipe.errors import InputError
from raypipe.report.published import Reproduction, Step, inputs

STORES = "stores"
"""Below --out: the stores that all pipelines share, so that none computes what another has."""


@dataclass(frozen=True)
class Planned:
    """One step, ready to run."""

    step: Step
    recipe: Recipe | Training | PhasedTraining
    folder: Path
    """Its workspace."""


def plan(
    of: Reproduction,
    out: Path,
    *,
    data: Path | None = None,
    only: Sequence[str] = (),
    settings: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
) -> list[Planned]:
    """The steps to run, in order; opens no file but the packaged recipes.

    A variable that is set nowhere stands in the paths as `/${NAME}`.

    Args:
        of: the reproduction.
        out: the folder of all workspaces.
        data: holds a folder for each variable that `env` does not set.
        only: names of steps; by default all of them.
        settings: KEY=VALUE for every step, or STEP:KEY=VALUE for one.
        env: values of variables.

    Raises:
        InputError: an unknown step, or every problem of the recipes with these settings.
    """
    steps = _chosen(of, only)
    known = {step.called: step for step in of.steps}
    given = [_addressed(setting, known) for setting in settings]
    values = variables(env or {}, data) | {"OUT": str(out.absolute())}
    found, problems = [], [] if steps else ["reproduce: no step"]
    for step in steps:
        own = {name: _with_out(value, out) for name, value in step.environment.items()}
        changed = [*step.settings]
        trains = verb_of(recipe_text(step.recipe)) == "train"
        if not trains:
            changed.append(f"stores={out.absolute() / STORES}")
        changed += [setting for where, setting in given if where in (None, step.called)]
        load = named_training if trains else named_recipe
        try:
            recipe = load(step.recipe, overrides=changed, env=values | own)
        except InputError as error:
            problems += [f"{step.called}: {problem}" for problem in error.problems]
            continue
        found.append(Planned(step, recipe, out / step.folder))
    if problems:
        raise InputError(problems)
    return found


def variables(env: Mapping[str, str], data: Path | None) -> dict[str, str]:
    """The value of every variable: as set, below `data`, or a path that shows its name."""
    found = dict(env)
    for name, folder in inputs().folders.items():
        if name not in found:
            found[name] = f"/${{{name}}}" if data is None else str(data.absolute() / folder)
    return found


def unset_variables(env: Mapping[str, str], data: Path | None) -> list[str]:
    """Those that neither `env` nor `data` gives a value."""
    return [name for name in inputs().folders if data is None and name not in env]


def _with_out(value: str, out: Path) -> str:
    return value.replace("${OUT}", str(out.absolute()))


def _chosen(of: Reproduction, only: Sequence[str]) -> list[Step]:
    known = [step.called for step in of.steps]
    problems = [
        f"--only: {of.name} has no step {name!r}{did_you_mean(name, known)} it has {listed(known)}"
        for name in only
        if name not in known
    ]
    if problems:
        raise InputError(problems)
    return [step for step in of.steps if not only or step.called in only]


def _addressed(setting: str, known: Mapping[str, Step]) -> tuple[str | None, str]:
    """(step or None for all, KEY=VALUE)."""
    key, equals, value = setting.partition("=")
    where, colon, rest = key.partition(":")
    if not colon:
        return None, setting
    if where not in known:
        hint = did_you_mean(where, known)
        raise InputError(f"{setting}: no step {where!r}{hint} expected one of {listed(known)}")
    return where, f"{rest}{equals}{value}"
