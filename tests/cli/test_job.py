"""What a job refuses before it starts."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from raypipe.cli.job import VANISHES, job_problems

REPOSITORY = Path(__file__).parent.parent.parent
MEASURING = {"benchmark", "demo_cluster"}
"""Jobs that time raypipe itself; they are no commands."""
EVERY = sorted((REPOSITORY / "jobs").glob("*.py"))
JOBS = [job for job in EVERY if job.stem not in MEASURING]
CLUSTER = {"RAY_ADDRESS": "10.0.0.5:6379"}


def run_job(job, *arguments, **environment):
    variables = {k: v for k, v in os.environ.items() if k != "RAY_ADDRESS"}
    return subprocess.run(
        [sys.executable, str(job), *arguments],
        capture_output=True,
        text=True,
        env={**variables, "PYTHONPATH": str(REPOSITORY), **environment},
    )


def test_an_absolute_out_on_a_cluster_is_a_job():
    assert job_problems(["recipe.yaml", "--out", "/shared/work"], CLUSTER) == []
    for out in ("/shared/work", "s3://bucket/work", "gs://bucket/work"):
        assert job_problems(["recipe.yaml", f"--out={out}"], CLUSTER) == []
    for environment in ({}, {"RAY_ADDRESS": ""}):
        (problem,) = job_problems(["recipe.yaml", "--out=/shared/work"], environment)
        assert problem.startswith("RAY_ADDRESS: expected the cluster that accepted this job")


def test_a_relative_or_missing_out_is_refused_because_ray_deletes_the_folder():
    for out, found in (
        ([], "none"),
        (["--out", "work"], "'work'"),
        (["--out=work"], "'work'"),
        (["--out", "/a", "--out", "b"], "'b'"),
    ):
        (problem,) = job_problems(["r.yaml", *out], CLUSTER)
        assert problem.startswith("--out: expected a bucket (s3://, gs://), or an absolute folder")
        assert problem.endswith(f"found {found}; {VANISHES}")
    assert job_problems(["--out", "b", "--out", "/a"], CLUSTER) == []


def test_relative_stores_are_refused_because_they_would_lie_in_the_folder_that_ray_deletes(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    out = ["--out", "/shared/work"]
    for stores in ("stores", "./stores", "../stores", "${HERE}/stores"):
        (problem,) = job_problems(["nfcorpus", *out, f"stores={stores}"], CLUSTER)
        assert problem.startswith("stores: expected a bucket") and repr(stores) in problem
        assert "stores=s3://" in problem, "the remedy"
        for name in ("recipe.yaml", "recipe.yml"):
            (tmp_path / name).write_text(f"format: 1\nstores: {stores}\n")
            (written,) = job_problems([name, *out], CLUSTER)
            assert written == problem
        last = ["recipe.yaml", *out, f"stores={stores}", "stores=s3://b/stores"]
        assert job_problems(last, CLUSTER) == []


def test_stores_that_outlive_the_job_are_taken(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    out = ["--out", "/shared/work"]
    variables = {**CLUSTER, "STORES": "/shared"}
    for stores in ("s3://bucket/stores", "gs://bucket", "/shared/stores", "${STORES}/stores", ""):
        assert job_problems(["nfcorpus", *out, f"stores={stores}"], variables) == []
    beside = tmp_path / "recipe.yaml"
    beside.write_text("format: 1\nstores: stores\n")
    assert job_problems([str(beside), *out], CLUSTER) == [], "relative to the recipe: it stays"
    for text in ("format: [", "- a", "stores: 3"):
        beside.write_text(text)
        assert job_problems(["recipe.yaml", *out], CLUSTER) == [], "the verb tells what is wrong"
    beside.unlink()
    assert job_problems(["recipe.yaml", *out], CLUSTER) == []


@pytest.mark.slow
def test_a_job_file_run_without_a_cluster_exits_2_and_says_how_to_submit():
    done = run_job(REPOSITORY / "jobs" / "pipeline.py", "nfcorpus", "--out", "/nowhere/work")
    assert done.returncode == 2
    assert "ray job submit" in done.stderr
    assert done.stderr.splitlines()[0].startswith("error: RAY_ADDRESS")
    assert done.stderr.splitlines()[-1] == "raypipe: exit 2 (bad input or configuration)"


def test_every_verb_that_joins_a_cluster_has_a_job():
    """What tells such a verb is its --allow-open-cluster; each job file is the same few lines."""
    import typer.main

    from raypipe.cli.main import app

    verbs = typer.main.get_command(app()).commands
    joining = {
        name
        for name, verb in verbs.items()
        if any("--allow-open-cluster" in option.opts for option in verb.params)
    }
    assert joining == {job.stem for job in JOBS}
    texts = {job: job.read_text() for job in JOBS}
    assert all(text.count(job.stem) >= 2 and "import sys" in text for job, text in texts.items())
    named = ((f"`raypipe {job.stem}`", f'run_job("{job.stem}",') for job in JOBS)
    bodies = {
        text.replace(verb, "VERB").replace(call, "CALL")
        for text, (verb, call) in zip(texts.values(), named, strict=True)
    }
    assert len(bodies) == 1
