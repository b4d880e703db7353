"""Starts jobs as child processes, kills what belongs to them, and reads what is left."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
from patience import await_ends

REPOSITORY = Path(__file__).parent.parent.parent


def start(recipe, out, actors, backend, *more, **environment):
    """`raypipe pipeline` in a child process; its output goes to OUT.log."""
    command = [sys.executable, "-m", "raypipe", "pipeline", recipe, "--out", out, *more]
    command += [f"resources.actors={actors}", f"resources.backend={backend}"]
    told = {**os.environ, **environment}
    with open(f"{out}.log", "ab") as log:
        return subprocess.Popen(
            [str(part) for part in command], cwd=REPOSITORY, env=told, stdout=log, stderr=log
        )


def done_here(recipe, out, actors):
    """Work that nobody disturbs, without Ray, in this process: it has what it imports."""
    from raypipe.cli.main import run

    command = ["pipeline", recipe, "--out", out, f"resources.actors={actors}"]
    done = run([*map(str, command), "resources.backend=inline"])
    assert done == (0, "complete"), done


def num_records(out):
    """Shards that are committed, of all stores."""
    while True:
        try:
            return sum(1 for _ in (out / "stores").glob("*/*/shards/*.json"))
        except FileNotFoundError:
            continue  # a folder of the living job went away under the listing


def durable_bytes(out):
    """Every file that readers may use; not logs of attempts, leases and refs."""
    kept = {}
    for folder in ("stores", "runs"):
        for path in (out / folder).rglob("*"):
            name = str(path.relative_to(out))
            told = ("attempts.jsonl", "lease.json", "refs/")
            if path.is_file() and not any(word in name for word in told):
                kept[name] = path.read_bytes()
    return kept


def killed(process):
    """Whether it still computed; one that has ended, a zombie, was not killed."""
    try:
        process.suspend()  # once it stands still it cannot end by itself
        while (status := process.status()) != psutil.STATUS_STOPPED:
            if status == psutil.STATUS_ZOMBIE:
                return False
            time.sleep(0.01)
        process.kill()
    except psutil.NoSuchProcess:
        return False
    return True


def is_worker(process):
    """Whether it computes shards on Ray; false for one that has ended."""
    try:
        return process.name().startswith("ray::Actor")
    except psutil.NoSuchProcess:
        return False


def killed_until_complete(recipe, out, actors, kinds, rng, total, environment):
    """Where each kill was, in records, and every process seen; the job is started until it ends.

    `d` kills the driver, `w` a worker, `c` any process below, at a random share of what is left of
    the `total` records.
    """
    driver = start(recipe, out, actors, "ray", **environment)
    seen: set[psutil.Process] = set()
    kills = []
    for number, kind in enumerate(kinds):
        done = num_records(out)
        target = done + rng.uniform(0, 0.8) * (total - done) / (len(kinds) - number)
        while num_records(out) < target and driver.poll() is None:
            time.sleep(0.005)
        while len(kills) == number:
            if driver.poll() is not None:
                done = num_records(out)
                driver = start(recipe, out, actors, "ray", **environment)
                while num_records(out) <= done < total and driver.poll() is None:
                    time.sleep(0.005)
            above = psutil.Process(driver.pid)
            below = above.children(recursive=True)
            seen.update(below)
            at = num_records(out)
            if kind == "w" and not (below := [one for one in below if is_worker(one)]):
                continue  # none has started yet
            if not below and at < total:
                continue  # it ended in between
            victim = rng.choice(below) if kind != "d" and below else above
            if killed(victim):
                kills.append(at)
                print(f"kill {number} {kind}: {victim} at {at}/{total}")
        if victim == above:
            assert driver.wait() == -signal.SIGKILL
            await_ends(below)
    while driver.wait() != 0:
        driver = start(recipe, out, actors, "ray", **environment)
    return kills, seen
