"""Every call that changes a folder fails once: readers see the old or the new, whole.

By default the process is killed at each call, and one other fault happens there; `-m long` tries
them all. `python tests/tools/crash_points.py` prints how many there are.
"""

import shutil
from functools import cache
from pathlib import Path

import pytest
from crashes.disk import counted
from crashes.table import SCENARIOS, calls, rendered, rows, some
from crashes.trial import disturbed, processes, scratch, trials, undisturbed

from raypipe.errors import RaypipeError
from raypipe.storage.generations import generation_numbers
from raypipe.storage.posix import PosixStorage

PAGE = Path(__file__).parent / "crash_points.md"


@pytest.fixture(scope="module")
def calm():
    """A function that gives a scenario's undisturbed course and the folder of its trials."""
    with scratch() as place:

        @cache
        def of(name):
            folder = place / str(list(SCENARIOS).index(name))
            return undisturbed(SCENARIOS[name], folder), folder

        yield of


def wrong(name, calm, choose):
    """What is wrong after any of the chosen faults; how many there were."""
    course, folder = calm(name)
    found, count = [], 0
    for fault in choose(course):
        count += 1
        told = disturbed(SCENARIOS[name], course, fault, folder)
        found += [f"{fault.kind} at {fault.at} {course.calls[fault.at - 1]}: {t}" for t in told]
    return found, count


@pytest.mark.slow
@pytest.mark.fault(
    44, "killed at every call of a checkpoint's save, its pruning and a training's commit"
)
@pytest.mark.fault(
    8, "one fault beside the kill at every call, a full disk among them: old or new, whole"
)
@pytest.mark.fault(
    3, "and at every call of publishing, generations, rollbacks and gc: the old or the new, whole"
)
@pytest.mark.fault(2, "and at every call of plans, leases, refs, summaries and run files")
@pytest.mark.fault(
    1, "killed at every call of a shard's commit: nothing lost, and a repetition completes"
)
@pytest.mark.parametrize("name", SCENARIOS)
def test_a_fault_at_any_call_loses_nothing_and_publishes_nothing_wrong(name, calm):
    found, count = wrong(name, calm, some)
    course = calm(name)[0]
    kills = [fault for fault in some(course) if fault.kind == "kill"]
    assert found == [] and kills and count == len(kills) + len(course.calls)


@pytest.mark.fault(
    9, "EIO, EROFS, short writes and lost answers at every call: the old or the new, whole"
)
@pytest.mark.fault(8, "a disk that is full from any call on: readers see the old or the new, whole")
@pytest.mark.long
@pytest.mark.parametrize("name", SCENARIOS)
def test_nor_does_any_other_fault_there(name, calm):
    found, count = wrong(name, calm, trials)
    assert found == [] and count > 2 * len(calm(name)[0].calls)


def test_a_rollback_that_may_have_happened_says_that_a_repetition_goes_back_again(calm):
    course, folder = calm("a rollback")
    told = {True: [], False: []}
    for fault in trials(course, ("EIO", "lost answer", "ENOSPC", "EROFS")):
        root = shutil.copytree(folder / "before", folder / "work")
        try:
            with processes(), counted(root, fault):
                SCENARIOS["a rollback"].act(root)
        except (OSError, RaypipeError) as error:
            done = generation_numbers(PosixStorage(root / "stores"), "nightly") == [1, 2, 3]
            told[done].append("a repeated rollback goes back again" in str(error))
        shutil.rmtree(root)
    assert all(told[True]) and told[True] and not any(told[False]) and told[False]


def test_the_page_has_the_counts_of_the_scenarios(calm):
    calms = {name: calm(name)[0] for name in SCENARIOS}
    tables = f"{rendered(rows(calms))}\n{rendered(calls(calms))}"
    assert PAGE.read_text().endswith(tables), "python tests/tools/crash_points.py --write"
