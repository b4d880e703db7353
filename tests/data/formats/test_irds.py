import pytest

from raypipe.data.formats import irds
from raypipe.errors import InputError


def test_ir_datasets_absent_is_an_input_error_with_the_command(monkeypatch, tmp_path):
    monkeypatch.setitem(__import__("sys").modules, "ir_datasets", None)
    with pytest.raises(InputError, match=r"pip install 'raypipe\[ir-datasets\]'"):
        irds.files([tmp_path / "x"])


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
