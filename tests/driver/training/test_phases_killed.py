"""The command itself, killed in every phase and between them, on the inline backend."""

import signal

import pytest
import yaml
from documents_training import DocumentRecipes
from killed_trainings import files, killed_at, log_of, start


@pytest.fixture
def three(small_files, small_recipe, tmp_path):
    """Passages, passages with negatives of another window, and documents of which an earlier model
    keeps the best passages."""
    path = DocumentRecipes(small_files, small_recipe, tmp_path).write()
    body = yaml.safe_load(path.read_text())
    first, pages = body["phases"]
    (passages,) = first["train"].values()
    window = {**passages["negatives"], "first": 5, "last": 20, "examples": 2}
    again = {"docs": {**passages, "negatives": window}}
    second = {**first, "name": "window", "train": again, "steps": 12}
    body["phases"] = [{**first, "steps": 12}, second, {**pages, "steps": 12}]
    body["checkpoint_every"] = 2
    path.write_text(yaml.safe_dump(body, sort_keys=False))
    return path


@pytest.mark.long
@pytest.mark.fault(43, "in phases, killed 5 times in and between them: the same files")
@pytest.mark.timeout(900)
def test_a_chain_killed_in_every_phase_and_between_them_leaves_the_same_files(three, tmp_path):
    calm, cut = tmp_path / "calm", tmp_path / "cut"
    assert start(three, calm).wait() == 0, log_of(calm)
    codes = []
    for awaited in (
        "weights@small.passages/*/steps/*.json",
        "weights@small.passages/*/manifest.json",
        "weights@small.window/*/steps/*.json",
        "weights@small.window/*/manifest.json",
        "weights@small.pages/*/steps/*.json",
    ):
        codes.append(killed_at(three, cut, awaited))
    assert codes == [-signal.SIGKILL] * 5
    assert start(three, cut).wait() == 0, log_of(cut)
    made = {name.split("/")[0] for name in files(calm / "models")}
    assert made == {"small", "small.passages", "small.window"}
    assert files(calm / "models") == files(cut / "models")
