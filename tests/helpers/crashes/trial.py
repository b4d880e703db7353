"""One scenario, disturbed at one call: what readers see then, and what a repetition makes of it."""

import os
import re
import shutil
import tempfile
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from crashes.disk import FAULTS, Fault, Killed, counted
from raypipe.driver.generations import retire
from raypipe.driver.upkeep.gc import delete, find_garbage
from raypipe.driver.upkeep.verify import verify
from raypipe.driver.workspace import Workspace
from raypipe.errors import ending_of
from raypipe.storage import holder, lease

HARMLESS = r"stores/generations/[^/]+/\d+\.(readers|claims)/.*"
"""What may stay: the lease of a killed reader, which is deleted with its generation, and the claim
of a killed publisher, which gc deletes once its number is used."""
Look = Callable[[Path], dict[str, Any]]


@dataclass(frozen=True)
class Scenario:
    """Something that raypipe does with a workspace's folder, whose stores are in `stores`."""

    name: str
    prepare: Callable[[Path], None]
    """What is there before; undisturbed."""
    act: Callable[[Path], None]
    """What is disturbed, and then repeated as a user would repeat it."""
    look: Look
    """What a reader sees, in parts: each is that of before or that of after, at any moment."""
    between: Callable[[str, Any], bool] = lambda part, seen: False
    """Whether a part may be seen so in between, where it is made in several steps."""
    own: str = r"(?!)"
    """Names of files, as an expression, whose content is another one at each repetition."""
    repeats: bool = True
    """Whether a repetition leaves the same files; else only what readers see is compared."""


@dataclass(frozen=True)
class Calm:
    """An undisturbed course."""

    calls: tuple[str, ...]
    before: dict[str, Any]
    after: dict[str, Any]
    files: dict[str, bytes]
    damages: frozenset[str]
    """What verify tells of a folder that has no recipe and perhaps no summary, undisturbed."""


class Processes:
    """This process, which can end and be another one with the same id, as far as raypipe knows."""

    def __init__(self):
        self.number, self._inner = 0, holder._start_time

    def start_time(self, pid):
        found = self._inner(pid)
        return found + 1000 * self.number if found and pid == holder.os.getpid() else found

    def another(self):
        self.number += 1
        holder._found.cache_clear()


@contextmanager
def processes():
    """The control over who this process is; leases renew nothing by themselves, nothing waits.

    Nothing is flushed either, since no machine loses its power here.
    """
    found = Processes()
    with (
        patch.object(os, "fsync", lambda number: None),
        patch.object(holder, "_start_time", found.start_time),
        patch.object(lease, "RENEW_SECONDS", 3600.0),
        patch.object(retire, "GRACE_SECONDS", 0.0),
    ):
        try:
            yield found
        finally:
            holder._found.cache_clear()


def undisturbed(scenario: Scenario, folder: Path) -> Calm:
    """The scenario without a fault; `folder/before` keeps what was there.

    The workspace is always `folder/work`: its refs may say where it is.
    """
    root = folder / "work"
    root.mkdir(parents=True)
    with processes() as who:
        scenario.prepare(root)
        who.another()
        _copied(root, folder / "before")
        before, told = scenario.look(root), damages(root)
        with counted(root) as disk:
            scenario.act(root)
        after = scenario.look(root)
        told += damages(root)
        who.another()
        collect(root)
        found = files(root, scenario.own)
    shutil.rmtree(root)
    return Calm(tuple(disk.calls), before, after, found, frozenset(told))


def disturbed(scenario: Scenario, calm: Calm, fault: Fault, folder: Path) -> list[str]:
    """What is wrong after a fault, one line each; none if all is as it should be."""
    root = _copied(folder / "before", folder / "work")
    try:
        with processes() as who:
            who.another()
            return list(_wrong(scenario, calm, fault, root, who))
    finally:
        shutil.rmtree(root)


def _wrong(scenario, calm, fault, root, who):
    ended = "without an error"
    try:
        with counted(root, fault):
            scenario.act(root)
    except Killed:
        ended = "killed"
        who.another()
    except Exception as error:
        ended = repr(error)
        if ending_of(error).exit_code not in (2, 3):
            yield f"no error of the contract: {ending_of(error)}"
    seen = scenario.look(root)
    for part, now in seen.items():
        old_or_new = now in (calm.before[part], calm.after[part])
        if not old_or_new and not scenario.between(part, now):
            yield f"{part}: {ended}, readers see {now!r}, neither old nor new"
    if ended == "without an error" and seen != calm.after:
        yield f"it said that all went well; readers see {seen!r}"
    new = set(damages(root)) - calm.damages
    yield from [f"after it ended {ended}, verify finds {damage}" for damage in sorted(new)]
    try:
        scenario.act(root)
    except Exception as error:
        yield f"after it ended {ended}, a repetition fails: {error!r}"
        return
    if scenario.look(root) != calm.after:
        yield f"after it ended {ended}, a repetition gives {scenario.look(root)!r}"
    new = set(damages(root)) - calm.damages
    yield from [f"after the repetition, verify finds {damage}" for damage in sorted(new)]
    if scenario.repeats and ended != "killed":
        who.another()  # tomorrow's invocation; a killed one was repeated by another process
        scenario.act(root)
    who.another()
    collect(root)
    found = files(root, scenario.own)
    if scenario.repeats:
        other = sorted(n for n in {*found, *calm.files} if found.get(n) != calm.files.get(n))
        if other:
            yield f"after it ended {ended}, files that differ in the end: {other}"


def damages(root):
    """What verify finds; nothing to verify before the workspace exists."""
    found = verify(Workspace(root)) if (root / "workspace.json").exists() else []
    return [f"{each.name}: {each.problem}".replace(str(root), "") for each in found]


def collect(root):
    """A later gc that spares nothing for its age, and what the end of an invocation sweeps."""
    if (root / "workspace.json").exists():
        work = Workspace(root)
        work.own.sweep()
        delete(work, find_garbage(work, spared_seconds=-1), spared_seconds=-1)


def files(root, own):
    """Content by name; of leases and of a scenario's own files only that they are there.

    Empty folders do not count: nobody reads them.
    """
    found = {}
    for path in sorted(root.rglob("*")):
        name = re.sub(r"(\.json\.d/)\d+", r"\1N", str(path.relative_to(root)))
        if path.is_file() and not re.fullmatch(HARMLESS, name):
            unlike = re.search(r"lease\.json", name) or re.fullmatch(own, name)
            found[name] = b"" if unlike else path.read_bytes()
    return found


@contextmanager
def scratch():
    """A folder for trials, in memory where there is such a place: nothing of it has to last."""
    memory = Path("/dev/shm")
    place = memory if os.access(memory, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="crashes-", dir=place) as folder:
        yield Path(folder)


def trials(calm: Calm, kinds=FAULTS):
    """Every fault at every call that can meet it."""
    for kind in kinds:
        for at, call in enumerate(calm.calls, 1):
            if Fault(kind, at).can_meet(call):
                yield Fault(kind, at)


def _copied(source, target):
    return Path(shutil.copytree(source, target, copy_function=shutil.copy2))
