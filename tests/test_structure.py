"""The tests mirror raypipe file by file; its folders are small and know each other one way."""

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
RAYPIPE = TESTS.parent / "raypipe"
MOST_MODULES = 13
"""Of a folder, beside its `__init__`."""
NOT_MIRRORED = {"benchmarks", "gpu", "helpers", "mutation"}
TESTED_ELSEWHERE: dict[str, str] = {}
"""Module -> the test file that covers it, for modules that no test file is named after."""

MODULES = sorted(p for p in RAYPIPE.rglob("*.py") if p.name not in ("__init__.py", "__main__.py"))
FILES = sorted(
    path
    for path in TESTS.rglob("test_*.py")
    if path.parent != TESTS and path.relative_to(TESTS).parts[0] not in NOT_MIRRORED
)


def short(path):
    return path.relative_to(RAYPIPE).as_posix()


def module_of(test_file):
    """The module that a test file is named after: of its folder, the longest name that fits."""
    name = test_file.stem.removeprefix("test_")
    folder = RAYPIPE / test_file.parent.relative_to(TESTS)
    fitting = [p for p in folder.glob("*.py") if f"{name}_".startswith(f"{p.stem}_")]
    return max(fitting, key=lambda p: len(p.stem), default=None)


def behaves(module):
    """Whether it defines a public function, or a class that has a method."""
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.parse(module.read_text()).body:
        if isinstance(node, functions) and not node.name.startswith("_"):
            return True
        if isinstance(node, ast.ClassDef) and any(isinstance(n, functions) for n in node.body):
            return True
    return False


def dotted(path):
    parts = path.relative_to(RAYPIPE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


BY_NAME = {dotted(path): path for path in RAYPIPE.rglob("*.py")}


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


@pytest.mark.parametrize("test_file", FILES, ids=lambda p: p.relative_to(TESTS).as_posix())
def test_a_test_file_is_named_after_a_module_of_the_folder_that_it_mirrors(test_file):
    folder = test_file.parent.relative_to(TESTS)
    assert (RAYPIPE / folder).is_dir(), f"raypipe has no folder {folder}"
    assert module_of(test_file) is not None, f"raypipe/{folder} has no module of this name"


def test_a_module_that_does_something_has_tests_of_its_name_or_is_listed():
    named = {short(module) for module in map(module_of, FILES) if module}
    named |= {p.name for p in RAYPIPE.glob("*.py") if (TESTS / f"test_{p.name}").exists()}
    without = {short(module) for module in MODULES if behaves(module)} - named
    assert without - set(TESTED_ELSEWHERE) == set(), "neither tested by name nor listed"
    assert set(TESTED_ELSEWHERE) - without == set(), "listed, and tested by name or gone"
    assert list(TESTED_ELSEWHERE) == sorted(TESTED_ELSEWHERE)


@pytest.mark.parametrize(("module", "test_file"), TESTED_ELSEWHERE.items())
def test_a_listed_module_is_within_reach_of_the_file_that_covers_it(module, test_file):
    """It is imported there, or by what is imported there."""
    reached, waiting = set(), [TESTS / test_file]
    while waiting:
        new = imported(waiting.pop()) - reached
        reached |= new
        waiting += new
    assert RAYPIPE / module in reached


def test_folders_hold_so_many_modules_at_most():
    numbers = {}
    for module in MODULES:
        folder = module.parent.relative_to(RAYPIPE.parent).as_posix()
        numbers[folder] = numbers.get(folder, 0) + 1
    assert {folder: n for folder, n in numbers.items() if n > MOST_MODULES} == {}


def check_one_way(graph):
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(f"a circle of imports: {' <- '.join(map(str, error.args[1]))}")


def test_files_import_each_other_one_way():
    check_one_way({short(path): set(map(short, imported(path))) for path in BY_NAME.values()})


def test_folders_of_one_folder_import_each_other_one_way():
    graph = {}
    for path in MODULES:
        here = path.relative_to(RAYPIPE).parts[:-1]
        for other in imported(path):
            there = other.relative_to(RAYPIPE).parts[:-1]
            # Deeper folders are parts of their room: raypipe/A/B is the room of raypipe/A/B/C.
            if len(here) > 1 and len(there) > 1 and here[:2] != there[:2]:
                graph.setdefault("/".join(here[:2]), set()).add("/".join(there[:2]))
    check_one_way(graph)
