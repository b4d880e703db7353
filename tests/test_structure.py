"""Files and folders of raypipe import each other one way, and no file is too long to read."""

import ast
import io
import tokenize
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

RAYPIPE = Path(__file__).parent.parent / "raypipe"
NO_CODE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT,
           tokenize.ENDMARKER}  # fmt: skip
MOST_LINES = 400
"""Of a file, without blank ones, comments and docstrings."""


def short(path):
    return path.relative_to(RAYPIPE).as_posix()


def dotted(path):
    parts = path.relative_to(RAYPIPE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


BY_NAME = {dotted(path): path for path in RAYPIPE.rglob("*.py")}


@cache
def imported(path):
    """Files of raypipe that a file imports, anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            whole = {alias.name: f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if name in BY_NAME else node.module for name in whole.values()}
    return {BY_NAME[name] for name in found if name in BY_NAME} - {path}


def check_one_way(graph):
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(f"a circle of imports: {' <- '.join(map(str, error.args[1]))}")


def test_files_import_each_other_one_way():
    check_one_way({short(path): set(map(short, imported(path))) for path in BY_NAME.values()})


def test_folders_of_one_folder_import_each_other_one_way():
    graph = {}
    for path in BY_NAME.values():
        here = path.relative_to(RAYPIPE).parts[:-1]
        for other in imported(path):
            there = other.relative_to(RAYPIPE).parts[:-1]
            # Deeper folders are parts of their room: raypipe/A/B is the room of raypipe/A/B/C.
            if len(here) > 1 and len(there) > 1 and here[:2] != there[:2]:
                graph.setdefault("/".join(here[:2]), set()).add("/".join(there[:2]))
    check_one_way(graph)


def test_a_file_has_at_most_400_lines_of_code():
    assert {short(p): n for p in BY_NAME.values() if (n := lines_of_code(p)) > MOST_LINES} == {}


def lines_of_code(path):
    """Lines with a token that is no comment and no docstring."""
    text = path.read_text()
    lines = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in NO_CODE:
            lines |= set(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            lines -= set(range(node.lineno, node.end_lineno + 1))
    return len(lines)
