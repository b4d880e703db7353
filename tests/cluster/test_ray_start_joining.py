"""Clusters started and joined: what Ray is asked for and what its answers lead to.

Ray is a fake here: the real one, which the tests marked `ray` start, cannot be made to fail at each
step, nor to listen on another network.
"""

import json
import os
import socket
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from raypipe.cluster import ray_start
from raypipe.cluster.ray_start import ENVIRONMENT, JoinedRay, LocalRay, connect, start_local
from raypipe.errors import IncompleteError, InputError, RefusedError
from raypipe.package import FOLDER

NEAR, FAR = ("127.0.0.1", True), ("10.0.0.5", True)


class Closing:
    closed = False

    def close(self):
        self.closed = True


class Daemon:
    def __init__(self, name, status=psutil.STATUS_SLEEPING, running=True):
        self._name, self.state, self.running = name, status, running

    def name(self):
        return self._name

    def is_running(self):
        return self.running

    def status(self):
        return self.state


@pytest.mark.parametrize("name", ["gcs_server", "raylet"])
@pytest.mark.parametrize("how", ["gone", "zombie"])
def test_a_daemon_that_has_ended_is_named_and_other_children_do_not_count(monkeypatch, name, how):
    children = [Daemon("other"), Daemon("gcs_server"), Daemon("raylet")]
    monkeypatch.setattr(psutil.Process, "children", lambda self: children)
    reaper = Closing()
    local = LocalRay(reaper, {})
    children[0].running = False
    local.check()
    assert not local.ended()
    daemon = next(each for each in children if each.name() == name)
    daemon.running, daemon.state = how != "gone", psutil.STATUS_ZOMBIE if how == "zombie" else "x"
    assert local.ended()
    with pytest.raises(IncompleteError, match=f"Ray's {name} on this machine has ended"):
        local.check()
    assert not reaper.closed
    local.close()
    assert reaper.closed


def test_a_head_has_ended_once_it_was_out_of_reach_five_times_in_a_row_a_second_apart(monkeypatch):
    head, now = socket.socket(), [0.0]
    head.bind(("127.0.0.1", 0))  # connections are refused until it listens
    address = f"[127.0.0.1]:{head.getsockname()[1]}"  # as Ray writes one of IPv6
    context = SimpleNamespace(gcs_address=address)
    monkeypatch.setattr(ray_start.ray, "get_runtime_context", lambda: context)
    monkeypatch.setattr(ray_start, "time", SimpleNamespace(monotonic=lambda: now[0]))
    joined = JoinedRay()
    for now[0] in (0.5, 1.0, 1.9, 2.0, 3.0, 4.0):  # asked four times
        joined.check()
    head.listen()
    head.setblocking(False)
    now[0] = 5.0
    joined.check()
    head.accept()  # it was asked and answered, so that the count begins again
    head.close()
    for now[0] in (6.0, 7.0, 8.0, 9.0):
        joined.check()
    assert not joined.ended()
    for now[0] in (10.0, 10.1):
        with pytest.raises(IncompleteError, match="head of the Ray cluster at .* has ended"):
            joined.check()
        assert joined.ended()


class Ray:
    """What Ray is asked for."""

    def __init__(self, nodes=(), dashboard="", error=None, wait=0.0):
        self.asked, self.environments, self.shut = [], [], 0
        self._nodes, self._dashboard, self._error, self._wait = nodes, dashboard, error, wait

    def is_initialized(self):
        return False

    def init(self, **options):
        self.asked.append(options)
        self.environments.append(dict(os.environ))
        time.sleep(self._wait)
        if self._error is not None:
            raise self._error
        return SimpleNamespace(dashboard_url=self._dashboard)

    def nodes(self):
        return [{"NodeManagerAddress": host, "Alive": alive} for host, alive in self._nodes]

    def cluster_resources(self):
        return {"CPU": 4.0}

    def get_runtime_context(self):
        return SimpleNamespace(gcs_address="10.0.0.5:6379")

    def shutdown(self):
        self.shut += 1


