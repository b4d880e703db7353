from pathlib import Path

import pytest

from raypipe.data.python_docs import build
from raypipe.data.python_docs import source as python_docs_packages
from raypipe.data.python_docs.build import DocsDraft, python_docs
from raypipe.data.python_docs.source import (
    docstring_sections,
    module_sections,
    package_sections,
    topics,
)
from raypipe.errors import InputError


def test_sections_of_source_files_have_public_names_and_skip_what_is_private(
    tmp_path: Path,
) -> None:
    (tmp_path / "json" / "test").mkdir(parents=True)
    (tmp_path / "json" / "__init__.py").write_text('"""About JSON."""\ndef _hidden():\n  "no"\n')
    (tmp_path / "json" / "test" / "__init__.py").write_text('"""No."""')
    (tmp_path / "json" / "_inner.py").write_text(
        "try:\n  class A:\n    'An A.'\n    def __init__(self): 'no'\n"
        "    async def go(self):\n      'Goes.'\n      def deep(): 'no'\nexcept Error: pass\n"
    )
    (tmp_path / "_pyio.py").write_text('def open(): r"Opens."')
    (tmp_path / "site.py").write_text('"""Differs by distributor."""')
    (tmp_path / "third_party.py").write_text('"""Not of the standard library."""')
    found = [(each.name, each.title, each.heading) for each in docstring_sections(tmp_path)]
    assert found == [
        ("io.open", "io", "open"),
        ("json", "json", ""),
        ("json.A", "json", "A"),
        ("json.A.go", "json", "A.go"),
    ]


def test_topics_are_read_without_importing_and_may_be_absent(tmp_path: Path) -> None:
    assert topics(tmp_path) == {}
    (tmp_path / "pydoc_data").mkdir()
    (tmp_path / "pydoc_data" / "topics.py").write_text(
        "import os; os.abort()\nother = 1\ntopics = {'a': 'B\\n*'\n'*\\n'}\n"
    )
    assert topics(tmp_path) == {"a": "B\n**\n"}


def test_docstrings_of_branches_and_of_methods_have_dotted_names(tmp_path):
    (tmp_path / "m.py").write_text(
        "'Module.'\nif x:\n  def a(): 'A.'\nelse:\n  def b(): 'B.'\n"
        "class C:\n  def d(self): 'D.'\n  class E:\n    'E.'\n  def _f(self): 'no'\n"
    )
    found = [(s.name, s.heading, s.text) for s in module_sections("m", tmp_path / "m.py")]
    assert found == [
        ("m", "", "Module."), ("m.a", "a", "A."), ("m.b", "b", "B."),
        ("m.C.d", "C.d", "D."), ("m.C.E", "C.E", "E."),
    ]  # fmt: skip


def test_modules_that_are_left_out_are_left_out_with_all_below(tmp_path):
    for name in ("ctypes/macholib/x", "ctypes/y", "unittest/tests/z", "dbm/gnu", "dbm/dumb",
                 "_pydecimal", "_abc", "encodings/utf_8", "json/_a/b"):  # fmt: skip
        path = tmp_path / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("'Doc.'")
    found = [s.name for s in docstring_sections(tmp_path)]
    assert found == ["ctypes.y", "dbm.dumb", "decimal", "json.b"]
    assert topics(tmp_path) == {}
    (tmp_path / "pydoc_data").mkdir()
    (tmp_path / "pydoc_data" / "topics.py").write_text("other = {'a': 'b'}\n")
    assert topics(tmp_path) == {}


def test_sections_of_packages_leave_out_tests_private_and_broken_files(tmp_path, monkeypatch):
    site = tmp_path / "site"
    files = {
        "beta/__init__.py": "'Beta.'", "beta/_inner/deep.py": "def f(): 'F.'",
        "beta/tests/t.py": "'no'", "beta/broken.py": "def (", "beta/docs.py": "'no'",
        "alpha.py": "'Alpha.'", "_hidden.py": "'no'", "json/__init__.py": "'no'",
        "data/readme.txt": "", "setup.py": "'no'", "beta/large.py": "'no' #" + "x" * 93,
        "beta/small.py": "'yes' #" + "x" * 92,
    }  # fmt: skip
    for name, text in files.items():
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).write_text(text)
    assert python_docs_packages.MAX_BYTES == 2_000_000
    monkeypatch.setattr(python_docs_packages, "MAX_BYTES", 100)
    assert (len(files["beta/large.py"]), len(files["beta/small.py"])) == (99, 99)
    (site / "beta/large.py").write_text("'no' #" + "x" * 94)
    found = [(s.name, s.text) for s in package_sections([site])]
    assert found == [
        ("alpha", "Alpha."), ("beta", "Beta."),
        ("beta.deep.f", "F."), ("beta.small", "yes"),
    ]  # fmt: skip
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(InputError, match="expected installed packages, found none"):
        list(package_sections([empty]))


def test_packages_have_no_text_and_no_query_that_the_documentation_has(tmp_path, monkeypatch):
    one, two, three = (" ".join(f"{word}{place}" for place in range(6)) for word in "xyz")
    own = DocsDraft(
        passages={"a.b#1": one}, relevant={"a.b": ["a.b#1"]}, queries={"a.b": "m go"},
        splits={"a.b": "test"}, facts={},
    )  # fmt: skip
    monkeypatch.setattr(build, "drafted", lambda: own)
    functions = {"go": two, "halt": one, "stay": three}
    text = "\n".join(f"def {name}(): '{told}'" for name, told in functions.items())
    (tmp_path / "m.py").write_text(text)
    found = python_docs(packages=[tmp_path])
    assert found.passages == [("m.go#1", two), ("m.stay#1", three)]
    assert found.queries == {"train": [("m.stay", "m stay")], "dev": [], "test": []}
