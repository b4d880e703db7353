"""A pytest plugin: real collections, those that are given and those made here once for all."""

import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest


def data_folder() -> Path:
    return Path(os.environ.get("RAYPIPE_DATA") or Path(__file__).parents[3] / "shared" / "data")


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
    from raypipe.data.python_docs.build import drafted

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
def nfcorpus(raypipe_data, tmp_path_factory) -> Path:
    """A workspace of NFCorpus in which BM25 has searched; later stages may be added to it."""
    out = tmp_path_factory.mktemp("nfcorpus") / "work"
    command = [sys.executable, "-m", "raypipe", "pipeline", "nfcorpus", "--out", str(out)]
    done = subprocess.run(
        [*command, "--until", "bm25", "resources.backend=inline", "runs.tsv=true"],
        capture_output=True,
        text=True,
        env={**os.environ, "RAYPIPE_DATA": str(raypipe_data)},
    )
    assert done.returncode == 0, done.stderr
    return out
