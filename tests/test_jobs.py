"""`jobs/*.py` under `ray job submit`, against a head started here, with a token and no network."""

import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
from canaries import put_canaries_that_give_way
from cluster_of_nodes import START, SUBMIT
from free_ports import free_ports
from killed_jobs import durable_bytes
from patience import await_ends, end_all, has_ended

from raypipe.cli.main import run
from raypipe.storage.holder import wait_until_dead
from raypipe.storage.lease import lease_state
from raypipe.storage.root import open_storage

pytestmark = pytest.mark.ray

REPOSITORY = Path(__file__).parent.parent
SCHEDULE = REPOSITORY / "docs" / "reindexing.md"
SHARDS = 30
DATE = "reindex-2026-11-22"
ONE_SHARD = f"resources.shard_rows={SHARDS}"
"""For a job that no test kills in the middle."""
MODULES = ("json", "numpy", "psutil", "pyarrow", "secrets", "ssl", "torch", "types", "yaml")
HOOKS = ("sitecustomize", "usercustomize")
RECIPE = """
format: 1
name: job
collection: {format: msmarco-v1, input: passages.tsv}
queries:
  dev: {file: queries.tsv}
models:
  tiny: {path: model}
stages:
  embeddings: {do: encode, model: tiny}
  dense: {do: search, index: embeddings, depth: 5}
resources: {device: cpu, actors: 1, threads: 1, shard_rows: 1}
"""


@dataclass
class Head:
    address: str
    environment: dict[str, str]
    working_dir: Path
    process: psutil.Process
    python: Path

    def submit(
        self, *entrypoint: object, options: tuple[object, ...] = ()
    ) -> subprocess.Popen[str]:
        """`ray job submit`, which follows the job's log and exits with 1 if it fails."""
        options = options or ("--working-dir", self.working_dir)
        command = [self.python, *SUBMIT, "--address", self.address, *options, "--"]
        return subprocess.Popen(
            [str(part) for part in (*command, *entrypoint)],
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )


def environment(python: Path) -> dict[str, str]:
    """A token for this head alone; any connection beyond this machine fails at a dead proxy."""
    dead = "http://127.0.0.1:9"
    kept = {k: v for k, v in os.environ.items() if not k.startswith("RAY_")}
    for name in ("PYTHONPATH", "MKL_CBWR"):  # workers must get them from the job
        kept.pop(name, None)
    return {
        **kept,
        "PATH": f"{python.parent}:{os.environ['PATH']}",
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": secrets.token_hex(32),
        "RAY_NUM_REDIS_GET_RETRIES": os.environ["RAY_NUM_REDIS_GET_RETRIES"],
        "RAY_USAGE_STATS_ENABLED": "0",
        "HTTP_PROXY": dead,
        "HTTPS_PROXY": dead,
        "NO_PROXY": f"127.0.0.1,localhost,{socket.gethostbyname(socket.gethostname())}",
    }


