"""What the doctor finds and says."""

import sys
from importlib.metadata import version
from types import SimpleNamespace

import pytest

from raypipe.cli.main import run
from raypipe.driver.devices import num_cores
from raypipe.driver.upkeep import doctor
from raypipe.driver.upkeep.doctor import _numerics, neighbours_line
from raypipe.errors import InputError
from raypipe.models.machine.device import Settled, numerics_class


def test_a_finding_tells_what_was_found_or_why_not():
    def fails(error):
        def check():
            raise error

        return check

    assert doctor._tried("a", lambda: "fine") == doctor.Trial("a", True, "fine")
    for error in (InputError("bad"), ImportError("bad"), OSError("bad")):
        assert doctor._tried("a", fails(error)) == doctor.Trial("a", False, "bad")
    with pytest.raises(KeyError):
        doctor._tried("a", fails(KeyError("bad")))


def test_the_doctor_tells_the_free_space_in_gigabytes(tmp_path, monkeypatch):
    monkeypatch.setattr(doctor.PosixStorage, "free_bytes", lambda self: 2_600_000_000)
    assert doctor._disk(tmp_path) == f"3 GB free at {tmp_path}"
    monkeypatch.setattr(doctor.PosixStorage, "free_bytes", lambda self: None)
    assert doctor._disk(tmp_path).startswith("0 GB")


def test_the_doctor_tries_each_thing_once_in_order(tmp_path, monkeypatch):
    monkeypatch.setattr(doctor, "_tried", lambda name, check: name)
    expected = "python disk torch numerics ray model java lucene"
    assert " ".join(doctor.examine(tmp_path)) == expected


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


def test_of_a_gpu_it_says_when_rows_are_tested(monkeypatch):
    """Passes of one shape are tested with the model itself, not by products of many sizes."""
    cuda = SimpleNamespace(device="cuda", threads=1)
    monkeypatch.setattr("raypipe.driver.devices.choose", lambda: cuda)
    monkeypatch.setattr("torch.cuda.get_device_name", lambda number: "NVIDIA H100")
    told = _numerics()
    assert told.startswith("NVIDIA H100, torch ")
    assert told.endswith("; a model's pass is tested bit by bit when it is opened")


def test_a_torch_that_cannot_be_imported_fails_its_trial(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    trial = doctor._tried("torch", doctor._torch)
    assert not trial.ok and "torch" in trial.result


@pytest.mark.slow
def test_the_probe_and_the_mode_are_among_the_findings():
    told = _numerics()
    assert told.startswith(numerics_class("cpu")) or "cuda" in told
    assert f"{num_cores()} thread" in told or "unproven" in told or "1e-3" in told


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_failed_trial_ends_with_2_in_either_form(tmp_path, monkeypatch, capsys, options):
    trials = [doctor.Trial("disk", True, "9 GB"), doctor.Trial("java", False, "no Java found")]
    monkeypatch.setattr(doctor, "examine", lambda folder: trials)
    assert run(["doctor", str(tmp_path), *options])[0] == 2
    shown = capsys.readouterr()
    assert "no Java found" in shown.out and "java: no Java found" in shown.err
    trials.pop()
    assert run(["doctor", str(tmp_path), *options])[0] == 0


@pytest.mark.jvm
@pytest.mark.slow
def test_each_trial_does_what_it_says_on_a_machine_that_has_everything(tmp_path):
    found = {trial.name: trial for trial in doctor.examine(tmp_path)}
    assert [trial for trial in found.values() if not trial.ok] == []
    assert found["ray"].result == version("ray")
    assert found["model"].result == "packaged MiniLM encoded 16 texts"
    assert found["lucene"].result == "indexed 2 passages and found [1] of [1]"
    assert " from " in found["java"].result and found["disk"].result.endswith(f" at {tmp_path}")
