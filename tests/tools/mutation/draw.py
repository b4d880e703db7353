"""Mutants: one line of raypipe changed, drawn from the syntax tree by a seed.

A mutant changes one expression or statement that stands on one line. Nothing is drawn from what
decides no result: docstrings, annotations, type aliases, imports, decorators, assertions, logged
lines, and the texts of errors.
"""

import ast
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from edits import Finder

SWAPS_KEPT = 0.25
"""Most exchanged arguments crash at once: few of them are drawn."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """One line of one file changed."""

    file: str
    """Relative to the repository, with forward slashes."""
    function: str
    """Qualified name, `<module>` outside of functions."""
    line: int
    before: str
    after: str
    """Both lines without the white space around them."""
    start: int
    stop: int
    text: str
    """Columns of the line, in bytes, and what stands there instead."""
    swaps: bool = False
    """Whether two arguments of a call changed places."""
    first: int = 0
    last: int = 0
    """The lines of the smallest statement that the changed line is part of."""
    imported: bool = False
    """Whether the import of the module runs the line: it is in no function, or in its head."""

    def apply(self, source: bytes) -> bytes:
        """The file's source with the one line changed."""
        lines = source.split(b"\n")
        lines[self.line - 1] = _replaced(lines[self.line - 1], self.start, self.stop, self.text)
        return b"\n".join(lines)


def draw(root: Path, folder: str, seed: int) -> Iterator[Mutant]:
    """Mutants in the order of a seeded draw over all lines, one a line at most.

    Args:
        root: the repository.
        folder: of raypipe; "" is all of it.
        seed: decides order and choice.
    """
    rng = random.Random(f"{seed}/{folder}")
    by_line: dict[tuple[str, int], list[Mutant]] = {}
    defaults = _defaults(root)
    for path in sorted((root / "raypipe" / folder).rglob("*.py")):
        name = path.relative_to(root).as_posix()
        for mutant in mutants_of(name, path.read_bytes(), defaults):
            by_line.setdefault((name, mutant.line), []).append(mutant)
    places = list(by_line)
    rng.shuffle(places)
    for place in places:
        choices = by_line[place]
        mutant = rng.choice([c for c in choices if not c.swaps] or choices)
        rare = mutant.swaps and rng.random() > SWAPS_KEPT  # most exchanges crash: few are drawn
        if not rare and compiles(mutant.apply((root / mutant.file).read_bytes())):
            yield mutant


def mutants_of(file: str, source: bytes, defaults: dict[str, set[str]]) -> list[Mutant]:
    """Every mutant of a file, in the order of its lines."""
    lines = source.split(b"\n")
    found, tree = [], ast.parse(source)
    spans = [(n.lineno, n.end_lineno or 0) for n in ast.walk(tree) if isinstance(n, ast.stmt)]
    heads = {n.lineno: n.body[0].lineno for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)}
    for function, line, start, stop, text, swaps in Finder(lines, defaults).of(tree):
        old = lines[line - 1]
        new = _replaced(old, start, stop, text)
        if new != old:
            shown = (part.decode().strip() for part in (old, new))
            around = [span for span in spans if span[0] <= line <= span[1]]
            span = min(around, key=lambda span: span[1] - span[0])
            imported = function == "<module>" or line < heads.get(span[0], 0)
            found.append(
                Mutant(file, function, line, *shown, start, stop, text, swaps, *span, imported)
            )
    return found


def _replaced(line: bytes, start: int, stop: int, text: str) -> bytes:
    return line[:start] + text.encode() + line[stop:]


def compiles(source: bytes) -> bool:
    """Whether this is a Python module."""
    try:
        compile(source, "mutant", "exec")
    except (SyntaxError, ValueError):
        return False
    return True


def _defaults(root: Path) -> dict[str, set[str]]:
    """Function name -> keywords that have a default, of raypipe's own functions."""
    found: dict[str, set[str]] = {}
    for path in (root / "raypipe").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.FunctionDef):
                given = node.args.args[len(node.args.args) - len(node.args.defaults) :]
                words = zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
                named = {arg.arg for arg in given} | {arg.arg for arg, value in words if value}
                found[node.name] = found.get(node.name, set()) | named
    return found