def answer(url: str) -> int | None:
    try:
        with urllib.request.urlopen(url) as reply:
            return int(reply.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return None


@pytest.fixture(scope="module")
def standing_heads(tmp_path_factory):
    """The head that the tests of this file share; another takes its place once one kills it."""
    heads = []
    with ExitStack() as stack:

        def standing():
            if not heads or has_ended(heads[-1].process):
                heads.append(stack.enter_context(started_head(tmp_path_factory)))
            return heads[-1]

        yield standing


@pytest.fixture
def head(standing_heads):
    return standing_heads()


@contextmanager
def started_head(tmp_path_factory):
    working_dir = tmp_path_factory.mktemp("submitted")
    for name in ("jobs", "raypipe"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(REPOSITORY / name, working_dir / name, ignore=ignored)
    (working_dir / "apart").mkdir()
    (working_dir / "apart" / "note").write_text("a worker's own folder\n")
    dashboard, agent = free_ports(2)
    folder = tempfile.mkdtemp(prefix="rp", dir="/tmp")  # socket paths hold 107 characters
    # Ray 2.60 starts no dashboard from an environment that has a blank in its path.
    (Path(folder) / "env").symlink_to(Path(sys.executable).parent.parent)
    python = Path(folder) / "env" / "bin" / Path(sys.executable).name
    variables = environment(python)
    command = [python, START, "--head", "--block", "--port=0", "--include-dashboard=True"]
    command += [f"--dashboard-port={dashboard}"]
    command += [f"--dashboard-agent-listen-port={agent}", "--min-worker-port=0"]
    command += ["--max-worker-port=0", "--num-cpus=1", "--object-store-memory=100000000"]
    command += [f"--temp-dir={folder}", "--disable-usage-stats"]
    log = Path(folder) / "head.log"

    def begun() -> subprocess.Popen[bytes]:
        with log.open("wb") as out:
            return subprocess.Popen(command, env=variables, stdout=out, stderr=out)

    process = begun()
    address = f"http://127.0.0.1:{dashboard}"
    # The dashboard answers first; the node's own agent, without which a job is refused, last.
    parts = (f"{address}/api/version", f"http://127.0.0.1:{agent}/api/local_raylet_healthz")
    try:
        while "Ray runtime started" not in log.read_text() or None in map(answer, parts):
            if process.poll() is not None:
                # Ray gives its own start 30 seconds, which is not enough on a very busy machine.
                assert "timed out" in log.read_text().lower(), log.read_text()
                process = begun()
            time.sleep(0.2)
        yield Head(address, variables, working_dir, psutil.Process(process.pid), python)
    finally:
        ended = process.poll() is not None
        below = [] if ended else psutil.Process(process.pid).children(recursive=True)
        process.kill()
        end_all(below)
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def files(tmp_path_factory, tiny_bert):
    folder = tmp_path_factory.mktemp("files")
    lines = [f"{row}\tthe lease of shard {row} ranks a zebra\n" for row in range(SHARDS)]
    (folder / "passages.tsv").write_text("".join(lines))
    (folder / "queries.tsv").write_text("q1\tthe zebra\nq2\ta lease\n")
    (folder / "recipe.yaml").write_text(RECIPE)
    bm25 = "stages:\n  lucene: {do: index}\n  bm25: {do: search, index: lucene, depth: 5}"
    (folder / "bm25.yaml").write_text(RECIPE.replace("stages:", bm25))
    tiny_bert(folder / "model")
    return folder


@pytest.fixture(scope="module")
def tiny_bert():
    """`make_tiny_bert`, imported where it is wanted: torch is not loaded before."""
    import tiny

    return tiny.make_tiny_bert


def pipeline(files: Path, out: Path) -> tuple[object, ...]:
    """The script of a job, with a recipe in which Java takes part."""
    return ("jobs/pipeline.py", files / "bm25.yaml", "--out", out)


def summary(out: Path) -> dict[str, object]:
    return json.loads((out / "summary.json").read_text())


def num_committed(out: Path) -> int:
    return sum(1 for _ in out.glob("stores/passages@collection/*/shards/*.json"))


@pytest.mark.slow
@pytest.mark.fault(41, "a real cluster answers a stranger with 401")
def test_the_job_interface_turns_a_stranger_away(head):
    assert answer(f"{head.address}/api/jobs/") == 401


def submitted_under(head, submission_id):
    """The answer of the job interface, which is all that `ray job submit` prints of a refusal."""
    body = json.dumps({"entrypoint": "true", "submission_id": submission_id}).encode()
    token = head.environment["RAY_AUTH_TOKEN"]
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    request = urllib.request.Request(f"{head.address}/api/jobs/", body, headers)
    try:
        with urllib.request.urlopen(request) as reply:
            return int(reply.status), reply.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


@pytest.fixture(scope="module")
def failed(standing_heads, files, tmp_path_factory):
    """A job of a bad file under a date: its workspace, its log, and who ran a stranger's files.

    Its working directory is a stranger's, as below; its Python runs `sitecustomize.py` there.
    """
    folder = tmp_path_factory.mktemp("failed")
    bad = folder / "passages.tsv"
    good = b"".join(b"%d\ta lease\n" % row for row in range(3000))
    # Far from the first passages, which the driver reads before it starts anything.
    bad.write_bytes(good + b"3000\tbroken \xff\xfe bytes\n3001\ta shard\n")
    theirs, canaries = strangers_directory(standing_heads(), folder, MODULES)
    out = folder / "work"
    job = ("python", "jobs/encode.py", "--collection", bad, "--model", files / "model")
    options = ("--working-dir", theirs, "--submission-id", DATE)
    submitted = standing_heads().submit(*job, "--out", out, options=options)
    log, _ = submitted.communicate()
    assert submitted.returncode == 1, log
    return out, log, canaries


@pytest.mark.slow
@pytest.mark.fault(
    45, "Ray refuses a second submission of one id, in the words that the documents show"
)
def test_a_second_submission_of_a_date_is_refused_and_told_as_such(head, failed):
    refusal = f"Job with submission_id {DATE} already exists"
    code, told = submitted_under(head, DATE)
    assert code == 500 and refusal in told
    assert f'"{refusal}"' in SCHEDULE.read_text()


@pytest.mark.long
def test_the_command_that_submits_a_date_again_exits_with_1(head):
    assert submitted_under(head, "reindex-2026-11-23")[0] == 200
    second = head.submit("true", options=("--submission-id", "reindex-2026-11-23"))
    log, _ = second.communicate()
    assert second.returncode == 1
    assert "Job with submission_id reindex-2026-11-23 already exists" in log


@pytest.fixture(scope="module")
def killed(standing_heads, files, tmp_path_factory):
    """The workspace of a job whose driver was killed, what it said then, and its shards."""
    out = tmp_path_factory.mktemp("killed") / "work"
    submitted = standing_heads().submit("python", *pipeline(files, out))
    while num_committed(out) < 3:
        assert submitted.poll() is None, submitted.stdout.read()
        time.sleep(0.02)
    lease = lease_state(open_storage(str(out)), "lease.json")
    os.kill(lease.holder.pid, signal.SIGKILL)
    assert wait_until_dead([lease.holder], 600) == []  # the signal is sent, its end takes a moment
    told = summary(out), run(["status", str(out)])[0]
    log, _ = submitted.communicate()
    assert submitted.returncode == 1 and "failed" in log
    return out, told, num_committed(out)


@pytest.fixture(scope="module")
def resumed(standing_heads, files, killed, tmp_path_factory):
    """The log of the next job of that workspace, and who ran files of its working directory.

    That is a stranger's. Java is started by a worker. A `sitecustomize.py` there is run by Python
    itself, before any script, but for `python -I`.
    """
    folder = tmp_path_factory.mktemp("resumed")
    theirs, canaries = strangers_directory(standing_heads(), folder, MODULES + HOOKS)
    job = ("python", "-I", *pipeline(files, killed[0]), ONE_SHARD)
    submitted = standing_heads().submit(*job, options=("--working-dir", theirs))
    log, _ = submitted.communicate()
    assert submitted.returncode == 0, log
    return log, canaries


@pytest.mark.slow
@pytest.mark.fault(
    2, "a killed driver of a submitted job: `status` is 3, the next submission completes"
)
def test_a_killed_driver_leaves_no_success_and_the_next_job_completes(
    killed, resumed, raypipe_here
):
    out, (told, status), committed = killed
    assert told["status"] == "running" and told["exit"] is None
    assert status == 3 and committed < SHARDS
    assert "raypipe: exit 0 (complete)" in resumed[0]
    told = summary(out)
    assert (told["status"], told["exit"]) == ("complete", 0)
    assert told["stages"]["passages@collection"]["shards"]["reused"] >= committed
    assert len((out / "runs" / "dev" / "dense.trec").read_text().splitlines()) == 10
    assert raypipe_here("status", out).returncode == 0
    (manifest,) = out.glob("stores/embeddings/*/manifest.json")
    (told,) = json.loads(manifest.read_text())["body"]["numerics"]
    assert ",STRICT" in told or "mkl" not in told, told


@pytest.mark.slow
@pytest.mark.jvm
def test_of_a_jobs_working_directory_raypipe_alone_is_taken(resumed):
    assert_run_by_rays_supervisor_alone(resumed[1])


@pytest.mark.slow
def test_a_failing_job_fails_and_its_log_names_file_line_store_and_shard(failed, raypipe_here):
    out, log, canaries = failed
    assert f"{out.parent}/passages.tsv: line 3,001: not UTF-8" in log
    assert "in passages@collection: shard 00000 rows [0, 3002)" in log
    assert "raypipe: exit 2 " in log
    assert (summary(out)["status"], summary(out)["exit"]) == ("failed", 2)
    assert raypipe_here("status", out).returncode == 2
    assert_run_by_rays_supervisor_alone(canaries)


@pytest.mark.long
def test_a_folder_that_is_not_shared_is_found_before_work_starts(head, files, tmp_path):
    """The stores' path leads through each process's own folder: elsewhere for the worker."""
    (tmp_path / "apart").mkdir()
    (tmp_path / "stores").symlink_to("/proc/self/cwd/apart")
    out = tmp_path / "work"
    script = "jobs=$PWD/jobs/pipeline.py; cd $0 && exec python $jobs $1 --out $2 stores=$0/stores"
    submitted = head.submit("bash", "-c", script, tmp_path, files / "recipe.yaml", out)
    log, _ = submitted.communicate()
    assert submitted.returncode == 1
    assert "expected the driver's nonce" in log
    assert "one folder that every node mounts" in log
    assert summary(out)["exit"] == 2
    assert not list((tmp_path / "apart").glob("*/*/shards/*")), "no shard was computed"


def strangers_directory(head, tmp_path, modules):
    """A working directory with raypipe and files that note who runs them; the folder of the notes.

    raypipe is another version than the installed one: a worker that finds that one is refused.
    """
    theirs, log = tmp_path / "theirs", tmp_path / "log"
    shutil.copytree(head.working_dir, theirs)
    with (theirs / "raypipe" / "schema.py").open("a") as file:
        file.write("# another version\n")
    put_canaries_that_give_way(theirs, log, modules)
    return theirs, log


def assert_run_by_rays_supervisor_alone(log):
    """It comes before any program of the user's, and is the cluster's first job."""
    lines = log.read_text().splitlines()
    assert [line for line in lines if line.split()[1] != "01000000"] == []
    assert lines, "the directory is where Ray's own processes look"


@pytest.mark.slow
@pytest.mark.fault(
    5, "a submitted job whose head is killed: its client fails, and the same pipeline completes"
)
def test_a_job_whose_head_is_killed_publishes_nothing_and_the_next_completes(
    head, files, tmp_path, raypipe_here
):
    """The next one needs no head: that another one's job goes on is shown where drivers join."""
    calm, out = tmp_path / "calm", tmp_path / "work"
    recipe = files / "recipe.yaml"
    inline = ("pipeline", recipe, "resources.backend=inline", "--out")
    assert raypipe_here(*inline, calm).returncode == 0
    submitted = head.submit("python", "jobs/pipeline.py", recipe, "--out", out)
    while num_committed(out) < 3:
        assert submitted.poll() is None, submitted.stdout.read()
        time.sleep(0.02)
    holder = lease_state(open_storage(str(out)), "lease.json").holder
    below = head.process.children(recursive=True)
    (gcs,) = (one for one in below if one.name() == "gcs_server")
    gcs.kill()
    log, _ = submitted.communicate()
    assert submitted.returncode != 0, log
    assert wait_until_dead([holder], 600) == []
    end_all([*below, head.process])
    await_ends([head.process])
    assert summary(out)["status"] != "complete" and raypipe_here("status", out).returncode == 3
    assert not [*out.glob("stores/passages@*/*/manifest.json"), *out.glob("runs/dev/*")]
    again = raypipe_here(*inline, out)
    assert again.returncode == 0, again.stderr
    assert results(out) == results(calm)


def results(out):
    """Runs and embeddings; what is kept of the attempts is apart."""
    found = durable_bytes(out)
    wanted = ("runs/", "stores/embeddings", "stores/dense")
    return {name: data for name, data in found.items() if name.startswith(wanted)}
