import time

import pytest

from raypipe.stages.ann import build as module
from raypipe.stages.ann.build import beating


def test_heartbeats_go_on_while_a_library_computes(monkeypatch):
    monkeypatch.setattr(module, "BEAT_SECONDS", 0.02)
    beats = []
    assert beating(beats.append, lambda: time.sleep(0.5) or "made") == "made"
    assert 2 <= len(beats) and set(beats) == {()}


def test_an_error_of_the_work_is_the_callers():
    def work():
        raise OSError("full")

    with pytest.raises(OSError, match="full"):
        beating(lambda rows: None, work)
