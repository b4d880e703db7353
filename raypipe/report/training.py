"""What trainings gave: curves, and what the guard dropped."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from raypipe.driver.summaries import read_summary, standing_of
from raypipe.driver.training.curves import values_of
from raypipe.driver.upkeep.status import standing
from raypipe.report.charts import Chart
from raypipe.report.finished import Finished
from raypipe.report.page import Section, Table, Value

MOST_POINTS = 200
"""Of a curve; of more steps, points are the means of as many steps each."""
Points = list[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class TrainedFolder:
    """The workspace of a complete `raypipe train`."""

    folder: Path
    summary: Mapping[str, Any]


def trained_folder(folder: Path) -> TrainedFolder | None:
    """The workspace of a complete training; None if the folder is none."""
    summary = standing_of(read_summary(folder) or {})
    if summary.get("status") != "complete" or "model" not in summary:
        return None
    standing(folder)  # which says so if a newer one has written no files
    return TrainedFolder(folder, summary)


def trainings_of(finished: Finished) -> dict[str, TrainedFolder]:
    """Name of a model of the recipe -> the training that made it, where that is still there.

    A model is known by its folder, WORKSPACE/models/NAME.
    """
    found = {}
    for name, model in finished.recipe.models.items():
        folder = Path(model.path)
        if folder.parent.name == "models":
            trained = trained_folder(folder.parent.parent)
            if trained is not None:
                found[name] = trained
    return found


def dropped(trained: TrainedFolder) -> str:
    """What the guard dropped of each training set, in words."""
    told = []
    for name, facts in _examples(trained.summary):
        counts = {k: v for k, v in facts["dropped"].items() if isinstance(v, int) and v}
        shown = ", ".join(f"{count:,} {kind.replace('_', ' ')}" for kind, count in counts.items())
        told.append(f"{name}: {shown or 'nothing'}")
    return "; ".join(told)


def training(trained: TrainedFolder, named: str) -> Section:
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
            rows = [[step, *_at(lines, step)] for step in sorted({e["step"] for e in measured})]
            tables.append(Table(f"{measure}{phase}, on dev", ["step", *lines], rows))
    kept = [
        [name, facts.get("examples"), facts.get("queries"), *_counts(facts["dropped"]).values()]
        for name, facts in _examples(trained.summary)
    ]
    if kept:
        kinds = _counts(next(facts for _, facts in _examples(trained.summary))["dropped"])
        columns = ["training set", "examples", "queries", *(k.replace("_", " ") for k in kinds)]
        tables.insert(0, Table("Examples, and what the guard dropped", columns, kept))
    notes = [
        f"the weights are those of step {trained.summary['step']:,}",
        "the values on dev chose the checkpoint, so they are no test results",
    ]
    return Section(f"training of {named}", "", tables, charts, notes)


def made_by_training(trained: TrainedFolder) -> Section:
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
    return Section("making", "", tables, texts={"recipe.yaml": text})


def _examples(summary: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """(training set, its facts), those of each phase if there are phases."""
    phases = summary.get("phases", {"": summary})
    for phase, of_phase in phases.items():
        for name, facts in of_phase.get("examples", {}).items():
            if "dropped" in facts:
                yield (f"{phase}: {name}" if phase else name), facts


def _counts(told: Mapping[str, Any]) -> dict[str, Value]:
    return {kind: told[kind] for kind in sorted(told)}


def _at(lines: Mapping[str, Points], step: float) -> list[Value]:
    return [dict(points).get(step) for points in lines.values()]


def _thinned(points: Sequence[tuple[float, float]]) -> tuple[Points, int]:
    """Means of so many consecutive points each that MOST_POINTS are left at most."""
    width = -(-len(points) // MOST_POINTS) or 1
    parts = [points[start : start + width] for start in range(0, len(points), width)]
    return [(p[-1][0], sum(value for _, value in p) / len(p)) for p in parts], width
