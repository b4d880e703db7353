"""Writes tests/faults/README.md from the marks of the tests: `python tests/tools/reliability.py`.

A test says which fault it proves, and what it found, by `@pytest.mark.fault(row, figure)`. The rows
are in tests/tools/reliability.toml. Tests are read and not imported.
"""

import ast
import textwrap
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "tests" / "faults" / "README.md"
TABLE = tomllib.loads((ROOT / "tests" / "tools" / "reliability.toml").read_text())
WIDTH = 110
BY_HAND = ("long", "gpu")
"""Marks of tests that do not run by default."""


@dataclass(frozen=True, order=True)
class Proof:
    """A test that is marked with a fault."""

    row: int
    test: str
    """`tests/...py::name`"""
    figure: str
    by_hand: str = ""
    """The mark that asks for it, where it does not run by default."""


def proofs(folder: Path = ROOT / "tests") -> list[Proof]:
    """All marks of all tests, by row and then by test."""
    found = []
    for path in sorted(folder.rglob("test_*.py")):
        source = path.read_text()
        if "mark.fault(" in source:
            found += proofs_of(source, path.relative_to(folder.parent).as_posix())
    return sorted(found)


def proofs_of(source: str, name: str) -> list[Proof]:
    """The marks of one file.

    Raises:
        ValueError: a mark is not a number and a text, or marks what pytest does not collect.
    """
    tree, found, known = ast.parse(source), [], 0
    whole = [_mark(mark) for mark in _list(_assigned(tree, "pytestmark"))]
    for node in tree.body:
        if not isinstance(node, ast.FunctionDef):
            continue
        marks = [mark for mark in map(_mark, node.decorator_list) if mark]
        faults = [given for kind, given in marks if kind == "fault"]
        known += len(faults)
        words = {kind for kind, _ in [*marks, *filter(None, whole)]}
        for given in faults:
            row, figure = [ast.literal_eval(part) for part in given]
            if not (isinstance(row, int) and isinstance(figure, str) and figure.strip()):
                raise ValueError(f"{name}::{node.name}: expected fault(row, figure)")
            if not node.name.startswith("test_"):
                raise ValueError(f"{name}::{node.name}: marked, and not a test")
            by_hand = next((word for word in BY_HAND if word in words), "")
            found.append(Proof(row, f"{name}::{node.name}", figure, by_hand))
    if known != sum(_is_fault(node) for node in ast.walk(tree)):
        raise ValueError(f"{name}: a fault is marked that is no decorator of a test's function")
    return found


def _is_fault(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and ast.unparse(node) == "pytest.mark.fault"


def _mark(node: ast.expr) -> tuple[str, list[ast.expr]] | None:
    """The word of a mark of pytest and what it is given; None for any other expression."""
    given = node.args if isinstance(node, ast.Call) else []
    words = ast.unparse(node.func if isinstance(node, ast.Call) else node)
    return (words.rpartition(".")[2], given) if words.startswith("pytest.mark.") else None


def _assigned(tree: ast.Module, name: str) -> ast.expr | None:
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name:
            return node.value
    return None


def _list(node: ast.expr | None) -> list[ast.expr]:
    if node is None:
        return []
    return node.elts if isinstance(node, ast.List) else [node]


def text() -> str:
    """The page."""
    by_row: dict[int, list[Proof]] = {}
    for proof in proofs():
        by_row.setdefault(proof.row, []).append(proof)
    lines = ["# What holds under faults", "", TABLE["introduction"].strip(), ""]
    for group in TABLE["group"]:
        lines += [f"## {group['title']}", ""]
        for row in group["row"]:
            lines += [f"### {row['number']}. {row['title']}", "", _filled(row["happens"]), ""]
            if "note" in row:
                lines += [_filled(row["note"]), ""]
            found = by_row.get(row["number"], [])
            lines += [_line(proof) for proof in found] + ([""] if found else [])
    return "\n".join(lines).rstrip() + "\n"


def _filled(words: str) -> str:
    return textwrap.fill(" ".join(words.split()), WIDTH, break_on_hyphens=False)


def _line(proof: Proof) -> str:
    asked = f" (by hand: `-m\0{proof.by_hand}`)" if proof.by_hand else ""
    said = textwrap.fill(f"- {proof.figure}{asked}", WIDTH, subsequent_indent="  ")
    return said.replace("\0", " ") + f"\n  `{proof.test}`"


if __name__ == "__main__":
    PAGE.write_text(text())
