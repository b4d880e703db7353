"""The files under jobs/: one a command that a cluster can run, and nothing in them but its name."""

from pathlib import Path

import pytest

MEASURING = {"benchmark", "rehearsal"}
"""Those that time raypipe itself; they are no commands."""
EVERY = sorted((Path(__file__).parents[2] / "jobs").glob("*.py"))
JOBS = [path for path in EVERY if path.stem not in MEASURING]


def test_there_is_one_for_each_command_that_runs_on_a_cluster():
    expected = (
        "aggregate beir encode index pipeline prepare reindex reproduce score search tokenize train"
    )
    assert " ".join(path.stem for path in JOBS) == expected


@pytest.mark.parametrize("path", JOBS, ids=lambda path: path.stem)
def test_each_runs_the_command_it_is_named_after(path):
    text = path.read_text()
    assert f'run_job("{path.stem}", sys.argv[1:])' in text and f"`raypipe {path.stem}`" in text
    assert len(text.splitlines()) < 10
