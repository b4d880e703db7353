from raypipe.data.python_docs.source import docstring_sections, module_sections, topics


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
