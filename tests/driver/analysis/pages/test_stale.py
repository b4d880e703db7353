"""What changed since a workspace was made; each change is undone again."""

import os
from contextlib import contextmanager
from pathlib import Path

from raypipe.driver.analysis.finished import open_finished
from raypipe.driver.analysis.overview import overview
from raypipe.driver.analysis.pages.stale import changed_since


@contextmanager
def changed(path, data):
    before = path.read_bytes()
    path.write_bytes(data(before))
    try:
        yield
    finally:
        path.write_bytes(before)


def lines(finished):
    return changed_since(open_finished(finished.workspace.folder))


def test_nothing_changed_and_a_touched_or_rewritten_collection_is_the_same(finished):
    assert lines(finished) == []
    collection = Path(finished.recipe.collection.input[0])
    collection.write_bytes(collection.read_bytes())
    os.utime(collection, (1, 1))
    assert lines(finished) == []


def test_other_texts_other_queries_and_another_run_are_told(finished):
    collection = Path(finished.recipe.collection.input[0])
    with changed(collection, lambda data: data.replace(b"alpha", b"omega", 1)):
        assert lines(finished) == [f"collection: {collection} changed"]
    queries = Path(finished.recipe.queries["test"].file)
    with changed(queries, lambda data: data.replace(b"theta\n", b"iota\n", 1)):
        told = lines(finished)
    assert {line.split(": ")[0] for line in told} == {"queries@test"}
    assert all("inputs.content:queries" in line for line in told)
    given = Path(finished.recipe.stages["given"].runs["test"])
    with changed(given, lambda data: data.replace(b" 39 x", b" 39.5 x", 1)):
        told = lines(finished)
    assert [line.split(":")[0] for line in told] == ["given.test"]
    assert all("inputs.content:" in line for line in told)
    assert lines(finished) == []


def test_a_file_that_is_gone_or_edited_is_told(finished):
    collection = Path(finished.recipe.collection.input[0])
    collection.rename(collection.with_suffix(".away"))
    try:
        (line,) = lines(finished)
    finally:
        collection.with_suffix(".away").rename(collection)
    assert str(collection) in line
    recipe = finished.workspace.folder / "recipe.yaml"
    with changed(recipe, lambda data: data.replace(b"k0: 8", b"k0: 6")):
        told = lines(finished)
    assert "recipe.yaml: not as the last invocation wrote it" in told
    assert any(line.startswith("first.test: params.k0 8 -> 6") for line in told), told


def test_the_first_screen_says_what_is_stale(finished):
    section = overview(finished, "test", changes=["collection: x changed"])
    assert section.facts["changed since"] == "collection: x changed"
    assert "stale: collection: x changed" in section.notes
    assert overview(finished, "test").facts["changed since"] == "nothing"
