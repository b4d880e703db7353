"""A driver that is stopped before any change of a file, succeeded and woken changes nothing more.

The driver and its successor are in this process: where the one is about to rename, the other runs
from its beginning to its end. Stopped drivers in namespaces: test_invocation_zombies.py.
"""

import dataclasses
import errno
import os
import threading
from pathlib import Path

import pytest
from left_leases import dead
from small_training import Recipes, train
from small_workspace import run_small

from raypipe.driver.invocation import working_in
from raypipe.driver.mirror import own_storage
from raypipe.driver.summaries import read_summary
from raypipe.driver.upkeep.status import open_workspace, status
from raypipe.driver.upkeep.verify import verify
from raypipe.errors import RefusedError
from raypipe.storage import holder
from raypipe.storage.fence import fence_of, make_staging
from raypipe.storage.files import folder_beside, remove, replace_file, replace_folder
from raypipe.storage.holder import this_process
from raypipe.storage.lease import read_claim

SHORT = {"steps": 4, "checkpoint_every": 2, "validate": {"every": 2}, "optimiser": {"warmup": 1}}


class Renames:
    """Every rename of this thread below a folder, outside of stores and unfinished files."""

    def __init__(self, monkeypatch, root):
        self.root, self.seen, self.at, self.act = root, [], None, lambda: None
        self._thread = threading.get_ident()
        for name in ("rename", "replace"):
            monkeypatch.setattr(os, name, self._wrapped(getattr(os, name)))

    def _wrapped(self, rename):
        def noted(source, target, **settings):
            changed = [self._name(path) for path in (source, target)]
            if any(changed) and threading.get_ident() == self._thread:
                ends = [self._name(path, within=True) for path in (source, target)]
                self.seen.append((*ends, changed[1] or changed[0]))
                if len(self.seen) == self.at:
                    self.act()
            return rename(source, target, **settings)

        return noted

    def _name(self, path, *, within=False):
        """Its path in the folder; none for what is not a file or folder of results."""
        path = Path(os.path.abspath(path))
        if not path.is_relative_to(self.root):
            return None
        name = path.relative_to(self.root).as_posix()
        return name if within or _is_result(name) else None


def tree(out):
    """The bytes of all files but those of the stores and the curves of a training."""
    files = (path for path in out.rglob("*") if path.is_file())
    names = {path.relative_to(out).as_posix(): path for path in files}
    return {n: p.read_bytes() for n, p in names.items() if _is_result(n)}


def _is_result(name):
    """Not of the stores; no curves, nothing unfinished."""
    return name.split("/")[0] not in ("stores", "tmp", "train")


@pytest.fixture(params=["pipeline", pytest.param("train", marks=pytest.mark.slow)])
def work(request, tmp_path, tiny_model, small_files):
    """A workspace, its driver, and a successor with another setting."""
    out = tmp_path / "work"
    if request.param == "pipeline":
        return (
            out,
            lambda: run_small(tmp_path, tiny_model),
            lambda: run_small(tmp_path, tiny_model, "stages.dense.depth=1"),
        )
    path = Recipes(small_files, tiny_model, tmp_path).write(**SHORT)
    return out, lambda: train(path, out), lambda: train(path, out, "seed=7")


def points(monkeypatch, out, driver):
    """What each rename of an undisturbed driver changes, up to its last word."""
    with monkeypatch.context() as calm:
        renames = Renames(calm, out)
        driver()
    changed = [name for *_, name in renames.seen]
    return changed[: len(changed) - changed[::-1].index("summary.json")]


def succeed(monkeypatch, work, at, before=lambda: None):
    """Stop the driver before a rename until its successor has ended, then let it go on."""
    out, driver, successor = work
    before()
    left = {}
    with monkeypatch.context() as here:
        gone = dataclasses.replace(dead(), boot_id=this_process().boot_id)
        renames = Renames(here, out)

        def stopped():
            with monkeypatch.context() as alive:
                alive.setattr(holder, "_found", found)
                successor()
            left.update(tree(out))

        found, renames.at, renames.act = holder._found, at, stopped
        here.setattr(holder, "_found", lambda pid: gone)
        with pytest.raises(RefusedError, match="taken over"):
            driver()
    assert left and tree(out) == left, renames.seen[at - 1]
    assert (read_summary(out)["status"], status(out).exit_code) == ("complete", 0)
    assert verify(open_workspace(out)) == [] and unfinished(out) == []


def unfinished(out):
    """The names of staging folders."""
    return [path.name for path in (out / "tmp").glob("process-*/*")]


