"""The page of what a training wrote."""

import json
import shutil
from pathlib import Path

import pytest
from safetensors.numpy import load_file, save_file

from raypipe.cli.main import run
from raypipe.driver.proof import proof
from raypipe.driver.proof.proof import Proof
from raypipe.driver.summaries import write_results
from raypipe.report.training import (
    MOST_POINTS,
    trained_folder,
    training,
    training_size,
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
    write_results(folder, SUMMARY)
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


def test_phases_have_curves_and_examples_of_their_own(trained):
    progress = trained.folder / "train" / "progress.jsonl"
    for phase in ("warm", "fine"):
        (trained.folder / "train" / phase).mkdir()
        (trained.folder / "train" / phase / "progress.jsonl").write_bytes(progress.read_bytes())
    progress.unlink()
    phases = {name: {"examples": SUMMARY["examples"]} for name in ("warm", "fine")}
    write_results(trained.folder, {**SUMMARY, "phases": phases})
    again = trained_folder(trained.folder)
    titles = [chart.title for chart in training(again, "small").charts]
    assert "Loss of phase warm by step, means of 2 steps" in titles and len(titles) == 4
    (table, *_) = training(again, "small").tables
    assert [row[0] for row in table.rows] == ["warm: own", "fine: own"]


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


SETTINGS = {"optimiser": {"rate": 1e-5, "warmup": 3}, "dropout": 0.1}


def model_of(tiny_mono, folder, *, steps, step=None, saw="docs", scale=0.0, **settings):
    """A copy of the model that says how it was trained."""
    shutil.copytree(tiny_mono, folder)
    weights = load_file(folder / "model.safetensors")
    weights["classifier.weight"] = (
        weights["classifier.weight"] + scale * weights["classifier.weight"]
    )
    save_file(weights, folder / "model.safetensors")
    path = folder / "raypipe.json"
    body = json.loads(path.read_text()) if path.exists() else {"kind": "mono"}
    told = {"recipe": "sized", "fingerprint": f"f{steps}", "step": step or steps, "steps": steps}
    told |= {"batch": 4, "loss": "cross-entropy", "seed": 0, "settings": {**SETTINGS, **settings}}
    path.write_text(json.dumps({**body, "start_weights_saw": f"{saw} ({steps})", "made_by": told}))
    return folder


@pytest.fixture(scope="module")
def sized(analysed, tiny_mono, tmp_path_factory):
    """Three sizes of one training, and one with another dropout."""
    folder = tmp_path_factory.mktemp("sized")
    models = {
        "small": model_of(tiny_mono, folder / "small", steps=10),
        "middle": model_of(tiny_mono, folder / "middle", steps=100, scale=0.5),
        "large": model_of(tiny_mono, folder / "large", steps=1000, step=600, scale=-2.0),
        "other": model_of(tiny_mono, folder / "other", steps=100, scale=-1.5, dropout=0.0),
    }
    stages = {
        f"by-{name}": {"do": "score", "run": "dense", "model": name, "k0": 8} for name in models
    }
    stages["elsewhere"] = {"do": "score", "run": "given", "model": "small", "k0": 8}
    return analysed(name="sized", more_models=models, stages=stages)


def test_measures_are_told_by_examples_seen_beside_the_baseline(sized):
    section = training_size(sized, "test")
    (table,) = section.tables
    rows = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    assert [(row["system"], row["examples"], row["step"], row["steps"]) for row in rows] == [
        ("by-small", 40, 10, 10),
        ("by-middle", 400, 100, 100),
        ("by-other", 400, 100, 100),
        ("by-large", 2400, 600, 1000),
        ("dense", None, None, None),
    ]
    means = sized.summary["measures"]["test"]
    assert all(row["RR@10"] == means[row["system"]]["RR@10"] for row in rows)
    (chart,) = section.charts
    assert (chart.title, chart.y) == ("RR@10 by examples of training", "RR@10")
    assert chart.log_x  # sizes are multiplied from one training to the next
    value = {name: means[name]["RR@10"] for name in means}
    assert chart.lines == {
        "sized over dense": [
            (40.0, value["by-small"]), (400.0, value["by-middle"]), (2400.0, value["by-large"]),
        ],
        "sized over dense (by-other)": [(400.0, value["by-other"])],
        "dense": [(40.0, value["dense"]), (2400.0, value["dense"])],
    }  # fmt: skip


def test_a_model_that_differs_in_more_than_the_size_is_told_apart(sized):
    (note,) = [note for note in training_size(sized, "test").notes if "differs" in note]
    assert note == ("by-other differs from by-small in more than the size: dropout 0.1 -> 0.0")


def test_a_model_that_was_changed_since_or_says_nothing_is_left_out(sized):
    folder = sized.recipe.models["large"].path
    path = f"{folder}/model.safetensors"
    before = load_file(path)
    save_file({**before, "classifier.bias": before["classifier.bias"] + 1}, path)
    try:
        (table,) = training_size(sized, "test").tables
        assert "by-large" not in {row[0] for row in table.rows}
    finally:
        save_file(before, path)


@pytest.mark.slow
def test_a_model_that_its_library_computes_is_told_too(analysed, tiny_mono, monkeypatch, tmp_path):
    def differing(models, *given, **more):
        rerankers = (key for key, model in models.items() if model.path.startswith(str(tmp_path)))
        return {key: Proof("a library", 1, 0, 0.0, 0.0, "it reads others") for key in rerankers}

    monkeypatch.setattr(proof, "prove", differing)
    monkeypatch.delenv("RAYPIPE_UNPROVED")
    models = {}
    for name, steps in (("few", 10), ("many", 100)):
        models[name] = model_of(tiny_mono, tmp_path / name, steps=steps, scale=steps / 100)
    stages = {f"by-{n}": {"do": "score", "run": "dense", "model": n, "k0": 8} for n in models}
    (table,) = training_size(
        analysed(name="others", more_models=models, stages=stages), "test"
    ).tables
    assert [row[0] for row in table.rows] == ["by-few", "by-many", "dense"]


def test_a_model_that_is_gone_is_left_out_by_name_and_stops_nothing(sized):
    folder = Path(sized.recipe.models["large"].path)
    for path in (folder, folder / "model.safetensors"):
        path.rename(folder.with_name("away"))
        try:
            section = training_size(sized, "test")
        finally:
            folder.with_name("away").rename(path)
        assert "by-large" not in {row[0] for row in section.tables[0].rows}
    assert any(note.startswith("by-large is left out: ") for note in section.notes)


@pytest.mark.parametrize(
    "change",
    [
        {"step": None},
        {"steps": "ten"},
        {"batch": 0},
        {"recipe": 7},
        {"settings": []},
        {"step": True},
    ],
)
def test_what_raypipe_did_not_write_of_a_training_is_no_size(sized, change):
    path = Path(sized.recipe.models["large"].path) / "raypipe.json"
    before = path.read_text()
    body = json.loads(before)
    path.write_text(json.dumps({**body, "made_by": {**body["made_by"], **change}}))
    try:
        (table,) = training_size(sized, "test").tables
    finally:
        path.write_text(before)
    assert [row[0] for row in table.rows] == ["by-small", "by-middle", "by-other", "dense"]


def test_a_recipe_without_models_of_several_sizes_has_no_such_section(finished, sized, capsys):
    assert training_size(finished, "test") is None
    folder = str(finished.workspace.folder)
    assert run(["analyse", "training-size", folder])[0] == 2
    assert "models that `raypipe train` made of different sizes" in capsys.readouterr().err
    assert run(["analyse", "training-size", str(sized.workspace.folder), "--json"])[0] == 0
    (section,) = json.loads(capsys.readouterr().out)["sections"]
    assert section["name"] == "training-size"
