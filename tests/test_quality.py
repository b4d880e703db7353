"""Format, lint and types, as one command each."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def run(*command):
    return subprocess.run(
        [sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True
    )


def test_ruff_finds_nothing():
    for command in (["check"], ["format", "--check"]):
        done = run("ruff", *command, "raypipe", "jobs", "tests")
        assert done.returncode == 0, done.stdout


def test_mypy_strict_finds_nothing():
    done = run("mypy", "raypipe")
    assert done.returncode == 0, done.stdout
