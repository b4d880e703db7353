"""The command itself, killed in every phase and between them, on the inline backend."""

import hashlib
import os
import signal
import subprocess
import sys
import time

import pytest
import yaml
from documents_training import DocumentRecipes


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
    command = [sys.executable, "-m", "raypipe", "train", str(three), "--out"]
    subprocess.run([*command, str(calm)], check=True, capture_output=True)
    codes = []
    for awaited in (
        "weights@small.passages/*/steps/*.json",
        "weights@small.passages/*/manifest.json",
        "weights@small.window/*/steps/*.json",
        "weights@small.window/*/manifest.json",
        "weights@small.pages/*/steps/*.json",
    ):
        codes.append(killed_at([*command, str(cut)], cut / "stores", awaited))
    assert codes == [-signal.SIGKILL] * 5
    subprocess.run([*command, str(cut)], check=True, capture_output=True)
    assert len(files(calm / "models")) == 12  # weights, configuration, settings, tokenizer of three
    assert files(calm / "models") == files(cut / "models")


def killed_at(command, stores, awaited):
    """The exit code of a command that is killed when it has written a file of that form."""
    before = set(stores.glob(awaited))
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while child.poll() is None:
        if set(stores.glob(awaited)) - before:
            os.kill(child.pid, signal.SIGKILL)
            break
        time.sleep(0.002)
    return child.wait()


def files(folder):
    """The SHA-256 of every file."""
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
