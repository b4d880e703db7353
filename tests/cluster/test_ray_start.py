"""The environment of a job's workers, and how a Ray of one's own starts and ends."""

import json
import shutil
import subprocess
import sys
from types import SimpleNamespace

import pytest
import ray

from raypipe.cluster import ray_start
from raypipe.cluster.ray_start import LocalRay, job_environment
from raypipe.errors import IncompleteError, InputError


def test_what_a_job_was_submitted_with_is_not_set_a_second_time(monkeypatch):
    config = json.dumps({"runtime_env": {"env_vars": {"RAY_DEDUP_LOGS": "1", "OTHER": "x"}}})
    every = job_environment()
    monkeypatch.setenv("RAY_JOB_CONFIG_JSON_ENV_VAR", config)
    assert job_environment() == {k: v for k, v in every.items() if k != "RAY_DEDUP_LOGS"}
    for nothing in ("", '{"metadata": {}}', '{"runtime_env": {}}'):
        monkeypatch.setenv("RAY_JOB_CONFIG_JSON_ENV_VAR", nothing)
        assert job_environment() == every
    monkeypatch.delenv("RAY_JOB_CONFIG_JSON_ENV_VAR")
    assert job_environment() == every


def test_workers_get_the_mode_of_matrix_products_that_this_process_has_or_else_strict(monkeypatch):
    monkeypatch.setenv("MKL_CBWR", "AVX2,STRICT")
    assert job_environment()["MKL_CBWR"] == "AVX2,STRICT"
    monkeypatch.delenv("MKL_CBWR")
    assert job_environment()["MKL_CBWR"] == "AUTO,STRICT"
    assert job_environment()["RAY_USAGE_STATS_ENABLED"] == "0"


@pytest.mark.parametrize("ended", [False, True])
def test_a_ray_of_ones_own_is_left_before_its_processes_end_unless_a_daemon_is_gone(
    ended, tmp_path, monkeypatch
):
    """A client ends its process soon after its head; and it waits for a daemon that is gone."""
    raylet, told = tmp_path / "raylet", []
    raylet.symlink_to(shutil.which("sleep"))
    daemon = subprocess.Popen([raylet, "3600"])
    monkeypatch.setattr(ray_start.ray, "shutdown", lambda: told.append("left"))
    try:
        local = LocalRay(SimpleNamespace(close=lambda: told.append("ended")), {})
        if ended:
            daemon.kill()
            daemon.wait()
        local.close()
    finally:
        daemon.kill()
        daemon.wait()
    assert told == (["ended"] if ended else ["left", "ended"])


@pytest.mark.jvm
@pytest.mark.ray
@pytest.mark.slow
def test_java_works_on_beside_a_ray_and_after_it():
    """Java reads through null pointers; whoever has its signal would end the process."""
    code = """
import ctypes, signal
from raypipe.cluster.ray_start import start_local
from raypipe.engines.lucene.java import start_jvm

def handlers():
    action, found = ctypes.create_string_buffer(256), []
    for number in (signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL):
        ctypes.CDLL(None).sigaction(number, None, action)
        found.append(action.raw[:8])
    return found

start_jvm()
before = handlers()
ray = start_local(num_cpus=1)
assert handlers() == before
ray.close()
assert handlers() == before
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_ray_that_does_not_start_is_incomplete_with_what_it_said(monkeypatch):
    def init(**settings):
        raise RuntimeError("The current node timed out during startup.\nmore")

    monkeypatch.setattr(ray, "init", init)
    with pytest.raises(IncompleteError, match="timed out during startup.*run the same command"):
        ray_start.start_local(num_cpus=1)


@pytest.mark.parametrize(
    "begin", [lambda: ray_start.start_local(num_cpus=1), lambda: ray_start.connect("h:1")]
)
def test_a_second_ray_of_a_process_is_refused_before_anything_starts(monkeypatch, begin):
    """What ends a start that failed would end the first one's daemons too."""
    monkeypatch.setattr(ray, "is_initialized", lambda: True)
    monkeypatch.setattr(ray, "init", None)
    monkeypatch.setattr(ray_start, "Reaper", None)
    with pytest.raises(InputError, match=r"this process has one already.*ray\.shutdown"):
        begin()
