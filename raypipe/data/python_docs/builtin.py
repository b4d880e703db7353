"""Sections from modules written in C: `builtins`, and a few others that are safe to import."""

import importlib
import inspect
import json
import subprocess
import sys
from collections.abc import Iterator
from types import ModuleType

from raypipe.data.python_docs.source import Section
from raypipe.package import FOLDER

_MODULES = ("array", "binascii", "builtins", "cmath", "itertools", "math")
"""Built with every CPython on every platform, without state or platform-dependent docstrings."""
_PLATFORM = frozenset({"WindowsError"})
_HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE: created at run time


def builtin_sections() -> Iterator[Section]:
    """Sections of public functions, classes and methods; by module, then name.

    A new interpreter reads them: libraries replace builtins in processes that use them (Ray does so
    with print), and the sections must not depend on what else was imported.
    """
    root = str(FOLDER.parent)
    code = (
        f"import sys; sys.path.insert(0, {root!r}); "
        "from raypipe.data.python_docs.builtin import print_sections; print_sections()"
    )
    done = subprocess.run([sys.executable, "-I", "-c", code], stdout=subprocess.PIPE, check=True)
    for name, title, heading, text in json.loads(done.stdout):
        yield Section(name=name, title=title, heading=heading, text=text)


def print_sections() -> None:
    """Print the sections of this process as JSON, for `builtin_sections`."""
    rows = [[s.name, s.title, s.heading, s.text] for s in _sections()]
    sys.stdout.write(json.dumps(rows))


def _sections() -> Iterator[Section]:
    for name in _MODULES:
        module = importlib.import_module(name)
        for heading, value in _objects(module):
            if text := _docstring(value):
                yield Section(name=f"{name}.{heading}", title=name, heading=heading, text=text)


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
