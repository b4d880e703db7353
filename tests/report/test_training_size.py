"""monoBERT stages by the size of their models' trainings."""

import json
import shutil
from pathlib import Path

import pytest
from safetensors.numpy import load_file, save_file

from raypipe.cli.main import run
from raypipe.report.training import training_size

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
