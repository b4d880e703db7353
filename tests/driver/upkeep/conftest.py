"""A small finished workspace, and copies of it that may be damaged."""

import shutil

import pytest
from tiny_workspace import MODEL, run

from raypipe.driver.summaries import read_results, write_results, write_summary
from raypipe.storage.records import hash_file


@pytest.fixture(scope="session", autouse=True)
def model(tiny_model):
    """The recipe's model, for every test here but the one that needs time to be killed in."""
    MODEL[:] = [tiny_model]


@pytest.fixture(scope="session")
def finished(small_files, tmp_path_factory):
    root = tmp_path_factory.mktemp("finished")
    run(small_files, root / "work", root / "stores")
    return root


@pytest.fixture
def root(finished, tmp_path):
    """A copy of the finished workspace whose recipe names the copied stores."""
    copied = shutil.copytree(finished, tmp_path / "root", copy_function=shutil.copy2)
    recipe = copied / "work" / "recipe.yaml"
    recipe.write_text(recipe.read_text().replace(str(finished), str(copied)))
    results = read_results(copied / "work")
    results["files"]["recipe.yaml"] = hash_file(recipe)
    for write in (write_results, write_summary):
        write(copied / "work", results)
    return copied
