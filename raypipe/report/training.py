"""Reports on trainings: curves, examples that the guard dropped, and quality by size.

Source: Nogueira & Cho 2019 (Passage re-ranking with BERT), Figure 1.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeGuard

from raypipe.driver.models import opened
from raypipe.driver.training.curves import values_of
from raypipe.driver.upkeep.status import shown_results
from raypipe.errors import InputError
from raypipe.kinds.score import MonoScore
from raypipe.markdown import Table, Value
from raypipe.models.folder.adapters import adapter_folder
from raypipe.models.folder.files import read_object
from raypipe.models.library import hash_of
from raypipe.names import of_stage
from raypipe.report.charts import Chart
from raypipe.report.finished import Finished, about, measures_of, of_system
from raypipe.report.page import ReportSection

MOST_POINTS = 200
"""Points of a curve at most. Each is the mean of as many consecutive steps as that takes."""
Points = list[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class TrainedFolder:
    """The workspace of a complete `raypipe train`."""

    folder: Path
    summary: Mapping[str, Any]


def trained_folder(folder: Path) -> TrainedFolder | None:
    """The workspace of a complete training; None if the folder is none."""
    results = shown_results(folder, "model")
    return None if results is None else TrainedFolder(folder, results)


def trainings_of(finished: Finished) -> dict[str, TrainedFolder]:
    """Name of a model of the recipe -> the training that made it, where that is still there.

    A model is known by its folder, WORKSPACE/models/NAME.
    """
    trainings = {}
    for name, model in finished.recipe.models.items():
        folder = Path(model.path)
        if folder.parent.name == "models":
            trained = trained_folder(folder.parent.parent)
            if trained is not None:
                trainings[name] = trained
    return trainings


def training(trained: TrainedFolder, named: str) -> ReportSection:
    """Loss and measurements by step, the chosen checkpoint, and what the guard dropped."""
    tables, charts = [], []
    for file in sorted(trained.folder.glob("train/**/progress.jsonl")):
        phase = "" if file.parent.name == "train" else f" of phase {file.parent.name}"
        events = [json.loads(line) for line in file.read_text().splitlines()]
        losses = [(e["step"], e["loss"]) for e in events if "mean" not in e and "loss" in e]
        points, width = _thinned(losses)
        each = "" if width == 1 else f", means of {width} steps"
        charts.append(Chart(f"Loss{phase} by step{each}", "step", "loss", {"loss": points}))
        measured = [event for event in events if "mean" in event]
        if measured:
            measure = measured[0]["measure"]
            lines: dict[str, Points] = {}
            for event in measured:
                for of_set, value in values_of(event).items():
                    lines.setdefault(of_set, []).append((event["step"], value))
            charts.append(Chart(f"{measure}{phase} by step, on dev", "step", measure, lines))
            by_step = [dict(points) for points in lines.values()]
            steps = sorted({event["step"] for event in measured})
            rows = [[step, *(of_set.get(step) for of_set in by_step)] for step in steps]
            tables.append(Table(f"{measure}{phase}, on dev", ["step", *lines], rows))
    if examples := [*_examples(trained.summary)]:
        kinds = sorted(examples[0][1]["dropped"])
        kept = [
            [name, info.get("examples"), info.get("queries"), *(info["dropped"][k] for k in kinds)]
            for name, info in examples
        ]
        columns = ["training set", "examples", "queries", *(k.replace("_", " ") for k in kinds)]
        tables.insert(0, Table("Examples, and what the guard dropped", columns, kept))
    notes = [
        f"the weights are those of step {trained.summary['step']:,}",
        "the values on dev chose the checkpoint, so they are no test results",
    ]
    return ReportSection(f"training of {named}", "", tables, charts, notes)


def made_by_training(trained: TrainedFolder) -> ReportSection:
    """Weights, stores, settings and device of a training."""
    summary = trained.summary
    rows: list[list[Value]] = [[*place.split("/", 1)] for place in summary["stores"]]
    made = {name: summary.get(name) for name in ("model", "fingerprint", "device", "numerics")}
    made["seconds"] = summary.get("seconds")
    text = (trained.folder / "recipe.yaml").read_text()
    tables = [
        Table("Stores", ["store", "fingerprint"], rows),
        Table("Made by", ["what", "is"], [[*each] for each in made.items()]),
    ]
    return ReportSection("making", "", tables, texts={"recipe.yaml": text})


def _examples(summary: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """(training set, its facts), those of each phase if there are phases."""
    phases = summary.get("phases", {"": summary})
    for phase, of_phase in phases.items():
        for name, facts in of_phase.get("examples", {}).items():
            if "dropped" in facts:
                yield (f"{phase}: {name}" if phase else name), facts


def _thinned(points: Sequence[tuple[float, float]]) -> tuple[Points, int]:
    """Means of so many consecutive points each that MOST_POINTS are left at most."""
    width = -(-len(points) // MOST_POINTS) or 1
    parts = [points[start : start + width] for start in range(0, len(points), width)]
    return [(p[-1][0], sum(value for _, value in p) / len(p)) for p in parts], width


SIZES = frozenset({"recipe", "phase", "fingerprint", "step", "steps", "settings"})
"""Keys of a training's record that change with its size, or that only name it."""
_NAME = re.compile(r" \([^()]*\)$")
"""The training's name at the end of what its weights saw."""


