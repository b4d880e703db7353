"""A training as its driver sees it."""

import shutil

import pytest

from raypipe.config.load import load_training
from raypipe.driver.training.place import start_model
from raypipe.storage.posix import PosixStorage
from raypipe.training.job import Job


@pytest.fixture
def folder(tiny_model, tmp_path):
    return shutil.copytree(tiny_model, tmp_path / "start")


@pytest.fixture
def job(folder, small_recipe, tmp_path):
    """A function that gives the training as the driver sees the start model now."""

    def make(*, loss="cross-entropy", **changed):
        model = {"start": str(folder), "preset": "monobert", "query_limit": 12, "total_limit": 64}
        recipe = load_training(small_recipe(model={**model, **changed}, loss={"name": loss}))
        return Job(recipe, start_model(recipe), (), (), PosixStorage(tmp_path / "stores"))

    return make
