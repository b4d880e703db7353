"""A pytest plugin: on how many workers the whole suite runs, and in which order."""

import os
from functools import cache
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]

# Three workers where pytest-xdist is installed, and four for the slow tests, on two cores too: some
# tests wait for other processes, and files that start Ray mostly wait. These come first, and the
# short files of the folders fill what is left. The default begins with the files that need Java, as
# one group: its process starts once. Those with a bucket are another group: what serves it takes
# seconds to import. The slow part has too many of both: one worker would still be at such a group
# long after the others have ended. Without pytest-xdist all run in this process.
NUM_WORKERS = {"not": 3, "slow": 4}
"""By the first word of the marks that are asked for."""
ONE_PROCESS = ("keyword", "maxfail", "usepdb", "trace", "lf", "failedfirst", "stepwise")


@pytest.hookimpl(wrapper=True)
def pytest_cmdline_main(config):
    """Ask for the workers if the whole suite runs and no option wants one process."""
    option = config.option
    undecided = getattr(option, "numprocesses", 0) is None and option.dist == "no"
    undecided = undecided and not hasattr(config, "workerinput")
    whole = [Path(argument).resolve() for argument in config.args] == [REPOSITORY / "tests"]
    marks = option.markexpr.partition(" ")[0]
    whole = whole and marks in NUM_WORKERS
    single = option.capture == "no" or any(getattr(option, name, None) for name in ONE_PROCESS)
    if undecided and whole and not single and (os.cpu_count() or 1) > 1:
        option.numprocesses, option.dist = NUM_WORKERS[marks], "loadfile"
        option.loadscopereorder = False
        os.environ.setdefault("OMP_NUM_THREADS", "1")  # more threads than cores cost a tenth
    return (yield)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """What one worker runs in one piece: a file, or of the default a whole group."""
    if config.option.dist != "loadfile" or not in_groups(config):
        return None
    from xdist.scheduler import LoadFileScheduling

    class Groups(LoadFileScheduling):
        def _split_scope(self, nodeid):
            file = super()._split_scope(nodeid)
            return mark if (mark := mark_of(file)) in ("jvm", "bucket") else file

    return Groups(config, log)


def pytest_collection_modifyitems(config, items):
    """On several workers the files that wait first, then the long ones of no folder.

    Each worker sorts alike.
    """
    if getattr(config, "workerinput", None):
        order = {"jvm": 0, "bucket": 1, "ray": 1, None: 2}
        if not in_groups(config):
            order |= {"jvm": 1, "bucket": 2}
        items.sort(key=lambda i: (order[mark_of(i.location[0])], i.location[0].count("/") > 1))


def in_groups(config):
    """Whether the files that need Java run on one worker, and those with a bucket on another."""
    return not config.option.markexpr.startswith("slow")


@cache
def mark_of(path: str) -> str | None:
    """`jvm` or `ray` if a test of the file is marked so; else `bucket` if one asks for a bucket."""
    text = (REPOSITORY / path).read_text()
    bucket = path.startswith("tests/storage/") or "bucket_uri" in text or "bucket_server" in text
    marks = (name for name in ("jvm", "ray") if f"pytest.mark.{name}" in text)
    return next(marks, "bucket" if bucket else None)
