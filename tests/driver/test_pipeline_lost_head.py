"""A job on a cluster that it joined, whose head is killed in the middle."""

import time

import pytest
from cluster_of_nodes import Nodes, end, name_of
from killed_jobs import durable_bytes, num_records, start

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.timeout(420)]

RECIPE = """
format: 1
name: job
collection: {{format: msmarco-v1, input: {folder}/passages.tsv}}
queries: {{dev: {{file: {folder}/queries.tsv}}}}
models: {{tiny: {{path: {model}}}}}
stages:
  embeddings: {{do: encode, model: tiny}}
  dense: {{do: search, index: embeddings, depth: 5}}
resources: {{device: cpu, threads: 1, shard_rows: 1}}
"""
OPEN = "--allow-open-cluster"


@pytest.fixture(scope="module")
def recipe(tiny_model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("lost")
    lines = [f"{row}\tthe lease of shard {row} ranks a zebra\n" for row in range(60)]
    (folder / "passages.tsv").write_text("".join(lines))
    (folder / "queries.tsv").write_text("q1\tthe zebra\nq2\ta lease\n")
    path = folder / "recipe.yaml"
    path.write_text(RECIPE.format(folder=folder, model=tiny_model))
    return path


@pytest.fixture(scope="module")
def calm(recipe, tmp_path_factory):
    out = tmp_path_factory.mktemp("calm") / "out"
    assert start(recipe, out, 1, "inline").wait() == 0
    return durable_bytes(out)


def until(driver, out, count):
    while num_records(out) < count:
        assert driver.poll() is None, out.with_name("out.log").read_text()
        time.sleep(0.01)


@pytest.mark.fault(
    5, "a joined cluster whose head is killed: exit 3 that names it; a new cluster goes on"
)
def test_a_job_whose_head_is_killed_says_so_and_goes_on_on_another(
    recipe, calm, tmp_path, raypipe_here
):
    out = tmp_path / "out"
    first = Nodes(1, {})
    try:
        driver = start(recipe, out, 1, "ray", OPEN, **first.environment)
        until(driver, out, 8)
        (gcs,) = (one for one in first.head() if name_of(one) == "gcs_server")
        end(gcs)
        assert driver.wait() == 3
    finally:
        first.close()
    address = first.environment["RAY_ADDRESS"]
    told = f"the head of the Ray cluster at {address} has ended"
    assert f"error: {told}" in out.with_name("out.log").read_text()
    found = raypipe_here("status", out)
    assert found.returncode == 3 and told in found.stdout + found.stderr
    second = Nodes(1, {})
    try:
        assert start(recipe, out, 1, "ray", OPEN, **second.environment).wait() == 0
    finally:
        second.close()
    assert durable_bytes(out) == calm