@pytest.mark.fault(13, "stopped before any rename of a file, succeeded and woken: nothing changes")
@pytest.mark.parametrize("change", ["recipe.yaml", "runs/dev/dense.trec", "summary.json"])
def test_a_woken_pipeline_changes_nothing_of_its_successor(
    tmp_path, tiny_model, monkeypatch, change
):
    work = (
        tmp_path / "work",
        lambda: run_small(tmp_path, tiny_model),
        lambda: run_small(tmp_path, tiny_model, "stages.dense.depth=1"),
    )
    calm = tmp_path / "calm"
    calm.mkdir()
    changes = points(monkeypatch, calm / "work", lambda: run_small(calm, tiny_model))
    succeed(monkeypatch, work, len(changes) - changes[::-1].index(change))


@pytest.mark.slow
@pytest.mark.fault(13, "at every rename of a whole pipeline, and of a training")
def test_a_driver_woken_anywhere_changes_nothing_of_its_successor(work, tmp_path, monkeypatch):
    out, driver, _ = work
    number = len(points(monkeypatch, out, driver))
    assert number >= 12
    for at in range(1, number + 1):
        out.rename(tmp_path / f"before-{at}")
        succeed(monkeypatch, work, at)


def test_every_file_of_results_comes_by_a_rename_of_what_is_finished(work, monkeypatch):
    out, driver, _ = work
    out.mkdir()
    renames = Renames(monkeypatch, out)
    driver()
    ends = [end.split("/") for source, target, _ in renames.seen for end in (source, target)]
    staging = {end[2] for end in ends if end[0] == "tmp"}
    assert len(staging) == 1 and all(
        source.startswith("tmp/") != target.startswith("tmp/") for source, target, _ in renames.seen
    )
    renamed = {changed for *_, changed in renames.seen}
    linked = ("workspace.json", "lease.json")
    for name in tree(out):
        parents = [name, *(parent.as_posix() for parent in Path(name).parents)]
        assert renamed & {*parents} or Path(name).name in linked or "lease.json.d" in name, name
    assert unfinished(out) == []


def test_a_folder_that_a_library_makes_again_lets_nothing_through(tmp_path):
    (tmp_path / "table.md").write_bytes(b"successor's")
    with pytest.raises(RefusedError), working_in(tmp_path, own_storage(tmp_path)):
        fence = fence_of(tmp_path)
        fence.staging.rename(tmp_path / "tmp" / "swept")
        fence.staging.mkdir()
        with pytest.raises(RefusedError):
            remove(tmp_path / "table.md")
        replace_file(tmp_path / "table.md", b"woken's")
    assert (tmp_path / "table.md").read_bytes() == b"successor's"


def test_what_killed_invocations_left_unfinished_is_removed_and_a_living_ones_is_not(
    tmp_path, monkeypatch
):
    own = own_storage(tmp_path)
    for _ in range(3):
        with working_in(tmp_path, own):
            assert len(unfinished(tmp_path)) == 1
    assert unfinished(tmp_path) == []
    with monkeypatch.context() as here:
        here.setattr("raypipe.storage.fence.process_label", lambda: "process-1-1-00000000")
        unseen = make_staging(tmp_path, "a" * 16)  # of no claim: it may be about to make one
    claimed = make_staging(tmp_path, claim_token(own, 2))
    claimed.with_name(f"{'b' * 16}.swept").mkdir()
    with working_in(tmp_path, own):
        names = set(unfinished(tmp_path))
        assert claimed.name not in names and unseen.name in names and len(names) == 2
    os.utime(unseen, (0, 0))
    with working_in(tmp_path, own):
        assert unseen.name not in unfinished(tmp_path)
    assert unfinished(tmp_path) == []


def claim_token(own, generation):
    return read_claim(own, "lease.json", generation)["token"]


def test_a_folder_on_another_file_system_is_written_too(tmp_path, monkeypatch):
    replace, other = os.replace, tmp_path / "models"
    other.mkdir()

    def across(source, target):
        if Path(source).is_relative_to(other) != Path(target).is_relative_to(other):
            raise OSError(errno.EXDEV, "Invalid cross-device link", str(source))
        replace(source, target)

    monkeypatch.setattr(os, "replace", across)
    own = own_storage(tmp_path)
    with working_in(tmp_path, own):
        for text in (b"one", b"two"):
            replace_file(other / "card.md", text)
            with folder_beside(other / "small") as made:
                (made / "weights").write_bytes(text)
                replace_folder(made, other / "small")
        assert (other / "card.md").read_bytes() == (other / "small" / "weights").read_bytes()
        replace_file(other / "deep" / "x", b"1")
        remove(other / "deep")
        assert sorted(path.name for path in other.iterdir()) == ["card.md", "small"]
    with pytest.raises(RefusedError), working_in(tmp_path, own) as lease:
        claim = f"lease.json.d/{lease.generation + 1:07d}.json"
        own.create(claim, own.read(f"lease.json.d/{lease.generation:07d}.json"))
        replace_file(other / "card.md", b"woken's")
    assert (other / "card.md").read_bytes() == b"two"
