"""The page of what a training wrote."""

import json

import pytest

from raypipe.cli.main import run
from raypipe.driver.summaries import write_summary
from raypipe.report.training import (
    MOST_POINTS,
    dropped,
    trained_folder,
    training,
    trainings_of,
)

DROPPED = {"same_query": 2, "near_query": 0, "near_copy": None, "triples": 1}
SUMMARY = {
    "status": "complete", "recipe": "small", "model": "models/small", "step": 300,
    "examples": {"own": {"dropped": DROPPED, "examples": 40, "queries": 9}},
    "stores": ["weights@small/0123"], "fingerprint": "0123", "device": "CPU", "numerics": "x",
    "history": [],
}  # fmt: skip


@pytest.fixture
def trained(tmp_path):
    folder = tmp_path / "trained"
    (folder / "train").mkdir(parents=True)
    (folder / "models" / "small").mkdir(parents=True)
    (folder / "recipe.yaml").write_text("format: 1\n")
    write_summary(folder, SUMMARY)
    steps = [{"step": step, "loss": float(step)} for step in range(1, 301)]
    dev = [
        {"step": step, "measure": "RR@10", "of": {"dev": step / 300}, "mean": step / 300}
        for step in (150, 300)
    ]
    lines = map(json.dumps, [*steps, *dev])
    (folder / "train" / "progress.jsonl").write_text("\n".join(lines) + "\n")
    return trained_folder(folder)


def test_curves_measurements_and_what_the_guard_dropped(trained):
    section = training(trained, "small")
    loss, dev = section.charts
    points = loss.lines["loss"]
    assert len(points) == 150 <= MOST_POINTS
    assert points[0] == (2, 1.5) and points[-1] == (300, 299.5)
    assert loss.title == "Loss by step, means of 2 steps"
    assert dev.lines == {"dev": [(150, 0.5), (300, 1.0)]}
    examples, measured = section.tables
    row = dict(zip(examples.columns, examples.rows[0], strict=True))
    assert (row["examples"], row["queries"], row["same query"], row["triples"]) == (40, 9, 2, 1)
    assert measured.rows == [[150, 0.5], [300, 1.0]]
    assert dropped(trained) == "own: 2 same query, 1 triples"


def test_phases_have_curves_and_examples_of_their_own(trained):
    progress = trained.folder / "train" / "progress.jsonl"
    for phase in ("warm", "fine"):
        (trained.folder / "train" / phase).mkdir()
        (trained.folder / "train" / phase / "progress.jsonl").write_bytes(progress.read_bytes())
    progress.unlink()
    phases = {name: {"examples": SUMMARY["examples"]} for name in ("warm", "fine")}
    write_summary(trained.folder, {**SUMMARY, "phases": phases})
    again = trained_folder(trained.folder)
    titles = [chart.title for chart in training(again, "small").charts]
    assert "Loss of phase warm by step, means of 2 steps" in titles and len(titles) == 4
    assert dropped(again).startswith("warm: own: 2 same query")


def test_a_trainings_workspace_has_a_page(trained, capsys):
    assert run(["report", str(trained.folder)])[0] == 0
    page = trained.folder / "report.html"
    assert capsys.readouterr().out.strip() == str(page)
    assert "RR@10 by step, on dev" in page.read_text() and "weights@small" in page.read_text()
    names = {path.name for path in (trained.folder / "analysis").iterdir()}
    assert names == {"training-of-small.json", "making.json"}


def test_a_pipelines_models_lead_to_the_training_that_made_them(trained, finished):
    model = next(iter(finished.recipe.models.values()))
    made = model.model_copy(update={"path": str(trained.folder / "models" / "small")})
    recipe = finished.recipe.model_copy(update={"models": {"own": made, "other": model}})
    found = trainings_of(type(finished)(finished.workspace, recipe, finished.summary))
    assert list(found) == ["own"] and found["own"].folder == trained.folder
    assert trained_folder(finished.workspace.folder) is None
