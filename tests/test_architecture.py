"""Imports go one way, heavy packages stay where they belong, no file is too long to read."""

import ast
import re
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent / "raypipe"
LAYERS = [
    {
        "config",
        "schema",
        "errors",
        "foreign",
        "markdown",
        "names",
        "isolation",
        "kinds",
        "numerics",
        "package",
        "regular",
        "uris",
        "vocabulary",
    },
    {"storage"},
    {"data", "text", "ranking", "evaluation"},
    {"leaderboard"},
    {"models", "engines"},
    {"stages"},
    {"training"},
    {"cluster"},
    {"driver"},
    {"report"},
    {"api"},
    {"cli", "__main__", "__init__"},
]
ALLOWED = {
    "ray": {"cluster", "driver"},
    "torch": {"models", "stages", "training", "cluster", "driver"},
    "transformers": {
        "driver/proof/reference.py",
        "models/tokenizer.py",
        "models/folder/adapters.py",
        "models/library_open.py",
        "models/prompted.py",
    },
    "sentence_transformers": {
        "driver/proof/reference.py",
        "models/library.py",
        "models/library_open.py",
    },
    "peft": {"driver/proof/reference.py", "models/folder/adapters.py"},
    "tensorboardX": {"driver/training/curves.py"},
    "matplotlib": {"report/charts.py"},
    "jinja2": {"report/page.py"},
    "jnius": {"engines/lucene/java.py"},
    "pyserini": set(),
    "faiss": {"engines", "stages", "driver/upkeep/export.py"},
    "ir_measures": {"evaluation"},
    "typer": {"cli"},
}
FILES = sorted(ROOT.rglob("*.py"))
MOST_LINES = 400
"""Of a file, without blank ones, comments and docstrings."""


def layer_of(name: str) -> int:
    return next(i for i, layer in enumerate(LAYERS) if name in layer)


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@cache
def nodes(path: Path) -> list[ast.AST]:
    return list(ast.walk(parsed(path)))


@cache
def imports(path: Path) -> list[str]:
    """Of a kind of stage only those at its top: its functions import what only they need, when the
    first stage of that kind is made, and a recipe is read without them."""
    found = []
    at_top = path.parent.name == "kinds"
    for node in parsed(path).body if at_top else nodes(path):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            found += [f"{node.module}.{alias.name}" for alias in node.names]
    return found


def imported() -> list[tuple[Path, str]]:
    """Each file, from raypipe on, with each name that it imports."""
    return [(path.relative_to(ROOT), name) for path in FILES for name in imports(path)]


def test_imports_go_from_outer_layers_to_inner_ones():
    siblings, wrong = LAYERS[2], []
    for relative, name in imported():
        package, _, rest = name.partition(".")
        here, there = relative.parts[0].removesuffix(".py"), rest.partition(".")[0]
        if package != "raypipe" or not any(there in layer for layer in LAYERS):
            continue
        if here != there and (layer_of(there) > layer_of(here) or {here, there} <= {*siblings}):
            wrong.append(f"{relative} imports {name}")
    assert wrong == []


def dotted(path: Path) -> str:
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def packages_above(name: str) -> list[str]:
    """raypipe.a.b of raypipe.a.b.c, and raypipe.a."""
    parts = name.split(".")
    return [".".join(parts[:end]) for end in range(2, len(parts))]


def check_one_way(graph: dict[str, set[str]]) -> None:
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(f"a circle of imports: {' <- '.join(map(str, error.args[1]))}")


def test_files_and_folders_of_one_folder_import_each_other_one_way():
    by_name = {dotted(path): path for path in FILES}
    files, folders = {}, {}
    for name, path in by_name.items():
        wholes = {name if name in by_name else name.rpartition(".")[0] for name in imports(path)}
        # Python runs a package's __init__.py before any of its files.
        packages = {parent for whole in wholes for parent in packages_above(whole)}
        packages -= {*packages_above(name)}
        files[name] = ((wholes | packages) & {*by_name}) - {name}
        here = path.relative_to(ROOT).parts[:-1]
        for other in files[name]:
            there = by_name[other].relative_to(ROOT).parts[:-1]
            # Deeper folders are parts of their room: raypipe/A/B is the room of raypipe/A/B/C.
            if len(here) > 1 and len(there) > 1 and here[:2] != there[:2]:
                folders.setdefault("/".join(here[:2]), set()).add("/".join(there[:2]))
    check_one_way(files)
    check_one_way(folders)


def test_a_file_has_at_most_400_lines_of_code():
    found = {path.relative_to(ROOT).as_posix(): lines_of_code(path) for path in FILES}
    assert {name: number for name, number in found.items() if number > MOST_LINES} == {}


def lines_of_code(path: Path) -> int:
    lines = path.read_text().splitlines()
    code = {n for n, line in enumerate(lines, 1) if line.strip() and line.strip()[0] != "#"}
    for node in nodes(path):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            code -= set(range(node.lineno, node.end_lineno + 1))
    return len(code)


def test_heavy_packages_are_imported_only_where_they_belong():
    wrong = []
    for relative, name in imported():
        places = ALLOWED.get(name.partition(".")[0])
        if places is not None and not {relative.as_posix(), relative.parts[0]} & {*places}:
            wrong.append(f"{relative} imports {name}")
    assert wrong == []


def test_no_file_waits_for_its_work():
    for path in FILES:
        text = path.read_text()
        for word in ("NotImplementedError", "TODO", "FIXME"):
            assert word not in text, f"{path.name}: {word}"


OF_BERT = re.compile(
    r"bert\.|bert/|\bcls\.|\[CLS\]|\[SEP\]|encoder\.layer|attention\.self|token_type_embed|"
    r"word_embeddings|position_embeddings\.|pooler\.|classifier\."
)
"""Names of BERT's tensors and specials."""


def words_of(nodes: list[ast.AST]) -> list[str]:
    """Every text of the code; docstrings and the like, which are statements alone, are prose."""
    prose = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    return [
        node.value
        for node in nodes
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose
    ]


def test_what_is_berts_alone_stands_in_its_folder():
    wrong = []
    for path in FILES:
        relative = path.relative_to(ROOT).as_posix()
        # Texts that tokenizers are tried with name everybody's special tokens.
        where = (
            "models/bert/",
            "models/modernbert/",
            "models/library_open.py",
            "driver/proof/texts.py",
        )
        if relative.startswith(where):
            continue
        found = [text for text in words_of(nodes(path)) if OF_BERT.search(text)]
        wrong += [f"{relative} says {text}" for text in found]
        if relative == "models/family.py":  # the one list of families
            continue
        shown = {"BUDGET_TOKENS", "numerics_class"} if relative == "driver/upkeep/doctor.py" else ()
        wrong += [
            f"{relative} imports {name}"
            for name in imports(path)
            if name.startswith("raypipe.models.bert") and name.rpartition(".")[2] not in shown
        ]
    assert wrong == []


def test_the_words_that_are_looked_for_are_found():
    code = """
def a():
    "The prose of bert.x is left."
    return f"bert.encoder.{1}", "pooler.dense", 'cls.x', "[SEP]"
"""
    words = words_of([*ast.walk(ast.parse(code))])
    assert len([text for text in words if OF_BERT.search(text)]) == 4
