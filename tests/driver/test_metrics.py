"""Metrics: what is counted, and what Prometheus reads of it from a Ray."""

import logging
import re
import time
from urllib.request import urlopen

import pytest

from raypipe.cluster.report import Report
from raypipe.config import load_recipe
from raypipe.driver.execute import StageResult, Watcher
from raypipe.driver.pipeline import Options, run_pipeline
from raypipe.driver.place import LazyBackends
from raypipe.driver.progress import ROWS, SHARDS, SUCCESS, Exporting, RayMetrics
from raypipe.names import of_queries, of_stage

DENSE = of_stage("dense", "dev")


class Recorded(RayMetrics):
    """What Ray would be given."""

    def __init__(self, connected=lambda: True):
        super().__init__(connected)
        self.counted, self.gauges = {}, {}

    def _give(self, name, value, labels):
        key = (name, labels.get("stage"), labels.get("state"))
        self.counted[key] = self.counted.get(key, 0) + value
        self.gauges[name] = (value, labels["recipe"])


def result(num_shards):
    amounts = dict.fromkeys(("num_rows", "num_shards_reused", "num_quarantined", "num_copied"), 0)
    more = {"coverage": 1.0, "seconds": 0.0, "working_seconds": None, "reused": True}
    return StageResult("s", "f", num_shards=num_shards, **amounts, **more)


def test_rows_and_shards_are_counted_as_they_are_committed_and_what_was_there_once():
    metrics = Recorded()
    watcher = Exporting(Watcher(), "mine", metrics)
    watcher.ended(of_queries("dev"), result(2))
    watcher.began(DENSE, Report(num_planned=5, num_reused=2))
    for done, rows in ((1, 10), (2, 25), (3, 30)):
        watcher.advanced(DENSE, Report(num_planned=5, num_reused=2, num_done=done, num_rows=rows))
    watcher.ended(DENSE, result(5))
    other = of_stage("again", "dev")
    watcher.began(other, Report(num_planned=1))
    watcher.advanced(other, Report(num_planned=1, num_done=1, num_rows=4))
    assert metrics.counted == {
        (SHARDS, "queries@dev", "planned"): 2,
        (SHARDS, "queries@dev", "reused"): 2,
        (SHARDS, "dense.dev", "planned"): 5,
        (SHARDS, "dense.dev", "reused"): 2,
        (SHARDS, "dense.dev", "computed"): 3,
        (ROWS, "dense.dev", None): 30,
        (SHARDS, "again.dev", "planned"): 1,
        (SHARDS, "again.dev", "computed"): 1,
        (ROWS, "again.dev", None): 4,
    }
    assert SUCCESS not in metrics.gauges
    before = time.time()
    watcher.succeeded()
    when, recipe = metrics.gauges[SUCCESS]
    assert before <= when <= time.time() and recipe == "mine"


def test_what_is_counted_before_ray_is_there_waits_for_it():
    up = []
    metrics = Recorded(lambda: bool(up))
    metrics.add(ROWS, 3, {"recipe": "r", "stage": "s"})
    metrics.add(ROWS, 0, {"recipe": "r", "stage": "other"})
    assert metrics.counted == {}
    up.append(True)
    metrics.add(ROWS, 4, {"recipe": "r", "stage": "s"})
    metrics.add(ROWS, 1, {"recipe": "r", "stage": "s"})
    assert metrics.counted == {(ROWS, "s", None): 8}


def test_an_export_that_fails_is_told_once_and_ends_but_not_the_job(caplog):
    def broken():
        asked.append(1)
        raise RuntimeError("no agent")

    asked = []
    metrics = RayMetrics(broken)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            metrics.add(ROWS, 1, {"recipe": "r", "stage": "s"})
        metrics.set(SUCCESS, 1.0, {"recipe": "r"})
    assert len(asked) == 1
    assert [r.message for r in caplog.records] == ["no more metrics are exported to Ray: no agent"]


def test_the_inline_backend_counts_nothing(invocable, monkeypatch):
    folder, recipe = invocable
    monkeypatch.setattr(RayMetrics, "add", lambda *given: pytest.fail("counted"))
    monkeypatch.setattr(RayMetrics, "set", lambda *given: pytest.fail("counted"))
    run_pipeline(recipe, folder / "w", Options(until="vectors"), watcher=Watcher())


RECIPE = """
format: 1
name: exported
collection: {{format: msmarco-v1, input: {folder}/passages.tsv}}
queries: {{dev: {{file: {folder}/queries.tsv}}}}
models: {{tiny: {{path: {model}}}}}
stages: {{vectors: {{do: encode, model: tiny}}}}
resources: {{device: cpu, actors: 1, shard_rows: 2}}
"""


@pytest.mark.ray
@pytest.mark.slow
def test_prometheus_reads_from_the_node_what_an_invocation_counted(
    tmp_path, tiny_model, monkeypatch
):
    (tmp_path / "queries.tsv").write_text("q\ta zebra\n")
    (tmp_path / "passages.tsv").write_text("".join(f"p{n}\tpassage {n}\n" for n in range(6)))
    recipe = load_recipe(RECIPE.format(folder=tmp_path, model=tiny_model))
    found, close = {}, LazyBackends.close

    def scrape_and_close(backends):
        found.update(scraped(f'{SUCCESS}{{.*recipe="exported"'))
        close(backends)

    monkeypatch.setattr(LazyBackends, "close", scrape_and_close)
    before = time.time()
    outcome = run_pipeline(recipe, tmp_path / "w", Options(), watcher=Watcher())
    shards = outcome.summary["stages"]["vectors"]["shards"]["planned"]
    of_vectors = {key: value for key, value in found.items() if key[1:3] == ("exported", "vectors")}
    assert of_vectors == {
        ("ray_raypipe_rows_total", "exported", "vectors"): 6,
        ("ray_raypipe_shards_total", "exported", "vectors", "planned"): shards,
        ("ray_raypipe_shards_total", "exported", "vectors", "computed"): shards,
    }
    assert found["ray_raypipe_rows_total", "exported", "passages@collection"] == 6
    assert before <= found[f"ray_{SUCCESS}", "exported"] <= time.time()


def scraped(last):
    """Metric, recipe, stage and state -> its value, once the node's agent has what fits `last`."""
    import ray

    (node,) = ray.nodes()
    address = f"http://{node['NodeManagerAddress']}:{node['MetricsExportPort']}/metrics"
    while True:
        with urlopen(address) as answer:
            lines = [line for line in answer.read().decode().splitlines() if "raypipe" in line]
        if any(re.match(f"ray_{last}", line) for line in lines):
            break
        time.sleep(0.5)
    found = {}
    for line in lines:
        if not line.startswith("#"):
            labels = dict(re.findall(r'(\w+)="([^"]*)"', line))
            key = [labels[name] for name in ("recipe", "stage", "state") if name in labels]
            found[(line.partition("{")[0], *key)] = float(line.rpartition(" ")[2])
    return found