@dataclass(frozen=True)
class TrainedStage:
    """A monoBERT stage whose model says how it was trained."""

    system: str
    stage: MonoScore
    training: str
    step: int
    """Step of the chosen checkpoint."""
    steps: int
    """Number of steps of the whole training."""
    batch: int
    settings: Mapping[str, Any]
    """Everything else that the model's folder says, by dotted key."""

    @property
    def examples(self) -> int:
        """Examples that the weights saw, an example as often as it was taken."""
        return self.step * self.batch


def training_size(finished: Finished, query_set: str) -> ReportSection | None:
    """The measures of monoBERT stages over one run by the examples that their models saw.

    Models that differ in more than that are on lines of their own, and what differs is told. None
    if no two such stages rerank the same candidates with models of different sizes.
    """
    gone: list[str] = []
    all_groups = _groups([*_trained(finished, query_set, gone)])
    groups = [group for group in all_groups if len({each.examples for each in group}) > 1]
    if not groups:
        return None
    measures, baseline = measures_of(finished), _baseline(finished, query_set)
    rows: list[list[Value]] = []
    lines: dict[str, list[tuple[float, float]]] = {}
    notes = about(finished, query_set) + gone
    values = {each.system: _means(finished, query_set, each.system) for g in groups for each in g}
    for group in groups:
        for kind in _kinds(group):
            name = f"{kind[0].training} over {kind[0].stage.run}"
            points = [(float(e.examples), values[e.system][measures[0]]) for e in kind]
            lines[name if name not in lines else f"{name} ({kind[0].system})"] = points
        notes += _differing(group)
        for each in group:
            row: list[Value] = [each.system, each.training, each.stage.run, each.stage.k0]
            row += [each.examples, each.step, each.steps, each.batch]
            rows.append([*row, *(values[each.system][measure] for measure in measures)])
    if baseline is not None:
        means_of = _means(finished, query_set, baseline)
        rows.append([baseline, *[None] * 7, *(means_of[measure] for measure in measures)])
        sizes = sorted({x for points in lines.values() for x, _ in points})
        lines[baseline] = [(x, means_of[measures[0]]) for x in (sizes[0], sizes[-1])]
    columns = ["system", "training", "over", "k0", "examples", "step", "steps", "batch"]
    tables = [Table("Rerankers by the size of their training", [*columns, *measures], rows)]
    notes.append(
        "examples: those that the weights saw up to the step that was taken, an example as often "
        "as it was taken; each model is a whole training of its own"
    )
    title = f"{measures[0]} by examples of training"
    charts = [Chart(title, "examples", measures[0], lines, log_x=True)]
    return ReportSection("training-size", query_set, tables, charts, notes)


