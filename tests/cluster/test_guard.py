"""Which clusters are refused, what a local one listens on, and who can read its token."""

import os
import subprocess
import sys

import psutil
import pytest
from free_ports import free_ports
from ray._private import ray_constants

from raypipe.cluster import ray_start as guard
from raypipe.cluster.ray_start import (
    asks_for_token,
    keep_token_private,
    loopback_only,
    open_cluster_problem,
)


def test_a_cluster_on_loopback_alone_needs_no_token():
    assert open_cluster_problem("127.0.0.1:6379", ["127.0.0.1", "::1", "localhost"]) is None


@pytest.mark.fault(41, "refused with its hosts and the remedy")
def test_an_open_cluster_that_a_network_reaches_is_refused_with_its_hosts_and_the_remedy():
    problem = open_cluster_problem("10.0.0.5:6379", ["127.0.0.1", "10.0.0.5", "10.0.0.6"])
    assert problem is not None
    assert "10.0.0.5, 10.0.0.6" in problem
    assert "RAY_AUTH_MODE=token" in problem and "--allow-open-cluster" in problem


@pytest.mark.fault(41, "3 of 3 modes set here: a cluster that cannot be asked counts as open")
@pytest.mark.parametrize("mode", ["", "token", "disabled"])
def test_a_cluster_that_nobody_can_ask_counts_as_open_whatever_is_set_here(monkeypatch, mode):
    monkeypatch.setenv("RAY_AUTH_MODE", mode)
    monkeypatch.setattr(guard, "_ASK", "raise ConnectionError")
    for dashboard in ("", "127.0.0.1:9"):
        assert guard._status_without_token(dashboard) is None
        assert not asks_for_token(dashboard, "127.0.0.1:9")


def test_the_stranger_who_asks_has_no_token_and_a_refusal_is_its_exit_code(monkeypatch):
    monkeypatch.setenv("RAY_AUTH_TOKEN", "x")
    told = "import os, sys; sys.exit(3 if {} else 0)"
    own = "[v for v in os.environ if v.startswith('RAY_AUTH_')] == ['RAY_AUTH_MODE']"
    for condition, refused in ((own, True), ("sys.argv[1] != 'x:1'", False)):
        monkeypatch.setattr(guard, "_ASK", told.format(condition))
        assert asks_for_token("", "x:1") == refused


def test_hosts_on_loopback():
    loopback = [guard._is_loopback(h) for h in ("localhost", "127.0.0.9", "::1", "10.0.0.1")]
    assert loopback == [True, True, True, False]


@pytest.mark.parametrize("given", [None, "1"])
def test_rays_switch_is_as_before_once_a_local_cluster_has_started(monkeypatch, given):
    variable = ray_constants.ENABLE_RAY_CLUSTERS_ENV_VAR
    monkeypatch.setenv(variable, given or "")
    if given is None:
        monkeypatch.delenv(variable)
    before = ray_constants.ENABLE_RAY_CLUSTER
    with pytest.raises(ValueError, match="no"), loopback_only():
        assert os.environ[variable] == "0" and not ray_constants.ENABLE_RAY_CLUSTER
        raise ValueError("no")
    assert (ray_constants.ENABLE_RAY_CLUSTER, os.environ.get(variable)) == (before, given)


@pytest.mark.fault(42, "a token's file is readable by its owner alone")
def test_a_token_is_readable_by_its_owner_alone(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    keep_token_private(create=False)
    token = tmp_path / ".ray" / "auth_token"
    assert not token.exists()
    keep_token_private(create=True)
    content = token.read_text()
    assert len(content) == 64 and token.stat().st_mode & 0o777 == 0o600
    token.chmod(0o644)  # as Ray writes it
    keep_token_private(create=False)
    keep_token_private(create=True)
    assert token.stat().st_mode & 0o777 == 0o600 and token.read_text() == content
    assert [path.name for path in token.parent.iterdir()] == ["auth_token"]


LOCAL = """
import pathlib, psutil, ray, sys
from raypipe.cluster.ray_start import start_local
local = start_local(num_cpus=1)
class Actor:
    def answer(self): return 3
assert ray.get(ray.remote(Actor).remote().answer.remote()) == 3
me = psutil.Process()
found = [one.net_connections("inet") for one in (me, *me.children(recursive=True))]
heard = [one.laddr.ip for several in found for one in several if one.status == "LISTEN"]
pathlib.Path(sys.argv[1]).write_text(" ".join(heard))
local.close()
"""


@pytest.mark.fault(41, "a local Ray listens on loopback alone")
@pytest.mark.ray
@pytest.mark.slow
def test_a_local_ray_listens_on_loopback_alone_and_its_token_is_private(tmp_path):
    addresses = tmp_path / "addresses"  # stdout has Ray's own lines too
    done = subprocess.run(
        [sys.executable, "-c", LOCAL, str(addresses)],
        env={**os.environ, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    heard = set(addresses.read_text().split())
    assert heard <= {"127.0.0.1", "::ffff:127.0.0.1", "::1"}
    assert heard
    token = tmp_path / ".ray" / "auth_token"
    assert token.stat().st_mode & 0o777 == 0o600


@pytest.mark.fault(41, "a real head without a dashboard: open is refused, with a token taken")
@pytest.mark.ray
@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize(("mode", "refused"), [("disabled", True), ("token", False)])
def test_a_head_without_a_dashboard_is_asked_itself(monkeypatch, tmp_path, mode, refused):
    """The client says `token` in both: an open cluster lets it in all the same."""
    monkeypatch.setenv("HOME", str(tmp_path))
    keep_token_private(create=True)
    port, client_port, agent_port = free_ports(3)
    command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block"]
    options = {"port": port, "include-dashboard": "false", "num-cpus": 1}
    options |= {"ray-client-server-port": client_port, "dashboard-agent-listen-port": agent_port}
    options |= {"object-store-memory": 100_000_000, "temp-dir": f"/tmp/raypipe-guard-{port}"}
    command += [f"--{name}={value}" for name, value in options.items()]
    head = subprocess.Popen(
        command, env={**os.environ, "RAY_AUTH_MODE": mode}, stdout=subprocess.DEVNULL
    )
    code = f"""
from raypipe.cluster.ray_start import connect
from raypipe.errors import RefusedError
import pathlib, sys, time
answer = pathlib.Path(sys.argv[1])
while True:
    try:
        answer.write_text(str(connect("127.0.0.1:{port}")["CPU"]))
    except RefusedError as error:
        answer.write_text("refused")
    except Exception as error:
        print(repr(error), file=sys.stderr)
        time.sleep(0.2)
        continue
    break
"""
    try:
        client = {**os.environ, "RAY_AUTH_MODE": "token"}
        answer = tmp_path / "answer"  # stdout has Ray's own lines too
        subprocess.run([sys.executable, "-c", code, str(answer)], env=client, check=True)
        assert answer.read_text() == ("refused" if refused else "1.0")
    finally:
        below = psutil.Process(head.pid).children(recursive=True)
        head.kill()
        for one in below:
            one.kill()
        head.wait()
