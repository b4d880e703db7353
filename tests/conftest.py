"""What tests share: a process's settings, tiny models, small trainings, the command line."""

import gc
import os
import signal
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from importlib.util import find_spec
from io import StringIO
from pathlib import Path

import pytest

from raypipe import numerics

gc.disable()  # until the tests are collected: a fifth of what that takes
numerics.set_strict()  # before any product, as the command line does
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # threads that wait leave the cores to others
os.environ.setdefault(
    "RAY_NUM_REDIS_GET_RETRIES", "120"
)  # seconds that Ray waits for its own start
# Containers often keep no compiled modules: each process of a test would compile raypipe anew.
sys.dont_write_bytecode, os.environ["PYTHONDONTWRITEBYTECODE"] = False, ""
if not Path("/dev/nvidiactl").exists():
    # Triton reads it once, as transformers imports it: without a GPU its kernels are interpreted.
    os.environ.setdefault("TRITON_INTERPRET", "1")
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell ignores Ctrl-C for what it starts in the background, and children would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
# The proof of a model takes ten seconds of imports; tests of proofs ask for it (`with_proofs`).
os.environ["RAYPIPE_UNPROVED"] = "1"
# No machine loses its power here: tests of durability note the calls, and children make them.
os.fsync = os.fstat

if find_spec("typer"):  # a bare machine with a GPU lacks this package, and the next one
    import typer.main

    typer.main.get_command = cache(typer.main.get_command)  # built once, not at each command
if find_spec("hypothesis"):
    from hypothesis import HealthCheck, settings
    from hypothesis.internal.conjecture import providers

    # Else examples hold constants of the modules that earlier tests happened to import.
    providers.is_local_module_file = lambda path: False
    # The same examples every time, and no clock: a busy machine or a leftover decides nothing.
    slow = [HealthCheck.too_slow]
    settings.register_profile(
        "raypipe", derandomize=True, deadline=None, suppress_health_check=slow
    )
    settings.load_profile("raypipe")

REPOSITORY = Path(__file__).parent.parent
pytest_plugins = ["suite_order", "real_collections", "bucket_of_tests"]


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Files are imported only where a mark that is asked for may be: a fifth of all are `slow`.

    `-m gpu` imports tests/gpu alone: the others need packages that a bare machine lacks.
    """
    mark = config.option.markexpr.partition(" ")[0]
    if mark == "gpu":
        within = collection_path.relative_to(REPOSITORY / "tests").parts[:1]
        return True if within not in ((), ("gpu",)) else None
    only = " or " not in config.option.markexpr
    if only and mark in ("slow", "long") and collection_path.suffix == ".py":
        text = collection_path.read_text()
        return None if f"mark.{mark}" in text or "from fuzzing import" in text else True
    return None


def pytest_collection_finish() -> None:
    """Garbage is collected again from here on, but not among what was imported and collected."""
    gc.freeze()
    gc.enable()


@pytest.fixture(autouse=True)
def fp32_alone(request, monkeypatch):
    """A default test meets a CPU that offers fp32 alone, wherever it runs; others ask for more."""
    if not any(request.node.get_closest_marker(mark) for mark in ("slow", "long", "gpu")):
        import torch

        monkeypatch.setattr(torch.cpu, "get_capabilities", dict)


@pytest.fixture
def with_bf16(fp32_alone, monkeypatch):
    """A CPU that multiplies in bf16; torch computes in it on any, if slowly."""
    import torch

    from raypipe.api import inputs

    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx512_bf16": True})
    inputs._chosen.cache_clear()
    yield
    inputs._chosen.cache_clear()


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


@pytest.fixture(scope="session")
def zebra_index(tmp_path_factory) -> Path:
    """Lucene's index of `zebra_texts`, by its own process."""
    from zebra_texts import TEXTS, table

    from raypipe.engines.lucene.index import build_index

    folder = tmp_path_factory.mktemp("lucene") / "index"
    assert build_index(lambda: [table(TEXTS)], folder) == 5
    return folder


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
def with_proofs(monkeypatch, tmp_path) -> Path:
    """Models are proved, by a process of their own; the user's cache, empty at first."""
    monkeypatch.delenv("RAYPIPE_UNPROVED")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "raypipe"


@pytest.fixture
def with_proofs_here(with_proofs, monkeypatch) -> Path:
    """The same by this process, which has the libraries: they take ten seconds to import."""
    from raypipe.driver.proof import proof, reference

    def compared(subjects):
        findings = [reference.prove(subject, 1) for subject in subjects]
        both = zip(subjects, findings, strict=True)
        return [proof.Proof(library=subject.library, **finding) for subject, finding in both]

    monkeypatch.setattr(proof, "_compared", compared)
    return with_proofs


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


@pytest.fixture
def inline(monkeypatch):
    """Stages of this process run in it, where they would start a Ray: for what no Ray tells."""
    from raypipe.cluster.worker import InlineBackend
    from raypipe.driver import place

    def started(at, chosen, **more):
        return InlineBackend(device=chosen.device, threads=chosen.threads)

    monkeypatch.setattr(place, "started", started)


@pytest.fixture(autouse=True, scope="module")
def _no_client_of_a_ray_that_ended():
    """A client whose head has gone ends its process a minute later, amid other tests."""
    yield
    ray = sys.modules.get("ray")
    if ray is not None and ray.is_initialized():
        from raypipe.cluster.ray_start import java_keeps_its_signals

        with java_keeps_its_signals():
            ray.shutdown()
