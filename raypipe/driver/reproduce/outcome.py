"""What the finished steps of a reproduction measured, beside what is published."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from raypipe.analysis.depth import depths_up_to
from raypipe.analysis.published import TIME
from raypipe.analysis.reproductions import Reproduction
from raypipe.analysis.section import Section
from raypipe.analysis.tradeoff import DRAWS, K0S, K1S
from raypipe.analysis.verdicts import section_of
from raypipe.config import Recipe
from raypipe.config.phases import PhasedTraining
from raypipe.config.stages import DuoScore, MonoScore
from raypipe.driver.analysis.finished import open_finished
from raypipe.driver.analysis.measuring import about
from raypipe.driver.analysis.pages.writing import TWINS, write_with_twins
from raypipe.driver.reproduce.plan import Planned
from raypipe.driver.summaries import read_summary
from raypipe.errors import IncompleteError
from raypipe.training.checkpoints import best_of, measured_sets
from raypipe.vocabulary import units

Found = dict[tuple[str, str | None, str, str], float]


def outcome(of: Reproduction, planned: Sequence[Planned], settings: Sequence[str] = ()) -> Section:
    """The reproduction's section, from the summaries of its steps.

    Args:
        of: the reproduction.
        planned: the steps that were run to completion.
        settings: what the user changed, which a note tells.

    Raises:
        IncompleteError: the last invocation of a step is not complete.
    """
    ours: Found = {}
    notes = []
    for each in planned:
        summary = read_summary(each.folder) or {}
        if summary.get("status") != "complete":
            raise IncompleteError(
                f"{each.folder}: the last invocation is not complete ({summary.get('status')}); "
                "run the same command again"
            )
        if isinstance(each.recipe, Recipe):
            ours |= _of_pipeline(each, summary)
            notes += _notes(each, summary)
        elif isinstance(each.recipe, PhasedTraining):
            ours |= _of_phases(each, each.recipe, summary)
    changed = [each for each in settings if not each.split(":")[-1].startswith("resources.")]
    if changed:
        notes.append(
            f"changed by the command: {', '.join(changed)}; a value of what this changes says "
            "nothing of the paper's"
        )
    ran = {each.step.called for each in planned}
    return section_of(of, ours, ran, _settings(of, planned), notes)


def write(section: Section, out: Path) -> list[Path]:
    """The section as OUT/analysis/reproduce.NAME.json and as a page, OUT/reproduce.NAME.html."""
    name = f"reproduce.{section.query_set}"
    title = f"raypipe reproduce {section.query_set}"
    twins = {f"{name}.json": section.to_json()}
    path = write_with_twins(out, f"{name}.html", title, [section], twins)
    return [out / TWINS / f"{name}.json", path]


def _of_pipeline(planned: Planned, summary: Mapping[str, Any]) -> Found:
    name = planned.step.called
    found: Found = {
        (name, query_set, system, measure): value
        for query_set, of_set in summary["measures"].items()
        for system, of_system in of_set.items()
        for measure, value in of_system.items()
    }
    for query_set, of_set in summary["systems"].items():
        for system, told in of_set.items():
            if told["ms_per_query"] is not None:
                found[name, query_set, system, TIME] = told["ms_per_query"]
    return found


def _of_phases(planned: Planned, recipe: PhasedTraining, summary: Mapping[str, Any]) -> Found:
    """The measures of each phase's chosen checkpoint, as the system PHASE/DEV SET."""
    found: Found = {}
    for phase in recipe.phases:
        validate, history = phase.training.validate_, summary["phases"][phase.name]["history"]
        best = best_of(history, None if validate is None else validate.measure)
        if validate is None or best is None:
            continue
        for name, value in zip(measured_sets(phase.training), best["values"], strict=True):
            found[planned.step.called, None, f"{phase.name}/{name}", validate.measure] = value
    return found


def _notes(planned: Planned, summary: Mapping[str, Any]) -> list[str]:
    """Topics, grades and what the start weights saw, of one step."""
    finished = open_finished(planned.folder)
    about_sets: dict[str, None] = {}
    for query_set in summary["measures"]:
        for unit in units():
            if finished.judgements(query_set, unit) is not None:
                for line in about(finished, query_set, unit):
                    named = f"{query_set}: {line}" if line.endswith(" topics") else line
                    about_sets[f"{planned.step.called}: {named}"] = None
    told = [*about_sets]
    saw = {
        system["model"]: system["start_weights"]
        for of_set in summary["systems"].values()
        for system in of_set.values()
        if system.get("start_weights")
    }
    told += [
        f"{planned.step.called}: {model}: its start weights saw {w}" for model, w in saw.items()
    ]
    return told


def _settings(of: Reproduction, planned: Sequence[Planned]) -> dict[str, list[int]]:
    """Setting -> the values that the analyses take of it in the step that has the figures'."""
    names = {each.step for each in of.settings}
    for each in planned:
        if each.step.called in names and isinstance(each.recipe, Recipe):
            return _of_stages(each.recipe)
    return {}


def _of_stages(recipe: Recipe) -> dict[str, list[int]]:
    """The grid of `raypipe analyse tradeoff`, and the depths that a recipe's own stages have."""
    stages = recipe.stages.values()
    monos = [stage.k0 for stage in stages if isinstance(stage, MonoScore)]
    duos = [stage.k1 for stage in stages if isinstance(stage, DuoScore)]
    found: dict[str, list[int]] = {}
    if monos:
        found["candidates"] = sorted(set(monos))
    if monos and duos:
        k1s = depths_up_to(max(duos), K1S)
        found["k0"] = depths_up_to(max(monos), K0S)
        found["k1"] = [0, *k1s]
        found["m"] = [m for m in DRAWS if m < max(k1s) - 1]
    return found
