"""requirements.lock covers pyproject.toml and holds nothing of the machine it was written on.

It is a known-good set, not a demand: other versions may be installed where the tests run.
"""

import re
from importlib.metadata import PackageNotFoundError, version
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

spec = spec_from_file_location("lock", Path(__file__).parent / "tools" / "lock.py")
assert spec is not None and spec.loader is not None
lock = module_from_spec(spec)
spec.loader.exec_module(lock)

LINES = [line for line in lock.LOCK.read_text().splitlines() if not line.startswith("#")]
LOCKED = dict(line.split("==") for line in LINES)


def test_each_line_is_a_name_and_one_public_version():
    """No path, address, option, marker or local suffix such as torch's +cpu."""
    for line in LINES:
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*==[0-9][0-9a-z.!]*", line), line
    assert LINES == sorted(LINES, key=lambda line: line.split("==")[0])
    assert len(LOCKED) == len(LINES)
    assert "raypipe" not in LOCKED
    assert not any(word in lock.LOCK.read_text() for word in ("://", "--", "@"))


def test_each_dependency_has_an_entry_within_its_range():
    for requirement in lock.wanted():
        assert Version(LOCKED[canonicalize_name(requirement.name)]) in requirement.specifier


def test_what_a_locked_package_needs_is_within_its_range_where_it_is_locked():
    """Of packages that are here in the locked version; another build may need more packages."""
    for name in LOCKED:
        try:
            same = Version(version(name)).public == LOCKED[name]
        except PackageNotFoundError:
            continue
        for need in lock.needs_of(name, ()) if same else ():
            locked = LOCKED.get(canonicalize_name(need.name))
            assert locked is None or need.specifier.contains(locked, prereleases=True), (name, need)


def test_the_closure_follows_extras_and_leaves_out_local_suffixes(monkeypatch):
    class Fake:
        def __init__(self, version, *requires):
            self.version, self.requires = version, list(requires)

    packages = {
        "a": Fake("2.13.0+cpu", "B[big]>=1", "never; python_version < '3'", "c; extra == 'more'"),
        "b": Fake("1.0", "d; extra == 'big'", "e; extra == 'small'", "a"),
        "d": Fake("4"),
    }
    monkeypatch.setattr(lock, "distribution", packages.__getitem__)
    assert lock.closure([Requirement("A")]) == {"a": "2.13.0", "b": "1.0", "d": "4"}
