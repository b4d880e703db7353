"""Which generation a command reads."""

import pytest

from raypipe.driver.upkeep.status import generation_to_read, line_of_generations
from raypipe.driver.workspace import Workspace
from raypipe.errors import InputError
from raypipe.storage.generations import Generation, create_generation


@pytest.fixture
def work(tmp_path):
    workspace = Workspace(tmp_path / "work")
    workspace.write_summary({})
    (workspace.folder / "recipe.yaml").write_text("name: nightly\n")
    return workspace


def test_the_newest_is_read_unless_a_number_is_given(work):
    assert generation_to_read(work.folder, None) is None
    create_generation(work.stores, Generation("nightly", 3, {}))
    create_generation(work.stores, Generation("another", 4, {}))
    assert generation_to_read(work.folder, None) == ("nightly", None)
    assert generation_to_read(work.folder, 3) == ("nightly", 3)
    assert line_of_generations(work.folder) == "nightly"


def test_a_file_has_no_generations_and_a_number_for_it_is_refused(tmp_path, work):
    file = tmp_path / "collection.tsv"
    file.write_text("1\ta\n")
    assert generation_to_read(file, None) is None
    for folder in (file, work.folder):
        with pytest.raises(InputError, match=r"--generation 2: .* has no generations"):
            generation_to_read(folder, 2)


@pytest.mark.parametrize(
    "content",
    [
        b"name: caf\xe9\n",
        b"- name\n",
        b"title: nightly\n",
        b"name: !mine nightly\n",
        b"name: [",
        b"",
    ],
)
def test_a_recipe_without_a_readable_name_is_told_with_its_remedy(work, content):
    (work.folder / "recipe.yaml").write_bytes(content)
    with pytest.raises(
        InputError, match=r"recipe\.yaml: expected the recipe of the last invocation"
    ):
        line_of_generations(work.folder)


def test_a_workspace_without_a_recipe_has_no_line_of_generations(tmp_path):
    with pytest.raises(InputError, match=r"recipe.yaml: no such file; run `raypipe reindex`"):
        line_of_generations(tmp_path)
