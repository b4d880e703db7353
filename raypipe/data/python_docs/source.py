"""Sections of the interpreter's own documentation, read from source files, never imported.

Only what every distribution of one Python version ships in its standard install is read:
Debian, for example, moves tkinter, idlelib and others into separate packages and patches site and
sysconfig. Third-party packages are not read, as only `sys.stdlib_module_names` count.
"""

import ast
import sys
import sysconfig
import tokenize
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from raypipe.errors import InputError

_LEFT_OUT = frozenset(
    "__main__ antigravity ctypes.macholib dbm.gnu distutils encodings ensurepip idlelib lib2to3"
    " msilib pydoc_data site sysconfig test tests this tkinter turtle turtledemo venv".split()
)
"""Modules that are left out with everything below them, and folder names that are left out
anywhere."""
_TWINS = {
    "_collections_abc": "collections.abc",
    "_pydatetime": "datetime",
    "_pydecimal": "decimal",
    "_pyio": "io",
}
"""Private modules that hold the documentation of a public one."""


@dataclass(frozen=True, kw_only=True)
class Section:
    """One docstring, or the text under one heading of a topic, with its names."""

    name: str
    """Unique and without white space: `collections.OrderedDict.move_to_end`."""
    title: str
    heading: str
    """Title and heading are names as in the source; they are turned into words later."""
    text: str

    @property
    def module(self) -> str:
        """The top-level module, which is never divided between splits."""
        return self.name.partition(".")[0]


def stdlib_folder() -> Path:
    """The folder with the standard library's source, also in a virtual environment.

    Raises:
        InputError: this Python comes without source files.
    """
    folder = Path(sysconfig.get_path("stdlib"))
    if not (folder / "collections" / "__init__.py").is_file():
        raise InputError(
            f"{folder}: no source of the standard library here; python-docs is made from it:"
            " use a Python that has it (python.org, Debian's libpython3-stdlib, uv, pyenv)"
        )
    return folder


def docstring_sections(folder: Path) -> Iterator[Section]:
    """Sections of all public modules, classes, functions and methods; by file, then line.

    A name that is defined twice (a property and its setter, branches of an `if`) occurs more than
    once.
    """
    for module, path in sorted(_modules(folder)):
        yield from module_sections(module, path)


def module_sections(module: str, path: Path) -> Iterator[Section]:
    """The sections of one source file: the module's own and those of its public objects."""
    for heading, text in _docstrings(_parse(path)):
        name = f"{module}.{heading}" if heading else module
        yield Section(name=name, title=module, heading=heading, text=text)


def topics(folder: Path) -> dict[str, str]:
    """Topic -> reStructuredText-like text of `pydoc_data.topics`; empty if that is missing."""
    path = folder / "pydoc_data" / "topics.py"
    if not path.is_file():
        return {}
    for node in _parse(path).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "topics":
            value: dict[str, str] = ast.literal_eval(node.value)
            return value
    return {}


def _modules(folder: Path) -> Iterator[tuple[str, Path]]:
    """(public dotted name, path) of every module to read, in no particular order."""
    for top in sys.stdlib_module_names:
        if top.startswith("_") and top not in _TWINS:
            continue
        for path in (folder / f"{top}.py", *(folder / top).rglob("*.py")):
            if path.is_file():
                parts = path.relative_to(folder).with_suffix("").parts
                parts = parts[:-1] if parts[-1] == "__init__" else parts
                if not _is_left_out(parts):
                    yield _public_name(parts), path


def _is_left_out(parts: tuple[str, ...]) -> bool:
    prefixes = {".".join(parts[: end + 1]) for end in range(len(parts))}
    return bool(_LEFT_OUT & (prefixes | set(parts)))


def _public_name(parts: tuple[str, ...]) -> str:
    """The module's public name: `pathlib.Path` is written in `pathlib._local`."""
    top, *rest = parts
    return ".".join([_TWINS.get(top, top), *(part for part in rest if part[0] != "_")])


def _parse(path: Path) -> ast.Module:
    with tokenize.open(path) as file, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # ignore the library's own invalid escapes
        return ast.parse(file.read())


def _docstrings(module: ast.Module) -> Iterator[tuple[str, str]]:
    """(dotted object name, docstring); the module's own name is empty."""
    if text := ast.get_docstring(module):
        yield "", text
    yield from _inner_docstrings(module.body, prefix="")


def _inner_docstrings(body: list[ast.stmt], *, prefix: str) -> Iterator[tuple[str, str]]:
    for node in body:
        if isinstance(node, ast.If | ast.Try):
            yield from _inner_docstrings(node.body, prefix=prefix)
            yield from _inner_docstrings(node.orelse, prefix=prefix)
        elif isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            if node.name.startswith("_"):
                continue
            if text := ast.get_docstring(node):
                yield prefix + node.name, text
            if isinstance(node, ast.ClassDef):
                yield from _inner_docstrings(node.body, prefix=f"{prefix}{node.name}.")
