"""Sections of the interpreter's own documentation, read from source files, never imported.

Only what every distribution of one Python version ships in its standard install is read:
Debian, for example, moves tkinter, idlelib and others into separate packages and patches site and
sysconfig. Third-party packages are read only if their folders are named: otherwise only
`sys.stdlib_module_names` count. Among modules written in C, `builtins` and a few others that are
safe to import are read.
"""

import ast
import importlib
import inspect
import json
import subprocess
import sys
import sysconfig
import tokenize
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from raypipe.errors import InputError
from raypipe.isolation import child_environment, python_command

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
class DocSection:
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


def docstring_sections(folder: Path) -> Iterator[DocSection]:
    """Sections of all public modules, classes, functions and methods; by file, then line.

    A name that is defined twice (a property and its setter, branches of an `if`) occurs more than
    once.
    """
    for module, path in sorted(_modules(folder)):
        yield from module_sections(module, path)


def module_sections(module: str, path: Path) -> Iterator[DocSection]:
    """The sections of one source file: the module's own and those of its public objects."""
    for heading, text in _docstrings(_parse(path)):
        name = f"{module}.{heading}" if heading else module
        yield DocSection(name=name, title=module, heading=heading, text=text)


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


_MODULES = ("array", "binascii", "builtins", "cmath", "itertools", "math")
"""Built with every CPython on every platform, without state or platform-dependent docstrings."""
_PLATFORM = frozenset({"WindowsError"})
_HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE: created at run time


def builtin_sections() -> Iterator[DocSection]:
    """Sections of public functions, classes and methods; by module, then name.

    A new interpreter reads them: libraries replace builtins in processes that use them (Ray does so
    with print), and the sections must not depend on what else was imported.
    """
    command, environment = python_command(__name__), child_environment()
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True)
    for name, title, heading, text in json.loads(done.stdout):
        yield DocSection(name=name, title=title, heading=heading, text=text)


def print_sections() -> None:
    """Print the sections of this process as JSON, for `builtin_sections`."""
    rows = [[s.name, s.title, s.heading, s.text] for s in _sections()]
    sys.stdout.write(json.dumps(rows))


def _sections() -> Iterator[DocSection]:
    for name in _MODULES:
        module = importlib.import_module(name)
        for heading, value in _objects(module):
            if text := _docstring(value):
                yield DocSection(name=f"{name}.{heading}", title=name, heading=heading, text=text)


def _objects(module: ModuleType) -> Iterator[tuple[str, object]]:
    """(dotted name, object) of everything defined in C; `site` and shells add Python objects."""
    for name, value in sorted(vars(module).items()):
        if name.startswith("_") or name in _PLATFORM:
            continue
        if inspect.isbuiltin(value):
            yield name, value
        elif isinstance(value, type) and _is_from(module, value):
            yield name, value
            for part, method in sorted(vars(value).items()):
                if not part.startswith("_"):
                    yield f"{name}.{part}", method


def _is_from(module: ModuleType, kind: type) -> bool:
    if module.__name__ == "builtins":
        return kind.__module__ == "builtins" and not kind.__flags__ & _HEAP_TYPE
    return kind.__module__ == module.__name__


def _docstring(value: object) -> str:
    """The object's own docstring; nothing for a plain value, which has its class's docstring."""
    if not (isinstance(value, type | staticmethod | classmethod) or inspect.isroutine(value)):
        return ""
    text = value.__doc__
    return inspect.cleandoc(text) if isinstance(text, str) else ""


_LEFT_OUT_PARTS = frozenset(
    "test tests testing conftest _vendor vendor vendored externals extern _external examples"
    " example benchmarks setup docs doc migrations locale templates third_party".split()
)
"""Names of folders and files without documentation of their own package."""
MAX_BYTES = 2_000_000
"""Largest source file; longer ones are tables written by a program."""


def package_sections(folders: Sequence[Path]) -> Iterator[DocSection]:
    """Sections of the packages in the folders, by package, file, then line.

    Modules of the standard library, private packages and files that are not Python 3 are skipped.

    Raises:
        InputError: a folder without a package.
    """
    for folder in folders:
        tops = {path.stem: path for path in sorted(folder.iterdir()) if _is_package(path)}
        if not tops:
            raise InputError(f"{folder}: expected installed packages, found none")
        for top, path in sorted(tops.items()):
            files = sorted(path.rglob("*.py")) if path.is_dir() else [path]
            for file in files:
                parts = file.relative_to(folder).with_suffix("").parts
                parts = parts[:-1] if parts[-1] == "__init__" else parts
                if _LEFT_OUT_PARTS.isdisjoint(parts) and file.stat().st_size < MAX_BYTES:
                    module = ".".join([top, *(part for part in parts[1:] if part[0] != "_")])
                    try:
                        yield from list(module_sections(module, file))
                    except (SyntaxError, ValueError, RecursionError):
                        continue  # a template, or another version's syntax


def _is_package(path: Path) -> bool:
    top = path.stem
    is_source = (path / "__init__.py").is_file() or path.suffix == ".py"
    public = not top.startswith("_") and top not in _LEFT_OUT_PARTS
    return is_source and public and top not in sys.stdlib_module_names


if __name__ == "__main__":
    print_sections()
