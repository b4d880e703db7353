"""What tests share: real data's folder, a small real collection, the command line as a child."""

import os
import pickle
import subprocess
import sys
import uuid
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from importlib.util import find_spec
from io import StringIO
from pathlib import Path

import pytest

from raypipe import numerics

numerics.set_strict()  # before any product, as the command line does
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # threads that wait leave the cores to others
os.environ.setdefault(
    "RAY_NUM_REDIS_GET_RETRIES", "120"
)  # seconds that Ray waits for its own start

if find_spec("hypothesis"):  # a bare machine with a GPU lacks it
    from hypothesis import HealthCheck, settings

    # The same examples every time, and no clock: a busy machine or a leftover decides nothing.
    slow = [HealthCheck.too_slow]
    settings.register_profile(
        "raypipe", derandomize=True, deadline=None, suppress_health_check=slow
    )
    settings.load_profile("raypipe")

REPOSITORY = Path(__file__).parent.parent

# Four workers where pytest-xdist is installed, on two cores too: files that start Ray mostly wait.
# These come first, and before them, as one group, those that need Java, so that its process starts
# once; then those that compute for long, so that none begins when the others end; the short files
# fill what is left. Without pytest-xdist all run in this process.
NUM_WORKERS = 4
LONG = (
    "tests/test_quality.py",
    "tests/cluster/test_inline_kills.py",
    "tests/cluster/test_inline_kills_bucket.py",
    "tests/driver/recipe/test_graph_reused_rows.py",
    "tests/driver/training/test_phases.py",
    "tests/driver/training/test_train_examples.py",
    "tests/fuzz/test_collections.py",
    "tests/fuzz/test_model_folders.py",
)
"""Unmarked files of ten seconds of a core and more."""
ONE_PROCESS = ("keyword", "maxfail", "usepdb", "trace", "lf", "failedfirst", "stepwise")


@pytest.hookimpl(wrapper=True)
def pytest_cmdline_main(config):
    """Ask for the workers if the whole suite runs and no option wants one process."""
    option = config.option
    undecided = getattr(option, "numprocesses", 0) is None and option.dist == "no"
    undecided = undecided and not hasattr(config, "workerinput")
    whole = [Path(argument).resolve() for argument in config.args] == [REPOSITORY / "tests"]
    whole = whole and option.markexpr.startswith("not ")
    single = option.capture == "no" or any(getattr(option, name, None) for name in ONE_PROCESS)
    if undecided and whole and not single and (os.cpu_count() or 1) > 1:
        option.numprocesses, option.dist = NUM_WORKERS, "loadfile"
        option.loadscopereorder = False
    return (yield)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """What one worker runs in one piece: a file, or all files that need Java."""
    if config.option.dist != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class Groups(LoadFileScheduling):
        def _split_scope(self, nodeid):
            file = super()._split_scope(nodeid)
            return "jvm" if mark_of(file) == "jvm" else file

    return Groups(config, log)


def pytest_collection_modifyitems(config, items):
    """On several workers the longest files first; each worker sorts alike."""
    if getattr(config, "workerinput", None):
        order = {"jvm": 0, "ray": 1, None: 3}
        items.sort(
            key=lambda item: 2 if (path := item.location[0]) in LONG else order[mark_of(path)]
        )


@cache
def mark_of(path: str) -> str | None:
    """`jvm` or `ray` if a test of the file is marked so."""
    text = (REPOSITORY / path).read_text()
    return next((name for name in ("jvm", "ray") if f"pytest.mark.{name}" in text), None)


def data_folder() -> Path:
    return Path(os.environ.get("RAYPIPE_DATA") or REPOSITORY.parent / "shared" / "data")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """`-m gpu` imports tests/gpu alone: the others need packages that a bare machine lacks."""
    if config.option.markexpr.strip() != "gpu":
        return None
    within = collection_path.relative_to(REPOSITORY / "tests").parts[:1]
    return True if within not in ((), ("gpu",)) else None


@pytest.fixture(scope="session")
def raypipe_data() -> Path:
    """The folder of real collections; tests that need it are skipped where it is absent."""
    folder = data_folder()
    if not folder.is_dir():
        pytest.skip("RAYPIPE_DATA is not set and ../shared/data is not there")
    return folder


@pytest.fixture(scope="session")
def made_once(tmp_path_factory, request):
    """A function that gives what `make` gives, which one worker does for all."""
    from filelock import FileLock

    workers = hasattr(request.config, "workerinput")
    base = tmp_path_factory.getbasetemp()
    folder = base.parent if workers else base  # that of all workers is one above a worker's own

    def made(name, make):
        kept = folder / f"{name}.pickle"
        with FileLock(folder / f"{name}.lock"):
            if not kept.exists():
                beside = folder / f"{name}.made"
                beside.write_bytes(pickle.dumps(make()))
                beside.rename(kept)
        return pickle.loads(kept.read_bytes())

    return made


@pytest.fixture(scope="session")
def docs_draft(made_once):
    """What the standard library says of itself, before a size is chosen: seconds of reading."""
    from raypipe.data.python_docs.draft import drafted

    return made_once("docs-draft", drafted)


