"""What the doctor finds and says."""

from pathlib import Path

import pytest

from raypipe.driver.machine.devices import num_cores
from raypipe.driver.upkeep import doctor
from raypipe.driver.upkeep.doctor import examine, neighbours_line
from raypipe.errors import InputError
from raypipe.models.device import numerics_class
from raypipe.models.neighbours import Settled


def test_a_finding_tells_what_was_found_or_why_not():
    def fails(error):
        def check():
            raise error

        return check

    assert doctor._tried("a", lambda: "fine") == doctor.Finding("a", True, "fine")
    for error in (InputError("bad"), ImportError("bad"), OSError("bad")):
        assert doctor._tried("a", fails(error)) == doctor.Finding("a", False, "bad")
    with pytest.raises(KeyError):
        doctor._tried("a", fails(KeyError("bad")))


def test_the_doctor_tells_the_free_space_in_gigabytes(tmp_path, monkeypatch):
    monkeypatch.setattr(doctor.PosixStorage, "free_bytes", lambda self: 2_600_000_000)
    (found,) = doctor.examine(tmp_path, only=["disk"])
    assert found == doctor.Finding("disk", True, f"3 GB free at {tmp_path}")
    monkeypatch.setattr(doctor.PosixStorage, "free_bytes", lambda self: None)
    assert doctor.examine(tmp_path, only=["disk"])[0].told.startswith("0 GB")
    names = [found.name for found in doctor.examine(tmp_path, only=["disk", "python"])]
    assert names == ["python", "disk"]


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
