"""A training on Ray Train's worker groups: the weights of one worker, whatever dies."""

import os
import signal
import time

import pytest
import torch
import yaml
from killed_trainings import (
    attempts,
    history,
    log_of,
    losses,
    prepared,
    start,
    steps,
    training_workers,
    weights,
)

from raypipe.cli.main import run

pytestmark = [pytest.mark.ray, pytest.mark.slow]

STEPS = 20


@pytest.fixture(scope="module")
def recipe(small_files, tiny_model, tmp_path_factory):
    """Some steps without dropout over 300 real passages."""
    folder = tmp_path_factory.mktemp("train")
    ids = [line.split("\t")[0] for line in (small_files / "passages.tsv").read_text().splitlines()]
    for split in ("train", "dev"):
        lines = []
        queries = (small_files / f"queries.{split}.tsv").read_text().splitlines()
        for number, line in enumerate(queries):
            for rank in range(1, 31):
                passage = ids[(number * 7 + rank * 11) % len(ids)]
                lines.append(f"{line.split()[0]} Q0 {passage} {rank} {1 / rank:.6f} made\n")
        (folder / f"{split}.trec").write_text("".join(lines))
    files = {name: str(small_files / name) for name in ("queries.train.tsv", "queries.dev.tsv")}
    body = {
        "format": 1,
        "name": "small",
        "model": {
            "start": str(tiny_model),
            "preset": "monobert",
            "query_limit": 12,
            "total_limit": 64,
        },
        "collections": {
            "docs": {"format": "msmarco-v1", "input": str(small_files / "passages.tsv")}
        },
        "train": {
            "docs": {
                "collection": "docs",
                "queries": files["queries.train.tsv"],
                "qrels": str(small_files / "qrels.train.txt"),
                "negatives": {"runs": str(folder / "train.trec"), "last": 20},
            }
        },
        "dev": {
            "docs": {
                "collection": "docs",
                "queries": files["queries.dev.tsv"],
                "qrels": str(small_files / "qrels.dev.txt"),
                "run": str(folder / "dev.trec"),
                "k": 10,
            }
        },
        "loss": {"name": "cross-entropy"},
        "steps": STEPS,
        "batch": 8,
        "dropout": 0.0,
        "optimiser": {"rate": 3.0e-4, "warmup": 5},
        "checkpoint_every": 5,
        "validate": {"every": STEPS},
        "resources": {"threads": 1},
    }
    path = folder / "recipe.yaml"
    path.write_text(yaml.safe_dump(body, sort_keys=False))
    return path


@pytest.fixture(scope="module")
def one(recipe, tmp_path_factory):
    """What one worker trains without Ray."""
    out = tmp_path_factory.mktemp("one") / "out"
    done = run(["train", str(recipe), "resources.backend=inline", "--out", str(out)])
    assert done == (0, "complete")
    return out


@pytest.fixture(scope="module")
def calm(recipe, one, tmp_path_factory):
    """What two workers train, undisturbed."""
    out = prepared(tmp_path_factory.mktemp("calm") / "out", one)
    assert start(recipe, out, "resources.workers=2").wait() == 0
    return out


def test_two_workers_follow_one(one, calm):
    assert len(losses(calm)) == STEPS
    for step, (two_workers, one_worker) in enumerate(zip(losses(calm), losses(one), strict=True)):
        assert two_workers == pytest.approx(one_worker, abs=1e-4), step
    expected, found = weights(one), weights(calm)
    largest = max((found[name] - expected[name]).abs().max().item() for name in expected)
    assert largest < 1e-4


DRIVER_TOO = pytest.param(True, marks=pytest.mark.long)


@pytest.mark.fault(
    43, "1 of 2 workers killed (and the driver, by hand): the same weights, bit for bit"
)
@pytest.mark.parametrize("driver_too", [False, DRIVER_TOO])
def test_a_killed_worker_or_driver_changes_no_bit(recipe, one, calm, tmp_path, driver_too):
    """One worker dies after its first steps; then, after some more, the driver."""
    cut = prepared(tmp_path / "cut", one)
    driver = start(recipe, cut, "resources.workers=2")
    while steps(cut) < 1 and driver.poll() is None:
        time.sleep(0.02)
    victims = training_workers(driver)
    assert len(victims) == 2
    os.kill(victims[1].pid, signal.SIGKILL)
    if driver_too:
        gone = set(victims)
        while driver.poll() is None and not (
            set(training_workers(driver)) - gone and steps(cut) >= 2
        ):
            time.sleep(0.02)
        assert driver.poll() is None, log_of(cut)
        driver.kill()
        assert driver.wait() == -signal.SIGKILL
        driver = start(recipe, cut, "resources.workers=2")
    assert driver.wait() == 0, log_of(cut)
    assert len({told["process"]["pid"] for told in attempts(cut) if "process" in told}) >= 3
    for name, tensor in weights(calm).items():
        assert torch.equal(tensor, weights(cut)[name]), name


@pytest.mark.long
def test_one_worker_on_ray_measures_itself_as_without_ray(recipe, one, tmp_path):
    """Also where Ray has room for another process."""
    alone = prepared(tmp_path / "alone", one)
    assert start(recipe, alone).wait() == 0, log_of(alone)
    assert history(alone) == history(one)
    for name, tensor in weights(one).items():
        assert torch.equal(tensor, weights(alone)[name]), name
    assert [told["event"] for told in attempts(alone)] == ["worker", "published"]