@pytest.fixture(scope="session")
def small_docs(docs_draft):
    """300 passages of python-docs."""
    from raypipe.data.python_docs.build import sized

    return sized(docs_draft, max_passages=300)


@pytest.fixture(scope="session")
def standard_docs(docs_draft):
    """python-docs as the quickstart has it."""
    from raypipe.data.python_docs.build import STANDARD_PASSAGES, sized

    return sized(docs_draft, max_passages=STANDARD_PASSAGES)


@pytest.fixture(scope="session")
def small_files(small_docs, tmp_path_factory) -> Path:
    """`small_docs` as files: passages.tsv, queries.test.tsv, qrels.test.txt."""
    from raypipe.data.python_docs.build import write_python_docs

    folder = tmp_path_factory.mktemp("small")
    write_python_docs(folder, small_docs)
    (folder / "collection.tsv").rename(folder / "passages.tsv")
    return folder


@pytest.fixture(scope="session")
def tiny():
    """The module that makes tiny models."""
    import tiny

    return tiny


@pytest.fixture(scope="session")
def tiny_model(tiny, tmp_path_factory) -> Path:
    """A seeded BERT of 2 layers as a model folder."""
    return tiny.make_tiny_bert(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="session")
def tiny_mono(tiny, tmp_path_factory) -> Path:
    """A seeded mono model of 2 layers."""
    return tiny.make_tiny_reranker(tmp_path_factory.mktemp("models") / "mono", seed=1)


@pytest.fixture(scope="session")
def tiny_duo(tiny, tmp_path_factory) -> Path:
    """A seeded duo model of 2 layers and three segment rows."""
    return tiny.make_tiny_reranker(tmp_path_factory.mktemp("models") / "duo", kind="duo", seed=2)


@pytest.fixture(scope="session")
def long_index(tmp_path_factory) -> Path:
    """Lucene's index of `long_collection`, whose segments were written several times."""
    from long_collection import build_long_index

    return build_long_index(tmp_path_factory.mktemp("order") / "index")


@pytest.fixture
def train():
    """A function that trains a recipe's file in OUT in this process and gives what is left."""
    from small_training import train

    return train


@pytest.fixture
def weights():
    """A function that gives the tensors of what was trained in OUT."""
    from small_training import weights

    return weights


@pytest.fixture
def small_recipe(small_files, tiny_model, tmp_path):
    """A function that writes a training recipe and gives its path; arguments change its keys."""
    from small_training import Recipes

    return Recipes(small_files, tiny_model, tmp_path).write


@pytest.fixture
def raypipe_cli():
    """`raypipe ARGUMENTS` in a child process: its completed process, output as text."""

    def run(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "raypipe", *map(str, arguments)]
        return subprocess.run(
            command,
            capture_output=True,
            text=True,
            cwd=REPOSITORY,
            env={**os.environ, **environment},
        )

    return run


@pytest.fixture
def raypipe_here():
    """The same in this process, which has what it imports: for what no process of its own tells."""
    from raypipe.cli.main import run

    def ran(*arguments: object) -> subprocess.CompletedProcess[str]:
        with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err:
            code, _ = run([str(argument) for argument in arguments])
        return subprocess.CompletedProcess(arguments, code, out.getvalue(), err.getvalue())

    return ran


@pytest.fixture(scope="session")
def _bucket_server():
    from bucket_server import BucketServer
    from s3fs import S3FileSystem

    server = BucketServer()
    S3FileSystem.clear_instance_cache()  # its connections are kept from test to test
    yield server
    S3FileSystem.clear_instance_cache()
    server.stop()


@pytest.fixture
def bucket_server(_bucket_server, monkeypatch, tmp_path):
    """An S3 server on this machine, where requests go while the test runs."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in _bucket_server.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("TMPDIR", str(tmp_path))  # copies of blobs, in child processes too
    monkeypatch.setattr("tempfile.tempdir", None)
    _bucket_server.forget()
    yield _bucket_server
    _bucket_server.forget()


@pytest.fixture
def bucket_uri(bucket_server) -> str:
    """The URI of a new bucket there."""
    name = f"bucket-{uuid.uuid4().hex}"
    bucket_server.make(name)
    bucket_server.forget()
    return f"s3://{name}"


@pytest.fixture(scope="session")
def nfcorpus(raypipe_data, tmp_path_factory) -> Path:
    """A workspace of NFCorpus in which BM25 has searched; later stages may be added to it."""
    out = tmp_path_factory.mktemp("nfcorpus") / "work"
    command = [sys.executable, "-m", "raypipe", "pipeline", "nfcorpus", "--out", str(out)]
    done = subprocess.run(
        [*command, "--until", "bm25", "resources.backend=inline"],
        capture_output=True,
        text=True,
        env={**os.environ, "RAYPIPE_DATA": str(raypipe_data)},
    )
    assert done.returncode == 0, done.stderr
    return out


@pytest.fixture(autouse=True, scope="module")
def _no_client_of_a_ray_that_ended():
    """A client whose head has gone ends its process a minute later, amid other tests."""
    yield
    ray = sys.modules.get("ray")
    if ray is not None and ray.is_initialized():
        ray.shutdown()
