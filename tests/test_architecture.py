"""Imports go one way, and heavy packages stay where they belong."""

import ast
import re
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
        "nested",
        "numerics",
        "package",
        "regular",
        "shapes",
        "vocabulary",
    },
    {"storage"},
    {"data", "text", "ranking", "evaluation"},
    {"leaderboard", "analysis"},
    {"models", "engines"},
    {"stages"},
    {"training"},
    {"cluster"},
    {"driver"},
    {"api"},
    {"cli", "__main__", "__init__"},
]
ALLOWED = {
    "ray": {"cluster", "driver"},
    "torch": {"models", "stages", "training", "cluster", "driver"},
    "transformers": {
        "models/tokenizer.py",
        "models/folder/adapters.py",
        "models/t5/module.py",
        "models/t5/pieces.py",
        "models/whole/module.py",
    },
    "peft": {"models/folder/adapters.py"},
    "tensorboardX": {"driver/training/curves.py"},
    "matplotlib": {"analysis/drawing.py"},
    "jnius": {"engines/lucene/java.py"},
    "pyserini": set(),
    "faiss": {"engines", "stages", "driver/upkeep/export.py"},
    "ir_measures": {"evaluation"},
    "typer": {"cli"},
}
FILES = sorted(ROOT.rglob("*.py"))


def layer_of(name: str) -> int:
    return next(i for i, layer in enumerate(LAYERS) if name in layer)


def imports(path: Path) -> list[str]:
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            found += [f"{node.module}.{alias.name}" for alias in node.names]
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_go_from_outer_layers_to_inner_ones(path):
    relative = path.relative_to(ROOT)
    here = relative.parts[0].removesuffix(".py")
    for name in imports(path):
        parts = name.split(".")
        if parts[0] != "raypipe" or len(parts) < 2:
            continue
        there = parts[1]
        if not any(there in layer for layer in LAYERS):
            continue
        assert there == here or layer_of(there) <= layer_of(here), f"{relative} imports {name}"
        siblings = LAYERS[2]
        both = here in siblings and there in siblings
        assert not both or here == there, f"{relative} imports its sibling {name}"


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_heavy_packages_are_imported_only_where_they_belong(path):
    relative = path.relative_to(ROOT).as_posix()
    for name in imports(path):
        package = name.split(".")[0]
        if package in ALLOWED:
            places = ALLOWED[package]
            assert relative in places or relative.split("/")[0] in places, f"{relative}: {name}"


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


def words_of(tree: ast.Module) -> list[str]:
    """Every text of the code; docstrings and the like, which are statements alone, are prose."""
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose
    ]


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_what_is_berts_alone_stands_in_its_folder(path):
    relative = path.relative_to(ROOT).as_posix()
    if relative.startswith(("models/bert/", "models/renamed/", "models/whole/")):
        return
    found = [text for text in words_of(ast.parse(path.read_text())) if OF_BERT.search(text)]
    assert not found, f"{relative} says {found}"
    if relative == "models/family.py":  # the one list of families
        return
    shown = {"driver/upkeep/doctor.py": {"BUDGET_TOKENS", "numerics_class"}}.get(relative, set())
    named = [name for name in imports(path) if name.startswith("raypipe.models.bert")]
    assert {name.rpartition(".")[2] for name in named} <= shown, f"{relative} imports {named}"


def test_the_words_that_are_looked_for_are_found():
    code = """
def a():
    "The prose of bert.x is left."
    return f"bert.encoder.{1}", "pooler.dense", 'cls.x', "[SEP]"
"""
    assert len([text for text in words_of(ast.parse(code)) if OF_BERT.search(text)]) == 4
