from types import SimpleNamespace

from raypipe.driver.devices import Devices
from raypipe.driver.measure import Measurement
from raypipe.driver.pipeline import summary_of


def test_a_summary_counts_each_stores_shards():
    result = SimpleNamespace(
        seconds=1.23456, num_rows=9, num_shards=4, num_shards_reused=3, num_quarantined=1,
        coverage=0.5, reused=False, fingerprint="f", num_copied=7, num_searched=0, num_repeated=0,
    )  # fmt: skip
    measurement = Measurement({"s": 1}, {"m": 2}, {"n": 3})
    chosen = Devices("cpu", 0, "", 0, 1, 4, "2.13")
    found = summary_of(measurement, {"x": result}, chosen)
    assert found["stages"]["x"] == {
        "seconds": 1.23, "rows": 9, "coverage": 0.5, "reused": False, "fingerprint": "f",
        "copied": 7,
        "shards": {"planned": 4, "reused": 3, "quarantined": 1},
    }  # fmt: skip
    assert found["device"] == "CPU, torch 2.13, fp32, 1 actor x 4 threads"
    assert (found["systems"], found["measures"]) == ({"s": 1}, {"m": 2})
    assert found["notes"] == {"n": 3}
    assert found["versions"]["torch"] == "2.13"
