"""The daemons that Ray starts for one process, and the stand-in for an agent that it lacks."""

import subprocess
import sys

import psutil
import pytest
from patience import await_ends, until
from ray._private import parameter, services, utils

from raypipe.cluster.no_agent import PORTS
from raypipe.cluster.ray_daemons import AGENT, fewer_daemons, without_agent


def test_within_the_block_ray_is_told_to_start_fewer_and_afterwards_as_before(monkeypatch):
    started = []
    monkeypatch.setattr(
        services, "start_ray_process", lambda command, kind: started.append(command)
    )
    before = parameter.RayParams, services.start_api_server
    before += services.start_ray_process, utils.get_dashboard_dependency_error
    raylet = ["raylet", "--dashboard_agent_command=python agent.py", "--session_dir=s"]
    with pytest.raises(RuntimeError, match="Ray does not start"), fewer_daemons():
        given = parameter.RayParams(num_cpus=3)
        assert (given.no_monitor, given.include_log_monitor, given.num_cpus) == (True, False, 3)
        assert services.start_api_server(False, port=1) == (None, None)
        services.start_ray_process([*raylet, "--node_id=n"], "raylet")
        assert utils.get_dashboard_dependency_error() is None
        raise RuntimeError("Ray does not start")
    assert started == [without_agent([*raylet, "--node_id=n"])] != [[*raylet, "--node_id=n"]]
    after = parameter.RayParams, services.start_api_server
    assert before == (*after, services.start_ray_process, utils.get_dashboard_dependency_error)
    given = parameter.RayParams()
    assert not given.no_monitor and given.include_log_monitor is None


def test_a_raylet_gets_the_stand_in_of_its_session_and_node_and_nothing_else_changes():
    command = ["raylet", "--head", "--dashboard_agent_command=python agent.py --a=b", "--x=y=z"]
    command += [
        "--session_dir=/tmp/a b/session",
        "--node_id=0f",
        "--runtime_env_agent_command=python",
    ]
    found = without_agent(command)
    agent = f'--dashboard_agent_command={sys.executable} -I -S {AGENT} "/tmp/a b/session" 0f'
    assert found == [*command[:2], agent, *command[3:]]
    assert without_agent(["gcs_server", "--session_dir=/tmp"]) == [
        "gcs_server",
        "--session_dir=/tmp",
    ]


RAYLET = """
import os, subprocess, sys, time
environment = {**os.environ, "RAY_RAYLET_PID": str(os.getpid())}
print(subprocess.Popen([sys.executable, *sys.argv[1:]], env=environment).pid, flush=True)
time.sleep(3600)
"""


def test_the_stand_in_says_that_nobody_listens_and_ends_after_its_raylet(tmp_path):
    command = [sys.executable, "-c", RAYLET, "-I", "-S", AGENT, tmp_path, "0f"]
    raylet = subprocess.Popen([*map(str, command)], stdout=subprocess.PIPE, text=True)
    agent = psutil.Process(int(raylet.stdout.readline()))
    until(lambda: len([*tmp_path.glob("*_0f")]) == len(PORTS))
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {
        f"{name}_0f": "-1" for name in PORTS
    }
    assert agent.is_running()
    raylet.kill()
    raylet.wait()
    await_ends([agent])
