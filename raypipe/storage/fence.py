"""A fence around the files of a workspace: a driver that was succeeded changes none of them."""

import os
import re
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from raypipe.errors import RefusedError
from raypipe.storage.holder import label_is_dead, process_label

ABANDONED_SECONDS = 24 * 3600.0
"""After so long, what an unseen process has not renamed is taken for abandoned."""
STAGING = "tmp"
"""The folder of what is unfinished, in the root of a fence; PosixStorage sweeps it too."""
_MARK = "mark"
_SWEPT = ".swept"
_FORM = re.compile(rf"[0-9a-f]{{16}}({re.escape(_SWEPT)})?")
_SWEEPS = 2
LABEL = r"process-\d+-\d+-[0-9a-f]{8}"


@dataclass(frozen=True, slots=True)
class Fence:
    """A fence that keeps an invocation that was succeeded from changing its successor's files.

    Whatever is written below `root` while `fenced` is first written whole into `staging`, and
    becomes current by a rename out of it; what is removed is renamed into it. A successor first
    takes `staging` away (`sweep_staging`). So the file system itself decides whether a rename came
    before the successor's first look or fails, wherever the predecessor was stopped. A file in it
    tells it from one that a library made again, with all folders above what it was to write.

    A folder below `root` that is on another file system, or a bucket, has no such fence: there,
    `is_lost` is asked just before each write.
    """

    root: Path
    staging: Path
    is_lost: Callable[[], bool]

    def is_down(self) -> bool:
        """Whether a successor has taken the staging folder away, for good."""
        return not os.path.exists(self.staging / _MARK)  # also if its handle is stale, as on NFS

    def rename(self, source: Path, target: Path) -> None:
        """Rename a file or folder out of the staging folder, or into it.

        Raises:
            RefusedError: a successor has taken the staging folder away.
        """
        with behind(self):
            if self.is_down():
                raise taken_over(self.root)
            os.replace(source, target)

    def check(self) -> None:
        """Return nothing while no successor has claimed the lease.

        Raises:
            RefusedError: one has.
        """
        if self.is_down() or self.is_lost():
            raise taken_over(self.root)


def taken_over(folder: Path) -> RefusedError:
    """The error that ends an invocation that was succeeded."""
    return RefusedError(
        f"{folder}: another invocation has taken over; this one has ended and changes nothing"
    )


_FENCES: list[Fence] = []


@contextmanager
def fenced(fence: Fence) -> Iterator[None]:
    """Within the block, whatever this process writes below the fence's root goes through it."""
    _FENCES.append(fence)
    try:
        yield
    finally:
        _FENCES.remove(fence)


def fence_of(path: Path) -> Fence | None:
    """The fence that a path is behind; None if this process has none there."""
    absolute = Path(os.path.abspath(path))
    behind = (fence for fence in reversed(_FENCES) if absolute.is_relative_to(fence.root))
    return next(behind, None)


def check_fence(path: Path) -> None:
    """Return nothing unless this process has a fence there and was succeeded; see `Fence.check`."""
    fence = fence_of(path)
    if fence is not None:
        fence.check()


@contextmanager
def behind(fence: Fence | None) -> Iterator[None]:
    """Refuse work that fails because a successor took the staging folder away."""
    try:
        yield
    except OSError as error:
        if fence is not None and fence.is_down():
            raise taken_over(fence.root) from error
        raise


def make_staging(root: Path, token: str) -> Path:
    """The new staging folder of whoever is about to claim a lease with this token."""
    folder = root / STAGING / process_label() / token
    folder.mkdir(parents=True)
    (folder / _MARK).touch()
    return folder


def sweep_staging(root: Path, own: str, tokens: Callable[[], Mapping[str, bool]]) -> None:
    """Take away the staging folders of predecessors, before anything is written here.

    Args:
        root: see Fence.
        own: the token of this holder.
        tokens: by token of a claim, whether it was made before this holder's own. Only these are
            taken from processes that may live; a newer holder's never is. One of no claim is left
            by a process that ended before it claimed anything.
    """
    paths = [p for p in (root / STAGING).glob("process-*/*") if _FORM.fullmatch(p.name)]
    others = [path for path in paths if path.name != own]
    before = tokens() if others else {}
    for path in others:
        with suppress(FileNotFoundError):  # its holder has ended in this moment
            if not path.name.endswith(_SWEPT):
                over = label_is_dead(path.parent.name) or is_abandoned(path)
                if not before.get(path.name, over):
                    continue
                path = path.rename(path.with_name(path.name + _SWEPT))
        for _ in range(_SWEEPS):  # on NFS, a predecessor may go on in the folder that it has open
            shutil.rmtree(path, ignore_errors=True)


def is_abandoned(path: Path) -> bool:
    """Whether nobody has written there for so long that nobody will."""
    return path.stat().st_mtime < time.time() - ABANDONED_SECONDS