def _trained(finished: Finished, query_set: str, gone: list[str]) -> Iterator[TrainedStage]:
    """The monoBERT stages whose models raypipe trained and that are what they were then.

    `gone` gets a line for each model that cannot be read any more.
    """
    for name in finished.systems(query_set):
        stage = finished.recipe.stages[name]
        if not isinstance(stage, MonoScore):
            continue
        model = finished.recipe.models[stage.model]
        try:
            body = read_object(adapter_folder(model.path) / "raypipe.json")
            made_by = body.get("made_by")
            if not _is_training(made_by) or not _is_the_same(finished, query_set, name, stage):
                continue
        except InputError as error:  # as for any change, the runs still stand
            gone += [f"{name} is left out: {problem}" for problem in error.problems]
            continue
        settings = _flat({k: v for k, v in made_by.items() if k not in SIZES})
        settings |= _flat(made_by.get("settings", {}))
        own = {k: v for k, v in body.items() if k not in ("made_by", "start_weights_saw")}
        settings |= _flat(own) | {"saw": _NAME.sub("", str(body.get("start_weights_saw")))}
        training = (
            f"{made_by['recipe']}.{made_by['phase']}"
            if "phase" in made_by
            else str(made_by["recipe"])
        )
        step, steps, batch = (made_by[key] for key in ("step", "steps", "batch"))
        yield TrainedStage(name, stage, training, step, steps, batch, settings)


def _is_training(made_by: Any) -> TypeGuard[dict[str, Any]]:
    """Whether a model's folder says how it was trained, as raypipe writes it."""
    counts = ("step", "steps", "batch")
    return (
        isinstance(made_by, dict)
        and isinstance(made_by.get("recipe"), str)
        and all(type(made_by.get(key)) is int and made_by[key] > 0 for key in counts)
        and isinstance(made_by.get("settings", {}), dict)
    )


def _is_the_same(finished: Finished, query_set: str, name: str, stage: MonoScore) -> bool:
    """Whether the model's folder has the weights with which the stage's scores were computed."""
    model = opened(finished.with_inputs.models[stage.model], "auto")
    scores = finished.stored(of_stage(name, query_set)).spec.params["scores"]
    hashes = (model.weights_sha256, hash_of(model.folder))  # raypipe's own, and the library's
    return scores["params"]["weights_sha256"] in hashes


def _groups(stages: Sequence[TrainedStage]) -> list[list[TrainedStage]]:
    """Groups of stages that rerank the same candidates, the smallest training first in each."""
    groups: dict[tuple[object, ...], list[TrainedStage]] = {}
    for each in sorted(stages, key=lambda e: e.examples):
        stage = each.stage
        groups.setdefault((stage.run, stage.k0, stage.tail, stage.score, stage.blend), []).append(
            each
        )
    return list(groups.values())


def _kinds(group: Sequence[TrainedStage]) -> list[list[TrainedStage]]:
    """Parts of a group in which every stage agrees with the first, in settings that both state."""
    kinds: list[list[TrainedStage]] = []
    for each in group:
        for kind in kinds:
            if not _differ(kind[0], each):
                kind.append(each)
                break
        else:
            kinds.append([each])
    return kinds


def _differ(one: TrainedStage, other: TrainedStage) -> list[str]:
    """The settings that both say and that differ, sorted."""
    both = one.settings.keys() & other.settings.keys()
    return sorted(key for key in both if one.settings[key] != other.settings[key])


def _differing(group: Sequence[TrainedStage]) -> list[str]:
    """Notes on the settings in which the lines differ, and on stages that lack some settings."""
    kinds = _kinds(group)
    notes = [
        f"{kind[0].system} differs from {kinds[0][0].system} in more than the size: "
        + ", ".join(
            f"{key} {kinds[0][0].settings[key]} -> {kind[0].settings[key]}"
            for key in _differ(kinds[0][0], kind[0])
        )
        for kind in kinds[1:]
    ]
    named = {key for each in group for key in each.settings}
    unknown = [each.system for each in group if named - each.settings.keys()]
    if unknown:
        notes.append(f"not all settings of the training are known of {', '.join(unknown)}")
    return notes


def _baseline(finished: Finished, query_set: str) -> str | None:
    named = finished.recipe.evaluate
    baseline = None if named is None else named.baseline
    return baseline if baseline in finished.systems(query_set) else None


def _means(finished: Finished, query_set: str, system: str) -> Mapping[str, float]:
    return of_system(finished, query_set, system).mean


def _flat(value: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """The values by dotted key."""
    flat: dict[str, Any] = {}
    for key, inner in value.items():
        name = f"{prefix}{key}"
        flat |= _flat(inner, f"{name}.") if isinstance(inner, Mapping) else {name: inner}
    return flat
