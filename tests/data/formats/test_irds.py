from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from raypipe.data.formats import irds
from raypipe.errors import InputError


def test_ir_datasets_absent_is_an_input_error_with_the_command(monkeypatch, tmp_path):
    monkeypatch.setitem(__import__("sys").modules, "ir_datasets", None)
    with pytest.raises(InputError, match=r"pip install 'raypipe\[ir-datasets\]'"):
        irds.files([tmp_path / "x"])


def test_ids_of_longeval_are_loaded_by_their_own_package(monkeypatch, tmp_path):
    modules = __import__("sys").modules
    monkeypatch.setitem(modules, "ir_datasets", ModuleType("ir_datasets"))
    monkeypatch.setitem(modules, "ir_datasets_longeval", None)
    source = Path("longeval-sci-2026/snapshot-1")
    with pytest.raises(InputError, match=r"snapshot-1: .* pip install 'raypipe\[longeval\]'"):
        irds.files([source])
    package = ModuleType("ir_datasets_longeval")
    sets = {str(source): SimpleNamespace(has_docs=lambda: True)}
    package.load = lambda name: sets[name]
    monkeypatch.setitem(modules, "ir_datasets_longeval", package)
    assert irds.files([Path(f"irds:{source}")]) == [source]

    def unknown(name):
        raise ValueError(f"I could not find a dataset with the id {name}")

    package.load = unknown
    with pytest.raises(InputError, match="longeval-web/x: ir_datasets has no dataset of this id"):
        irds.files([Path("longeval-web/x")])

    def offline(name):
        raise ConnectionError("no route")

    package.load = offline
    with pytest.raises(InputError, match=r"longeval-web/x: .* could not fetch it \(Connection"):
        irds.files([Path("longeval-web/x")])


class Doc:
    def __init__(self, doc_id, title, body):
        self.doc_id, self.title, self.body = doc_id, title, body

    def default_text(self):
        return f"{self.title} {self.body}"


class Sliceable:
    def __init__(self, docs):
        self.docs_iter = lambda: docs


class Generated:
    def __init__(self, docs):
        self.docs_iter = lambda: (doc for doc in docs)


@pytest.mark.parametrize("kind", [Sliceable, Generated])
def test_ir_datasets_passages_are_a_range_of_default_texts(kind):
    docs = [Doc(f"d{n}", f"t{n}", "b") for n in range(9)]
    passages = [(f"d{n}", f"t{n} b") for n in range(9)]
    for start, stop in [(0, None), (0, 3), (4, 9), (9, None), (3, 3)]:
        found = list(irds.dataset_passages(kind(docs), start, stop, name="mini"))
        assert found == passages[start:stop]


def test_ir_datasets_bad_ids_are_refused_by_record():
    docs = [Doc("a", "", ""), Doc("b c", "", "")]
    with pytest.raises(InputError, match="mini: record 2: white space"):
        list(irds.dataset_passages(Sliceable(docs), 0, None, name="mini"))
