"""What tests share: real data's folder, a small real collection, the command line as a child."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from raypipe.config import numerics

numerics.set_strict()  # before any product, as the command line does

REPOSITORY = Path(__file__).parent.parent


def data_folder() -> Path:
    return Path(os.environ.get("RAYPIPE_DATA") or REPOSITORY.parent / "shared" / "data")


@pytest.fixture(scope="session")
def raypipe_data() -> Path:
    """The folder of real collections; tests that need it are skipped where it is absent."""
    folder = data_folder()
    if not folder.is_dir():
        pytest.skip("RAYPIPE_DATA is not set and ../shared/data is not there")
    return folder


@pytest.fixture(scope="session")
def small_files(tmp_path_factory) -> Path:
    """300 passages of python-docs as files: passages.tsv, queries.test.tsv, qrels.test.txt."""
    from raypipe.data.python_docs import python_docs, write_python_docs

    folder = tmp_path_factory.mktemp("small")
    write_python_docs(folder, python_docs(max_passages=300))
    (folder / "collection.tsv").rename(folder / "passages.tsv")
    return folder


@pytest.fixture(scope="session")
def tiny():
    """The module that makes tiny models."""
    import importlib.util

    path = Path(__file__).parent / "models" / "tiny.py"
    spec = importlib.util.spec_from_file_location("tiny", path)
    assert spec is not None and spec.loader is not None
    tiny = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tiny)
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
            timeout=220,
        )

    return run
