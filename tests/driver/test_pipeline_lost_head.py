"""A job on a cluster that it joined: its head, a node or its workers are killed in the middle."""

import time

import pytest
from cluster_of_nodes import Nodes, end, name_of
from killed_jobs import done_here, durable_bytes, is_worker, num_records, start
from recipes import dense, write_files

pytestmark = [pytest.mark.ray, pytest.mark.slow]

OPEN = "--allow-open-cluster"


@pytest.fixture(scope="module")
def recipe(tiny_model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("lost")
    write_files(folder, [f"the lease of shard {row} ranks a zebra" for row in range(60)])
    path = folder / "recipe.yaml"
    path.write_text(dense(folder, tiny_model, depth=5, threads=1, shard_rows=1))
    return path


@pytest.fixture(scope="module")
def calm(recipe, tmp_path_factory):
    out = tmp_path_factory.mktemp("calm") / "out"
    done_here(recipe, out, 1)
    return durable_bytes(out)


@pytest.fixture(scope="module")
def standing():
    """A cluster of one node that stays; nobody kills its daemons."""
    nodes = Nodes(1, {})
    yield nodes
    nodes.close()


def until(driver, out, count):
    while num_records(out) < count:
        assert driver.poll() is None, out.with_name("out.log").read_text()
        time.sleep(0.01)


@pytest.mark.fault(
    5, "a joined cluster whose head is killed: exit 3 that names it; a new cluster goes on"
)
def test_a_job_whose_head_is_killed_says_so_and_goes_on_on_another(
    recipe, calm, standing, tmp_path, raypipe_here
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
    assert start(recipe, out, 1, "ray", OPEN, **standing.environment).wait() == 0
    assert durable_bytes(out) == calm


@pytest.mark.long  # tests/test_demo_cluster.py loses one as well, in the middle of its encoding
@pytest.mark.fault(4, "one of two nodes killed for good while it encodes: the bytes of a calm job")
def test_a_job_that_loses_one_of_two_nodes_ends_on_the_other(recipe, standing, tmp_path):
    calm, out = tmp_path / "calm", tmp_path / "out"
    done_here(recipe, calm, 2)
    standing.add()
    try:
        driver = start(recipe, out, 2, "ray", OPEN, **standing.environment)
        until(driver, out, 8)
        while not (workers := [one for one in standing.last() if is_worker(one)]):
            assert driver.poll() is None
            time.sleep(0.01)
    finally:
        standing.take_last()
    assert driver.wait() == 0, out.with_name("out.log").read_text()
    assert workers and durable_bytes(out) == durable_bytes(calm)


@pytest.mark.fault(
    17,
    "every worker of a real job killed by SIGKILL: exit 3, memory named; then a calm job's bytes",
)
def test_a_job_whose_every_worker_is_killed_says_that_memory_may_be_short(
    recipe, calm, standing, tmp_path
):
    out = tmp_path / "out"
    driver = start(recipe, out, 1, "ray", OPEN, **standing.environment)
    until(driver, out, 8)
    while driver.poll() is None:
        for one in standing.below():
            if is_worker(one):
                end(one)
        time.sleep(0.05)
    assert driver.returncode == 3
    log = out.with_name("out.log").read_text()
    assert "for want of memory" in log and "resources.actors" in log, log
    done_here(recipe, out, 1)
    assert durable_bytes(out) == calm
