import pytest

from raypipe.driver.upkeep import doctor
from raypipe.errors import InputError


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
