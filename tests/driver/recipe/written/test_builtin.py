import json
import shutil

import pytest

from raypipe.config.load import load_recipe
from raypipe.data.python_docs import build
from raypipe.data.python_docs.build import PythonDocs
from raypipe.driver.inputs import with_files, with_local_files
from raypipe.driver.workspace import Workspace
from raypipe.errors import InputError

DOCS = """
format: 1
name: docs
collection: {format: python-docs, max_passages: 7}
queries: {dev: {builtin: dev}, own: {file: /c/q.tsv}}
stages: {lucene: {do: index}}
"""


def test_the_embedded_collection_is_written_once_for_one_python_and_size(tmp_path, monkeypatch):
    made = []

    def drafted(*, max_passages, packages):
        made.append((max_passages, packages))
        return PythonDocs

    def write(folder, docs):
        folder.mkdir(exist_ok=True)
        (folder / "collection.tsv").write_text(f"{len(made)}\tx\n")

    monkeypatch.setattr(build, "python_docs", drafted)
    monkeypatch.setattr(build, "write_python_docs", write)
    for _ in range(2):
        found = with_files(load_recipe(DOCS, source="x"), tmp_path / "d")
    assert made == [(7, [])]
    assert (found.collection.format, found.collection.input) == (
        "msmarco-v1",
        (str(tmp_path / "d" / "passages.tsv"),),
    )
    dev, own = found.queries["dev"], found.queries["own"]
    assert dev.file == str(tmp_path / "d" / "queries.dev.tsv")
    assert dev.qrels == str(tmp_path / "d" / "qrels.dev.txt")
    assert (own.file, own.qrels) == ("/c/q.tsv", None)
    assert not (tmp_path / "d" / "collection.tsv").exists()
    packages = tmp_path / "p"
    (packages / "b").mkdir(parents=True)
    (packages / "a").mkdir()
    more = [f"collection.input=[{packages}]"]
    for _ in range(2):
        with_files(load_recipe(DOCS, overrides=more, source="x"), tmp_path / "d")
    assert made[1:] == [(7, [packages])]
    note = json.loads((tmp_path / "d" / "made-by.json").read_text())
    assert note["packages"] == {str(packages): ["a", "b"]} and note["max_passages"] == 7
    (packages / "c").mkdir()
    with_files(load_recipe(DOCS, overrides=more, source="x"), tmp_path / "d")
    with_files(load_recipe(DOCS, source="x"), tmp_path / "d")
    with_files(
        load_recipe(DOCS, overrides=["collection.max_passages=8"], source="x"), tmp_path / "d"
    )
    assert made[2:] == [(7, [packages]), (7, []), (8, [])]
    assert (tmp_path / "d" / "passages.tsv").read_text() == "5\tx\n"
    shutil.rmtree(packages)
    with pytest.raises(InputError, match="expected a folder with installed packages"):
        with_files(load_recipe(DOCS, overrides=more, source="x"), tmp_path / "d")


def test_others_are_told_before_files_are_made_and_not_where_they_stand(tmp_path, monkeypatch):
    told = []
    monkeypatch.setattr(build, "python_docs", lambda **given: told.append("made"))

    def write(folder, docs):
        folder.mkdir(exist_ok=True)
        (folder / "collection.tsv").touch()

    monkeypatch.setattr(build, "write_python_docs", write)
    for more in ([], [], ["collection.max_passages=8"]):
        workspace = Workspace(tmp_path / "w")
        workspace.work_begins = lambda: told.append("over")
        with_local_files(
            load_recipe(DOCS, overrides=more, source="x"),
            workspace,
            on_making=lambda: told.append("told"),
        )
        files = {f"python-docs/{name}" for name in ("passages.tsv", "made-by.json")}
        assert workspace.written == files  # of this invocation too where they stand
    assert told == ["told", "made", "over", "told", "made"]
