import pytest

from raypipe.data.python_docs import build
from raypipe.data.python_docs import source as python_docs_packages
from raypipe.data.python_docs.build import DocsDraft, python_docs
from raypipe.data.python_docs.source import package_sections
from raypipe.errors import InputError


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
