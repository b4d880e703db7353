"""Starts `raypipe train` as a child process, kills what belongs to it, and reads what is left."""

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time

import psutil
from safetensors.torch import load_file


def start(recipe, out, *overrides):
    """`raypipe train` in a child process; its output goes to OUT.log."""
    command = [sys.executable, "-m", "raypipe", "train", str(recipe), *overrides, "--out", str(out)]
    environment = {k: v for k, v in os.environ.items() if k != "RAY_ADDRESS"}
    with (out.parent / f"{out.name}.log").open("ab") as log:
        return subprocess.Popen(command, env=environment, stdout=log, stderr=log)


def log_of(out):
    """What the commands for OUT have said."""
    return (out.parent / f"{out.name}.log").read_text()


def killed_at(recipe, out, awaited, *overrides):
    """The exit code of a command that is killed when it has written a new file of that form."""
    before = set((out / "stores").glob(awaited))
    child = start(recipe, out, *overrides)
    while child.poll() is None:
        if found(out, awaited) - before:
            os.kill(child.pid, signal.SIGKILL)
            break
        time.sleep(0.002)
    return child.wait()


def found(out, pattern):
    """The files of that form in the stores of a living command."""
    try:
        return set((out / "stores").glob(pattern))
    except FileNotFoundError:
        return set()  # a folder went away under the listing


def files(folder):
    """The SHA-256 of every file."""
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def prepared(out, one):
    """`out` with the stores that the training `one` made before it trained."""
    shutil.copytree(one / "stores", out / "stores", ignore=shutil.ignore_patterns("weights@*"))
    return out


def training_workers(driver):
    """Processes below the driver that Ray named after a training worker."""
    try:
        below = psutil.Process(driver.pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []
    workers = []
    for process in below:
        try:
            if "RayTrainWorker" in " ".join(process.cmdline()):
                workers.append(process)
        except psutil.Error:
            continue
    return workers


def steps(out, store="weights@small"):
    """The number of checkpoints of a training that are there now."""
    return len(found(out, f"{store}/*/steps/*.json"))


def attempts(out, store="weights@small"):
    """What the training's workers told of themselves."""
    paths = (out / "stores" / store).glob("*/attempts.jsonl")
    return [json.loads(line) for path in paths for line in path.read_text().splitlines()]


def weights(out):
    """The tensors of what was trained."""
    return load_file(out / "models" / "small" / "model.safetensors")


def losses(out):
    """The loss of each step."""
    lines = (out / "train" / "progress.jsonl").read_text().splitlines()
    return [event["loss"] for event in map(json.loads, lines) if "loss" in event]


def history(out):
    """The measurements."""
    return json.loads((out / "summary.json").read_text())["history"]
