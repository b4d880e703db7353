import builtins
import json

from raypipe.data.python_docs import source as python_docs_builtin


def test_builtin_sections_are_of_what_c_defined():
    found = {s.name: s for s in python_docs_builtin._sections()}
    assert found["math.gcd"].title == "math" and found["math.gcd"].heading == "gcd"
    assert {"builtins.dict.get", "array.array.append", "itertools.chain.from_iterable"} <= set(
        found
    )
    assert found["builtins.int.from_bytes"].text.startswith("Return the integer represented")
    names = [name.split(".") for name in found]
    assert not [name for name in names if name[1].startswith("_") or name[-1].startswith("_")]
    assert not {"math.pi", "builtins.True", "builtins.Ellipsis"} & set(found)
    assert list(found)[0].startswith("array.") and list(found)[-1].startswith("math.")
    kinds = [value for name, value in python_docs_builtin._objects(builtins) if "." not in name]
    assert len(kinds) > 100 and all(callable(kind) for kind in kinds)
    assert not any(s.text.startswith(" ") for s in found.values())


def test_sections_of_c_are_printed_as_json(capsys):
    python_docs_builtin.print_sections()
    rows = json.loads(capsys.readouterr().out)
    expected = [[s.name, s.title, s.heading, s.text] for s in python_docs_builtin._sections()]
    assert rows == expected and len(rows) > 300
