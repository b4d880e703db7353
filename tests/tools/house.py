"""Print the size and the shape of the package: a report, never a gate.

    python tests/tools/house.py [FOLDER ...]

A code line has a token on it and is not blank, a comment or a docstring; lines of templates are
counted too. Several folders (other checkouts, other projects) stand side by side.
"""

import ast
import io
import sys
import tokenize
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

TEMPLATES = ("*.html", "*.jinja", "*.j2", "*.css", "*.js")
NO_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}
PARTICIPLES = ("ed", "en", "ing")


@dataclass
class Module:
    """What is counted of one file."""

    name: str
    lines: int
    import_lines: int
    imports: set[str] = field(default_factory=set)
    classes: list[str] = field(default_factory=list)
    protocols: int = 0


def main(folders: list[str]) -> None:
    """Print a table with one column for each package."""
    tables = [
        table(Path(folder)) for folder in folders or [str(Path(__file__).parents[2] / "raypipe")]
    ]
    for row in tables[0]:
        print(f"{row:36}", *(f"{values[row]:>16}" for values in tables))


def table(package: Path) -> dict[str, str]:
    """The rows of the report for one package."""
    modules = {m.name: m for m in map(lambda file: read(package, file), package.rglob("*.py"))}
    own = {name: m for name, m in modules.items() if m.lines}
    importers: dict[str, set[str]] = defaultdict(set)
    internal = []
    for module in own.values():
        inner = {_module_of(name, modules) for name in module.imports} - {None, module.name}
        internal.append(len(inner))
        for name in inner:
            importers[str(name)].add(module.name)
    lines = sum(m.lines for m in own.values())
    templates = sum(
        sum(1 for line in file.read_text(encoding="utf-8").splitlines() if line.strip())
        for pattern in TEMPLATES
        for file in package.rglob(pattern)
    )
    classes = Counter(name for m in own.values() for name in m.classes)
    last = [name.rpartition(".")[2] for name in own]
    return {
        "code lines": f"{lines + templates:,}",
        "of them templates": f"{templates:,}",
        "modules": f"{len(own)}",
        "empty __init__": f"{len(modules) - len(own)}",
        "median lines of a module": f"{median(m.lines for m in own.values()):g}",
        "longest module": f"{max(m.lines for m in own.values())}",
        "lines that are imports": f"{sum(m.import_lines for m in own.values()) / lines:.1%}",
        "modules with one importer": f"{sum(len(importers[name]) == 1 for name in own)}",
        "internal imports a module, mean": f"{sum(internal) / len(internal):.1f}",
        "internal imports a module, most": f"{max(internal)}",
        "Protocols": f"{sum(m.protocols for m in own.values())}",
        "class names with two meanings": f"{sum(n > 1 for n in classes.values())}",
        "modules named -ed, -en or -ing": f"{sum(name.endswith(PARTICIPLES) for name in last)}",
    }


def read(package: Path, file: Path) -> Module:
    """Count a file."""
    text = file.read_text(encoding="utf-8")
    tree = ast.parse(text)
    docstrings: set[int] = set()
    imports: set[str] = set()
    import_lines: set[int] = set()
    parts = file.relative_to(package.parent).with_suffix("").parts
    name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    module = Module(name, 0, 0, imports)
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Constant(value=str())):
                docstrings |= set(range(node.lineno, (node.end_lineno or 0) + 1))
            case ast.Import():
                imports |= {alias.name for alias in node.names}
                import_lines |= set(range(node.lineno, (node.end_lineno or 0) + 1))
            case ast.ImportFrom():
                base = (
                    ".".join([*parts[: -node.level], node.module or ""]).strip(".")
                    if node.level
                    else node.module or ""
                )
                imports |= {base} | {f"{base}.{alias.name}" for alias in node.names}
                import_lines |= set(range(node.lineno, (node.end_lineno or 0) + 1))
            case ast.ClassDef():
                module.classes.append(node.name)
                module.protocols += any("Protocol" in ast.unparse(b) for b in node.bases)
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    code = {n for t in tokens if t.type not in NO_CODE for n in range(t.start[0], t.end[0] + 1)}
    module.lines = len(code - docstrings)
    module.import_lines = len(import_lines & code)
    return module


def _module_of(name: str, modules: dict[str, Module]) -> str | None:
    """The module that an imported name is, or None of another package."""
    return name if name in modules and modules[name].lines else None


if __name__ == "__main__":
    main(sys.argv[1:])
