"""Approximate indexes killed while they are built and searched: the bytes of a calm job."""

import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

KILLED, KILLS = 86, 8
CALLS = ("link", "replace", "fsync", "unlink", "write")
RECIPE = """
format: 1
name: near
collection: {{format: msmarco-v1, input: {folder}/passages.tsv}}
queries: {{test: {{file: {folder}/queries.tsv, exclude: {folder}/pairs.tsv}}}}
models: {{tiny: {{path: {model}}}}}
stages:
  embeddings: {{do: encode, model: tiny}}
  exact: {{do: search, index: embeddings, depth: 5}}
  graph: {{do: ann, embeddings: embeddings, hnsw: {{links: 4, ef_construction: 20}}}}
  lists: {{do: ann, embeddings: embeddings, ivf_pq: {{lists: 4, code_bytes: 2}}}}
  near: {{do: search, index: graph, depth: 5, ann: {{refine: 2}}}}
  listed: {{do: search, index: lists, depth: 5, ann: {{refine: 2, probes: 2}}}}
resources: {{backend: inline, device: cpu, threads: 1, shard_rows: 20, shard_queries: 3}}
"""


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.fault(
    2, "graphs, lists and searches of both, killed 8 times: the indexes and runs of a calm job"
)
def test_killed_indexes_and_searches_leave_the_bytes_of_a_calm_job(tiny_model, tmp_path):
    """In an interpreter of its own, whose forks are killed: none has computed before.

    Unfinished files of a store that is published all the same are left to gc.
    """
    texts = [f"the lease of shard {row} ranks a zebra" for row in range(60)]
    lines = [f"p{row}\t{text}\n" for row, text in enumerate(texts)]
    (tmp_path / "passages.tsv").write_text("".join(lines))
    (tmp_path / "queries.tsv").write_text("".join(f"q{row}\tzebra {row}\n" for row in range(7)))
    (tmp_path / "pairs.tsv").write_text("".join(f"q{row % 3} p{row}\n" for row in range(30)))
    (tmp_path / "recipe.yaml").write_text(RECIPE.format(folder=tmp_path, model=tiny_model))
    helpers = Path(__file__).parents[3] / "helpers"
    environment = {**os.environ, "PYTHONPATH": f"{helpers.parent.parent}:{helpers}"}
    command = [sys.executable, __file__, tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]


def in_child(folder: Path, *more: str, at: int = 0) -> int:
    """The pipeline in a fork, whose `at`-th file system call is its last; its exit code."""
    from raypipe.cli.main import run

    if (pid := os.fork()) == 0:
        count = arm(at)
        recipe, out = folder / "recipe.yaml", folder / "out"
        code, _ = run(["pipeline", str(recipe), "--out", str(out), *more])
        (folder / "count").write_text(str(count[0]))
        os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def arm(at: int) -> list[int]:
    """Make the `at`-th of the file system calls this process's last, done or not done."""
    count = [0]

    def wrap(original):
        def call(*arguments, **options):
            count[0] += 1
            if count[0] == at and at % 2:
                os._exit(KILLED)
            result = original(*arguments, **options)
            if count[0] == at:
                os._exit(KILLED)
            return result

        return call

    for name in CALLS:
        setattr(os, name, wrap(getattr(os, name)))
    return count


def kill_and_compare(folder: Path) -> None:
    from killed_jobs import durable_bytes

    import raypipe.engines.ann
    import raypipe.engines.exact  # noqa: F401

    out, kept = folder / "out", folder / "kept"
    assert in_child(folder, "--until", "exact") == 0
    shutil.copytree(out, kept)
    assert in_child(folder) == 0
    calm = durable_bytes(out)
    calls = int((folder / "count").read_text()) * 9 // 10  # their number varies by a few
    for number in range(KILLS):
        shutil.rmtree(out)
        shutil.copytree(kept, out)
        low, high = (calls * part // KILLS for part in (number, number + 1))
        at = random.Random(number).randrange(low, high) + 1
        assert in_child(folder, at=at) == KILLED
        print(f"killed at call {at} of {calls}: {len(durable_bytes(out))} of {len(calm)} files")
        assert in_child(folder) == 0
        found = durable_bytes(out)
        differ = {n for n in found.keys() | calm.keys() if found.get(n) != calm.get(n)}
        differ = {n for n in differ if not n.startswith(("stores/nonce/", "stores/tmp/"))}
        assert not differ, f"killed at call {at}: {sorted(differ)}"


if __name__ == "__main__":
    kill_and_compare(Path(sys.argv[1]))
