from types import SimpleNamespace

from course import Second

from raypipe.config.training import Validate
from raypipe.training import validate as measuring
from raypipe.training.comm import Comm


def test_a_measurement_is_told_by_dev_set():
    recipe = SimpleNamespace(
        masking=None, dev={"a": 1, "b": 2}, validate_=Validate(every=3, measure="RR@10")
    )
    told = measuring.progress_of(
        SimpleNamespace(recipe=recipe), {"step": 3, "mean": 0.5, "values": [0.25, 0.75]}
    )
    assert told == {"step": 3, "measure": "RR@10", "mean": 0.5, "of": {"a": 0.25, "b": 0.75}}


def test_queries_without_candidates_are_told_once_by_the_first_worker(monkeypatch):
    warned = []
    monkeypatch.setattr(measuring, "dev_of", lambda job: [])
    monkeypatch.setattr(measuring, "layouts_for", lambda job: None)
    monkeypatch.setattr(measuring, "measured", lambda *given, warn: warned.append(warn) or [0.5])
    recipe = SimpleNamespace(validate_=Validate(every=3))
    job = SimpleNamespace(recipe=recipe, start=None, is_pretraining=False)
    own = measuring.DevMeasures(job)
    assert [own.values(None, Comm()) for _ in range(2)] == [[0.5], [0.5]]
    measuring.DevMeasures(job).values(None, Second())
    assert warned == [True, False, False]
