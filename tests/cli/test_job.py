"""What a job refuses before it starts."""

import os
import subprocess
import sys
from pathlib import Path

from raypipe.cli.job import job_problems

REPOSITORY = Path(__file__).parent.parent.parent
JOBS = sorted((REPOSITORY / "jobs").glob("*.py"))
CLUSTER = {"RAY_ADDRESS": "10.0.0.5:6379"}


def run_job(job, *arguments, **environment):
    variables = {k: v for k, v in os.environ.items() if k != "RAY_ADDRESS"}
    return subprocess.run(
        [sys.executable, str(job), *arguments],
        capture_output=True,
        text=True,
        env={**variables, "PYTHONPATH": str(REPOSITORY), **environment},
        timeout=60,
    )


def test_an_absolute_out_on_a_cluster_is_a_job():
    assert job_problems(["recipe.yaml", "--out", "/shared/work"], CLUSTER) == []
    assert job_problems(["recipe.yaml", "--out=/shared/work"], CLUSTER) == []


def test_a_relative_or_missing_out_is_refused_because_ray_deletes_the_folder():
    for arguments in (["r.yaml"], ["r.yaml", "--out", "work"], ["r.yaml", "--out=work"]):
        (problem,) = job_problems(arguments, CLUSTER)
        assert problem.startswith("--out: expected an absolute folder")
    assert job_problems(["--out", "/a", "--out", "b"], CLUSTER)


def test_a_job_file_run_without_a_cluster_exits_2_and_says_how_to_submit():
    done = run_job(REPOSITORY / "jobs" / "pipeline.py", "nfcorpus", "--out", "/nowhere/work")
    assert done.returncode == 2
    assert "ray job submit" in done.stderr
    assert done.stderr.splitlines()[-1].startswith("raypipe: exit 2 (RAY_ADDRESS")


def test_every_job_has_the_arguments_of_the_verb_it_is_named_after():
    assert JOBS
    for job in JOBS:
        done = run_job(job, "--help")
        assert done.returncode == 0, done.stderr
        assert f"raypipe {job.stem} " in done.stdout
        assert "--out" in done.stdout
