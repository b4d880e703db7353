"""Mutants are drawn by their seed, change one line, and stay out of what decides nothing."""

import ast
import importlib.util
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def load(name):
    spec = importlib.util.spec_from_file_location(
        name, ROOT / "tests" / "tools" / "mutation" / f"{name}.py"
    )
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


load("edits")
draw = load("draw")
load("contexts")
Bench = load("bench").Bench

SOURCE = b'''"""A docstring: 1 < 2 and not 3."""

import os

Pair = tuple[int, int]
LIMIT = 10


class Part:
    """1 + 1."""

    size: int = 3

    def cut(self, rows: list[int] | None, *, last: int = 7, all: bool = False) -> list:
        """Rows[0] < 1."""
        assert len(rows) > 0
        if len(rows) < last and not all:
            os.unlink("x")
            print(f"{len(rows) + 1} rows")
            raise ValueError(f"expected {last + 1}; found {1 + 2}")
        shown = rows[:5]
        return max(sorted(rows[1:last], key=abs), shown)

    def __str__(self) -> str:
        return "a" * (3 + 4)
'''


def changes(source=SOURCE):
    found = {}
    for mutant in draw.mutants_of("raypipe/x/y.py", source, {}):
        found.setdefault(mutant.before, set()).add(mutant.after)
    return found


def test_each_kind_of_change_is_made_where_it_decides_something():
    found = changes()
    assert found == {
        "LIMIT = 10": {"LIMIT = 11", "LIMIT = 0"},
        "size: int = 3": {"size: int = 4", "size: int = 0"},
        "def cut(self, rows: list[int] | None, *, last: int = 7, all: bool = False) -> list:": {
            "def cut(self, rows: list[int] | None, *, last: int = 8, all: bool = False) -> list:",
            "def cut(self, rows: list[int] | None, *, last: int = 0, all: bool = False) -> list:",
            "def cut(self, rows: list[int] | None, *, last: int = 7, all: bool = True) -> list:",
        },
        "if len(rows) < last and not all:": {
            "if len(rows) < last or not all:",
            "if len(rows) <= last and not all:",
            "if len(rows) > last and not all:",
            "if len(rows) < last and all:",
        },
        'os.unlink("x")': {"pass"},
        'raise ValueError(f"expected {last + 1}; found {1 + 2}")': {"pass"},
        "return max(sorted(rows[1:last], key=abs), shown)": {
            "return min(sorted(rows[1:last], key=abs), shown)",
            "return max(shown, sorted(rows[1:last], key=abs))",
            "return max(sorted(rows[1:last], reverse=True, key=abs), shown)",
            "return max(sorted(rows[1:last]), shown)",
            "return max(sorted(rows[:last], key=abs), shown)",
            "return max(sorted(rows[1:], key=abs), shown)",
            "return max(sorted(rows[2:last], key=abs), shown)",
            "return max(sorted(rows[0:last], key=abs), shown)",
        },
    }  # fmt: skip


def test_functions_are_told_by_their_qualified_name():
    named = {m.before: m.function for m in draw.mutants_of("raypipe/x/y.py", SOURCE, {})}
    assert named["LIMIT = 10"] == named["size: int = 3"] == "<module>"
    assert named['os.unlink("x")'] == "Part.cut"


def test_a_keyword_is_dropped_only_where_the_function_has_a_default():
    source = b"def f():\n    return g(1, depth=2)\n"
    dropped = "return g(1)"
    assert dropped not in changes(source)["return g(1, depth=2)"]
    with_default = draw.mutants_of("raypipe/x/y.py", source, {"g": {"depth"}})
    assert dropped in {mutant.after for mutant in with_default}


@pytest.mark.slow
def test_a_draw_changes_one_line_of_real_code_and_is_that_of_its_seed():
    folder = "ranking"
    first = list(draw.draw(ROOT, folder, 1))
    assert first == list(draw.draw(ROOT, folder, 1)) and first != list(draw.draw(ROOT, folder, 2))
    assert len(first) > 80 and len({(m.file, m.line) for m in first}) == len(first)
    for mutant in first:
        source = (ROOT / mutant.file).read_bytes()
        changed = mutant.apply(source)
        ast.parse(changed)
        lines = zip(source.split(b"\n"), changed.split(b"\n"), strict=True)
        differing = [n for n, (old, new) in enumerate(lines, 1) if old != new]
        assert differing == [mutant.line]
        assert mutant.first <= mutant.line <= mutant.last
        assert mutant.file.startswith(f"raypipe/{folder}/")


CHILD = "import subprocess, sys\n\ndef test_in_a_child():\n"
CHILD += "    code = 'from raypipe.part import double; double(1)'\n"
CHILD += "    subprocess.run([sys.executable, '-c', code], check=True)\n"


@pytest.mark.long
def test_a_line_that_a_child_process_runs_is_reached_by_the_test_that_started_it(
    tmp_path, monkeypatch
):
    for name, text in (
        ("raypipe/__init__.py", ""),
        ("raypipe/part.py", "def double(x):\n    return 2 * x\n\n\ndef never():\n    return 1\n"),
        ("tests/test_part.py", CHILD + "\n\ndef test_nothing():\n    pass\n"),
    ):
        (tmp_path / "root" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "root" / name).write_text(text)
    for command in (["init", "-q"], ["add", "."]):
        subprocess.run(["git", "-C", tmp_path / "root", *command], check=True)
    monkeypatch.setenv("PYTHONPATH", "")  # the bench sets it, and the path
    monkeypatch.setattr(sys, "path", [*sys.path])
    bench = Bench(tmp_path / "root", tmp_path, "not slow")
    reached = bench.reached(tmp_path / "keep", ["tests"], workers=2)
    lines = reached.lines["raypipe/part.py"]
    assert lines[2] == ["tests/test_part.py::test_in_a_child"]
    assert 6 not in lines
    assert {*reached.seconds} == {
        f"tests/test_part.py::test_{name}" for name in ("in_a_child", "nothing")
    }


def test_every_equivalent_mutant_is_of_a_line_that_stands_and_has_a_reason():
    table = tomllib.loads((ROOT / "tests" / "tools" / "mutation" / "equivalent.toml").read_text())
    for entry in table["equivalent"]:
        lines = [line.strip() for line in (ROOT / entry["file"]).read_text().splitlines()]
        assert entry["before"] in lines, entry
        assert len(entry["why"]) > 15 and entry["after"] != entry["before"]
