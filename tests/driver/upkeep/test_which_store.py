"""An export reads the generation's store, and holds it meanwhile."""

import os

import numpy as np
import pytest
from recipes import invoke, write_files

from raypipe.cli.main import run as run_verb
from raypipe.driver.upkeep.export import export, which_store
from raypipe.driver.workspace import Workspace
from raypipe.errors import InputError
from raypipe.storage.generations import (
    Generation,
    create_generation,
    read_generation,
    reader_leases,
    retire,
)

RECIPE = """
format: 1
name: nightly
collection: {{format: msmarco-v1, input: {folder}/passages.tsv}}
models: {{tiny: {{path: {model}}}}}
stages: {{vectors: {{do: encode, model: tiny}}}}
resources: {{backend: inline, device: cpu}}
"""


@pytest.fixture(scope="module")
def nights(tiny_model, tmp_path_factory):
    """Two generations, of one passage and of two; the files of the older one are the newer."""
    folder = tmp_path_factory.mktemp("nights")
    for texts in (["a lease"], ["the zebra", "a run"]):
        write_files(folder, texts)
        invoke(RECIPE.format(folder=folder, model=tiny_model), folder / "work", reindex=True)
    stores = folder / "work" / "stores"
    older = read_generation(Workspace(folder / "work").stores, "nightly", 1)
    for name, fingerprint in older.stores.items():
        os.utime(stores / name / fingerprint / "manifest.json")
    return stores


@pytest.fixture
def lines(tmp_path):
    """Makes generations in the stores of a workspace, by hand."""
    workspace = Workspace(tmp_path / "work")

    def made(*generations):
        for name, number, stores in generations:
            create_generation(workspace.stores, Generation(name, number, stores))
        return tmp_path / "work" / "stores"

    return made


def test_the_current_generations_store_is_exported_or_the_one_that_is_named(nights, tmp_path):
    assert export(nights / "vectors", "numpy", tmp_path / "now") == 2
    assert export(nights / "vectors", "numpy", tmp_path / "2", generation=2) == 2
    assert export(nights / "vectors", "numpy", tmp_path / "1", generation=1) == 1
    assert (tmp_path / "now" / "ids.txt").read_text() == "p0\np1\n"
    vectors = {name: np.load(tmp_path / name / "embeddings.npy") for name in ("now", "1", "2")}
    assert vectors["now"].tobytes() == vectors["2"].tobytes() != vectors["1"].tobytes()
    with pytest.raises(InputError, match="generation 3 of nightly: no such .*there are: 1, 2"):
        export(nights / "vectors", "numpy", tmp_path / "3", generation=3)
    with pytest.raises(InputError, match=r"no such store; it has ids@coll"):
        export(nights / "lucene", "pyserini", tmp_path / "3", generation=2)


def test_the_command_takes_the_number(nights, tmp_path, capsys):
    words = ["export", str(nights / "vectors"), "--to", "numpy", "--generation", "1", "--out"]
    assert run_verb([*words, str(tmp_path / "out")])[0] == 0
    assert capsys.readouterr().out.startswith("1 rows: ")


def test_it_is_held_while_it_is_read_and_not_after(nights):
    stores = Workspace(nights.parent).stores
    with which_store(nights / "vectors") as (_, name, fingerprint):
        current = read_generation(stores, "nightly", 2)
        assert (name, fingerprint) == ("vectors", current.stores["vectors"])
        assert len(reader_leases(stores, "nightly", 2)) == 1
        assert reader_leases(stores, "nightly", 1) == []
    assert reader_leases(stores, "nightly", 2) == []


def test_a_fingerprint_is_taken_as_it_is_and_no_generation_with_it(nights):
    older = read_generation(Workspace(nights.parent).stores, "nightly", 1).stores["vectors"]
    with which_store(nights / "vectors" / older) as found:
        assert found[1:] == ("vectors", older)
    with (
        pytest.raises(InputError, match="--generation 1: .* names a fingerprint already"),
        which_store(nights / "vectors" / older, 1),
    ):
        pass


def complete(stores, name, fingerprint):
    (stores / name / fingerprint).mkdir(parents=True)
    (stores / name / fingerprint / "manifest.json").touch()


def test_a_store_that_no_generation_names_is_the_newest(lines):
    stores = lines(("nightly", 1, {"vectors": "f"}))
    complete(stores, "search.queries", "old")
    complete(stores, "search.queries", "new")
    os.utime(stores / "search.queries" / "old" / "manifest.json", (1, 1))
    with which_store(stores / "search.queries") as found:
        assert found[1:] == ("search.queries", "new")
    with pytest.raises(InputError, match="of a complete store"), which_store(stores / "none"):
        pass


def test_of_several_lines_it_is_that_of_the_workspace_around_the_stores(lines, tmp_path):
    stores = lines(("a", 1, {"vectors": "of-a"}), ("b", 4, {"vectors": "of-b"}))
    complete(stores, "vectors", "newest")
    for recipe, expected in (("b", "of-b"), ("a", "of-a")):
        (tmp_path / "work" / "recipe.yaml").write_text(f"name: {recipe}\n")
        with which_store(stores / "vectors") as found:
            assert found[2] == expected
    (tmp_path / "work" / "recipe.yaml").write_text("name: c\n")
    with (
        pytest.raises(InputError, match="generations of a, b; expected those of one recipe"),
        which_store(stores / "vectors"),
    ):
        pass
    (tmp_path / "work" / "recipe.yaml").unlink()
    with (
        pytest.raises(InputError, match="expected those of one recipe"),
        which_store(stores / "vectors"),
    ):
        pass


def test_a_number_without_generations_is_refused_and_nothing_is_left(lines):
    stores = lines()
    complete(stores, "vectors", "f")
    with (
        pytest.raises(InputError, match=r"--generation 2: .* has no generations"),
        which_store(stores / "vectors", 2),
    ):
        pass
    retired = lines(("nightly", 1, {"vectors": "gone"}))
    retire(Workspace(stores.parent).stores, "nightly", 1)
    with which_store(retired / "vectors") as found:
        assert found[2] == "f"


@pytest.mark.parametrize("place", ["nope", "work", "work/stores/", "work/stores/nope"])
def test_a_place_that_is_no_store_is_refused_as_it_was_named(nights, monkeypatch, place):
    monkeypatch.chdir(nights.parent.parent)
    with pytest.raises(InputError) as caught:
        with which_store(place):
            pass
    assert str(caught.value) == (
        f"{place}: expected STORES/NAME or STORES/NAME/FINGERPRINT of a complete store"
    )
