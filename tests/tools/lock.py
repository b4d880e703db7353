"""Write requirements.lock from this environment: `python tests/tools/lock.py`.

The file names a version of each package that raypipe and its tests need here, directly or not. It
is a constraints file: `pip install -c requirements.lock '.[test]'`. Run this after the tests have
passed, in the environment that they passed in.
"""

import platform
import tomllib
from collections.abc import Iterable
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[2]
LOCK = ROOT / "requirements.lock"
EXTRAS = ("test",)


def wanted(extras: Iterable[str] = EXTRAS) -> list[Requirement]:
    """What pyproject.toml asks for, with these extras."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    optional = project["optional-dependencies"]
    lines = [*project["dependencies"], *(line for extra in extras for line in optional[extra])]
    return [Requirement(line) for line in lines]


def needs_of(name: str, extras: Iterable[str]) -> list[Requirement]:
    """What an installed package asks for on this machine, with these extras of it."""
    found = [Requirement(line) for line in distribution(name).requires or ()]
    return [r for r in found if _applies(r, extras)]


def closure(requirements: Iterable[Requirement]) -> dict[str, str]:
    """Name -> version, without a local suffix, of all that is needed, directly or not.

    Raises:
        importlib.metadata.PackageNotFoundError: a package is needed and not installed.
    """
    versions: dict[str, str] = {}
    seen: set[tuple[str, frozenset[str]]] = set()
    waiting = [r for r in requirements if _applies(r, ())]
    while waiting:
        one = waiting.pop()
        name, extras = canonicalize_name(one.name), frozenset(one.extras)
        if (name, extras) in seen:
            continue
        seen.add((name, extras))
        versions[name] = Version(distribution(name).version).public
        waiting += needs_of(name, extras)
    return dict(sorted(versions.items()))


def _applies(requirement: Requirement, extras: Iterable[str]) -> bool:
    marker = requirement.marker
    return marker is None or any(marker.evaluate({"extra": extra}) for extra in ("", *extras))


def text() -> str:
    """The file's text."""
    where = f"CPython {platform.python_version()}, {platform.system()} {platform.machine()}"
    lines = [
        f"# Versions that passed the tests together: {where}. Written by tests/tools/lock.py.",
        "# Use: pip install -c requirements.lock '.[test]'",
        *(f"{name}=={version}" for name, version in closure(wanted()).items()),
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    LOCK.write_text(text())
