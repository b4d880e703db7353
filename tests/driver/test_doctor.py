"""What the doctor says of matrix products."""

from pathlib import Path

import pytest

from raypipe.driver.machine.devices import num_cores
from raypipe.driver.upkeep.doctor import examine, neighbours_line
from raypipe.models.device import numerics_class
from raypipe.models.neighbours import Settled

KEPT = "a row's bytes do not depend on its neighbours with "


@pytest.mark.parametrize(
    ("found", "told"),
    [
        ({1: Settled(1, True)}, KEPT + "1 thread"),
        ({1: Settled(1, True), 2: Settled(2, True)}, KEPT + "1 and 2 threads"),
        (
            {1: Settled(1, True), 2: Settled(1, True)},
            KEPT + "1 thread; with 2 threads they would, so 1 is used instead",
        ),
        ({4: Settled(1, True)}, KEPT + "1 thread; with 4 threads they would, so 1 is used instead"),
    ],
)
def test_with_how_many_threads_rows_keep_their_bytes(found, told):
    assert neighbours_line(found) == told


def test_what_is_not_promised_is_said_with_the_remedy():
    told = neighbours_line({1: Settled(1, False), 2: Settled(1, False)})
    assert "to 1e-3, not to the bit" in told and "AUTO,STRICT" in told


def test_the_probe_and_the_mode_are_among_the_findings():
    found = {finding.name: finding for finding in examine(Path("."), only=["numerics", "disk"])}
    assert sorted(found) == ["disk", "numerics"] and found["numerics"].ok
    told = found["numerics"].told
    assert told.startswith(numerics_class("cpu")) or "cuda" in told
    assert f"{num_cores()} thread" in told or "unproven" in told or "1e-3" in told
