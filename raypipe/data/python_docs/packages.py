"""Sections from installed packages' docstrings, read from source files, never imported."""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from raypipe.data.python_docs.source import Section, module_sections
from raypipe.errors import InputError

_LEFT_OUT = frozenset(
    "test tests testing conftest _vendor vendor vendored externals extern _external examples"
    " example benchmarks setup docs doc migrations locale templates third_party".split()
)
"""Names of folders and files without documentation of their own package."""
MAX_BYTES = 2_000_000
"""Largest source file; longer ones are tables written by a program."""


def package_sections(folders: Sequence[Path]) -> Iterator[Section]:
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
                if _LEFT_OUT.isdisjoint(parts) and file.stat().st_size < MAX_BYTES:
                    module = ".".join([top, *(part for part in parts[1:] if part[0] != "_")])
                    try:
                        yield from list(module_sections(module, file))
                    except (SyntaxError, ValueError, RecursionError):
                        continue  # a template, or another version's syntax


def _is_package(path: Path) -> bool:
    top = path.stem
    is_source = (path / "__init__.py").is_file() or path.suffix == ".py"
    public = not top.startswith("_") and top not in _LEFT_OUT
    return is_source and public and top not in sys.stdlib_module_names