@pytest.fixture
def use(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in (*ENVIRONMENT, "RAY_AUTH_MODE", "RAY_JOB_CONFIG_JSON_ENV_VAR"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)

    def use(*arguments, **options):
        found = Ray(*arguments, **options)
        monkeypatch.setattr(ray_start, "ray", found)
        monkeypatch.setattr(ray_start, "_refuses_strangers", lambda gcs: False)
        return found

    return use


EXPECTED = {
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DEDUP_LOGS": "0",
    "RAY_gcs_rpc_server_reconnect_timeout_s": "10",
}


def folders_of(job):
    """Where workers look first, once Ray has added the folders of this process."""
    job._py_driver_sys_path.extend(["/home/user"])
    return list(job._py_driver_sys_path)


def test_a_cluster_of_this_process_is_asked_for_what_is_given(use, monkeypatch):
    ray = use()
    reaper = Closing()
    monkeypatch.setattr(ray_start, "Reaper", lambda: reaper)
    monkeypatch.setattr(sys, "executable", "/bin/python")  # that of the suite may have a blank
    local = start_local(num_cpus=3, num_gpus=2)
    (asked,) = ray.asked
    assert asked.pop("logging_level") == 40
    assert folders_of(asked.pop("job_config")) == []
    assert asked == {
        "address": "local", "num_cpus": 3, "num_gpus": 2, "include_dashboard": False,
        "object_store_memory": 200 * 1024 * 1024, "log_to_driver": False,
        "_node_ip_address": "127.0.0.1", "runtime_env": {}, "_skip_env_hook": True,
    }  # fmt: skip
    assert {name: os.environ[name] for name in EXPECTED} == EXPECTED
    start_local(num_cpus=1)
    assert ray.asked[1]["num_gpus"] == 0
    local.close()
    assert reaper.closed


BLANK = "/a b/bin/python"
ANY = f"\"$(command -v '{BLANK}' || command -v python)\""


def test_a_python_whose_path_has_a_blank_is_quoted_for_the_shell(use, monkeypatch):
    ray = use([NEAR])
    monkeypatch.setattr(ray_start, "Reaper", Closing)
    monkeypatch.setattr(sys, "executable", BLANK)
    start_local(num_cpus=1)
    connect("x:1")
    own, joined = ray.asked
    assert own["runtime_env"] == {"py_executable": ANY}
    assert joined["runtime_env"]["py_executable"] == ANY
    given = '{"runtime_env": {"py_executable": "python -I"}}'
    monkeypatch.setenv("RAY_JOB_CONFIG_JSON_ENV_VAR", given)
    connect("x:1")
    assert "py_executable" not in ray.asked[-1]["runtime_env"]


@pytest.mark.parametrize("hook", [None, "their.hook"])
def test_a_hook_of_the_users_own_is_kept_and_that_for_uv_is_not(use, monkeypatch, hook):
    """It would make the current folder the working directory of every worker."""
    ray = use([NEAR])
    if hook:
        monkeypatch.setenv("RAY_RUNTIME_ENV_HOOK", hook)
    connect("x:1")
    assert ray.asked[0]["_skip_env_hook"] is (hook is None)
    assert folders_of(ray.asked[0]["job_config"]) == []


SENT = str(FOLDER / "cluster" / "site" / "sitecustomize")
UNPACKED = "/tmp/ray/session/runtime_resources/working_dir_files/_ray_pkg_0a"


@pytest.mark.parametrize(
    ("submitted", "lies_in", "modules", "folder"),
    [
        ({}, None, None, None),
        ({"working_dir": "gcs://_ray_pkg_0a.zip"}, None, [SENT], None),
        ({"working_dir": "gcs://0a.zip", "py_modules": ["gcs://0b.zip"]}, None,
         [SENT, "gcs://0b.zip"], None),
        ({"working_dir": "gcs://_ray_pkg_0a.zip"}, UNPACKED, "own", "."),
        ({"working_dir": "gcs://_ray_pkg_0a.zip"}, f"{UNPACKED}/checkout", "own", "checkout"),
        ({}, "/shared/checkout", "own", "/shared/checkout"),
    ],
)  # fmt: skip
def test_workers_of_a_job_leave_its_directory_and_find_the_drivers_raypipe(
    use, monkeypatch, submitted, lies_in, modules, folder
):
    ray = use([NEAR])
    monkeypatch.setenv("RAY_JOB_CONFIG_JSON_ENV_VAR", json.dumps({"runtime_env": submitted}))
    monkeypatch.setattr(sys, "path", ["/bin", str(FOLDER.parent)])
    if lies_in:
        place = Path(lies_in) / "raypipe"
        monkeypatch.setattr(ray_start, "FOLDER", place)
        monkeypatch.setattr(ray_start, "SITE", place / "cluster" / "site")
        modules = [str(place / "cluster" / "site" / "sitecustomize")]
    connect("x:1")
    asked = ray.asked[0]["runtime_env"]
    assert asked.get("py_modules") == modules
    assert asked["env_vars"].get("RAYPIPE_FOLDER") == folder
    assert asked["env_vars"]["PYTHONSAFEPATH"] == "1"


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("HOME", "/dev/null", r"HOME=.*Ray can keep its token.*Not a directory.*Set HOME"),
        ("TMPDIR", "/dev/null", r"TMPDIR=.*found no folder.*Not a directory.*Set RAY_TMPDIR"),
        ("RAY_TMPDIR", "/dev/null/below", r"RAY_TMPDIR=.*Not a directory"),
        ("TMPDIR", "relative", r"TMPDIR=relative: expected.*absolute.*found a relative path"),
        (
            "TMPDIR",
            f"/tmp/{'x' * 100}",
            r"TMPDIR=/tmp/x+: .*at most \d+ bytes; found 105 bytes",
        ),
    ],
)
def test_a_folder_that_ray_cannot_use_is_refused_with_what_helps(
    use, monkeypatch, variable, value, said
):
    use(error=AssertionError("nothing may start"))
    monkeypatch.setattr(ray_start, "Reaper", None)
    for name in ("TMPDIR", "RAY_TMPDIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable, value)
    with pytest.raises(InputError, match=rf"(?s){said}.*resources.backend=inline"):
        start_local(num_cpus=1)


def test_the_longest_temporary_folder_that_is_accepted_leaves_room_for_a_socket(use, monkeypatch):
    """107 bytes are what Linux takes; the rest is a session's folder, as Ray 2.60 names it."""
    ray = use()
    monkeypatch.setattr(ray_start, "Reaper", Closing)
    monkeypatch.setattr(os, "makedirs", lambda path, exist_ok: None)
    socket_of = "/ray/session_2026-11-28_04-01-00_314317_{}/sockets/plasma_store".format
    fits = "/" + "x" * (106 - len(socket_of(os.getpid())))
    monkeypatch.setenv("RAY_TMPDIR", fits)
    start_local(num_cpus=1)
    assert len(ray.asked) == 1
    monkeypatch.setenv("RAY_TMPDIR", fits + "x")
    with pytest.raises(InputError, match="too long"):
        start_local(num_cpus=1)


@pytest.mark.parametrize("own", [None, "7"])
def test_its_workers_inherit_threads_and_mode_and_this_process_keeps_its_own(use, monkeypatch, own):
    ray = use()
    monkeypatch.setattr(ray_start, "Reaper", Closing)
    monkeypatch.setenv("OMP_NUM_THREADS", own or "")
    if own is None:
        monkeypatch.delenv("OMP_NUM_THREADS")
    monkeypatch.setenv("MKL_CBWR", "AVX2,STRICT")
    local = start_local(num_cpus=1, threads=3)
    wanted = {**EXPECTED, "OMP_NUM_THREADS": "3", "MKL_CBWR": "AVX2,STRICT"}
    assert local.environment == wanted
    assert {name: ray.environments[0].get(name) for name in wanted} == wanted
    assert os.environ.get("OMP_NUM_THREADS") == own
    assert os.environ["MKL_CBWR"] == "AVX2,STRICT"
    given = '{"runtime_env": {"env_vars": {"OMP_NUM_THREADS": "4"}}}'
    monkeypatch.setenv("RAY_JOB_CONFIG_JSON_ENV_VAR", given)
    submitted = start_local(num_cpus=1, threads=3).environment
    assert submitted == {k: v for k, v in wanted.items() if k != "OMP_NUM_THREADS"}


def test_a_cluster_that_does_not_start_leaves_nothing_behind(use, monkeypatch):
    use(error=RuntimeError("no port\nmore"))
    reaper = Closing()
    monkeypatch.setattr(ray_start, "Reaper", lambda: reaper)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    with pytest.raises(IncompleteError, match="Ray did not start on this machine: no port; run"):
        start_local(num_cpus=1, threads=3)
    assert reaper.closed and "OMP_NUM_THREADS" not in os.environ


@pytest.mark.fault(41, "an open cluster that a network reaches is refused, and left")
def test_a_cluster_that_is_joined_is_refused_only_where_others_reach_it(use, monkeypatch):
    ray = use([NEAR, ("10.0.0.6", False)])
    assert connect("127.0.0.1:6379") == {"CPU": 4.0} and ray.shut == 0
    assert ray.asked[0]["address"] == "127.0.0.1:6379"
    assert ray.asked[0]["runtime_env"]["env_vars"]["RAY_DEDUP_LOGS"] == "0"
    assert ray.asked[0]["log_to_driver"] is False and os.environ["RAY_DEDUP_LOGS"] == "0"
    ray = use([FAR, NEAR])
    with pytest.raises(RefusedError, match=r"at x:1 listens on 10\.0\.0\.5 and requires"):
        connect("x:1")
    assert ray.shut == 1
    assert connect("x:1", allow_open=True) == {"CPU": 4.0} and ray.shut == 1
    monkeypatch.setenv("RAY_AUTH_MODE", "token")  # of this process: it says nothing
    with pytest.raises(RefusedError):
        connect("x:1")
    monkeypatch.setattr(ray_start, "_refuses_strangers", lambda gcs: gcs == "10.0.0.5:6379")
    assert connect("x:1") == {"CPU": 4.0}
    monkeypatch.setenv("RAY_JOB_CONFIG_JSON_ENV_VAR", '{"runtime_env": {"env_vars": {"X": "1"}}}')
    monkeypatch.setitem(ENVIRONMENT, "X", "2")
    connect("x:1")
    assert "X" not in ray.asked[-1]["runtime_env"]["env_vars"]


def test_a_cluster_that_cannot_be_asked_in_time_counts_as_open(use, monkeypatch):
    ask = ray_start._refuses_strangers
    ray = use([FAR])
    monkeypatch.setattr(ray_start, "_refuses_strangers", ask)
    monkeypatch.setattr(ray_start, "ASK_CHILD_SECONDS", 0.0)  # the child is ended as it starts
    with pytest.raises(RefusedError, match="requires no token"):
        connect("x:1")
    assert ray.shut == 1


def test_a_cluster_that_does_not_answer_is_an_input_error(use, monkeypatch):
    use(error=ConnectionError("nobody there"))
    with pytest.raises(InputError, match="RAY_ADDRESS x:1: nobody there"):
        connect("x:1")
    use(wait=3.0)
    monkeypatch.setattr(ray_start, "JOIN_SECONDS", 0.1)
    with pytest.raises(InputError, match="RAY_ADDRESS x:1: no answer after 0 s"):
        connect("x:1")


@pytest.mark.parametrize("call", ["nodes", "cluster_resources", "get_runtime_context"])
def test_a_cluster_that_refuses_what_is_asked_after_joining_is_an_input_error(
    use, monkeypatch, call
):
    ray = use([FAR])

    def refuse():
        raise RuntimeError("a token that nobody asked for")

    monkeypatch.setattr(ray, call, refuse)
    with pytest.raises(InputError, match=r"RAY_ADDRESS x:1: a token .*Expected a running"):
        connect("x:1", allow_open=call == "cluster_resources")


@pytest.fixture
def dashboard():
    """A server that answers with `status` and remembers what it was asked."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            server.seen.append(self.path)
            self.send_response(server.status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *arguments): ...

    server = HTTPServer(("127.0.0.1", 0), Handler)
    server.seen, server.status = [], 200
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.fault(
    41, "a cluster that answers a stranger with 200 or 500 is open, with 401 or 403 closed"
)
@pytest.mark.parametrize(("status", "refused"), [(200, True), (401, False), (403, False),
                                                 (500, True)])  # fmt: skip
def test_the_dashboards_answer_to_a_stranger_decides(use, monkeypatch, dashboard, status, refused):
    dashboard.status = status
    url = f"127.0.0.1:{dashboard.server_port}"
    ray = use([FAR], dashboard=url)
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    if refused:
        with pytest.raises(RefusedError):
            connect("x:1")
    else:
        connect("x:1")
    assert dashboard.seen == ["/api/jobs/"] and ray.shut == refused
