"""Every kind of stage, killed at its first shard or behind it, or before it is published."""

import json
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
import yaml
from killed_jobs import durable_bytes
from small_documents import recipe_of, write_inputs

from raypipe.config.load import load_recipe
from raypipe.kinds.registry import KINDS

KILLED = 86
MORE = """
graph: {do: ann, embeddings: embeddings, hnsw: {links: 4, ef_construction: 20}}
lists: {do: ann, embeddings: embeddings, ivf_pq: {lists: 4, code_bytes: 2}}
narrow: {do: truncate, embeddings: embeddings, dims: 8}
near: {do: search, index: graph, depth: 5, ann: {refine: 2}}
listed: {do: search, index: lists, depth: 5, ann: {refine: 2, probes: 2}}
duo: {do: score, run: mono, model: duo, k1: 3}
duo-sum: {do: aggregate, pairs: duo, method: sum}
"""
PLACES = BEFORE, AFTER, UNPUBLISHED = "before its first shard", "after it", "before its manifest"


@pytest.mark.slow
@pytest.mark.fault(2, "each store of every kind but Lucene's, killed: the files of a calm job")
def test_a_job_killed_in_every_stage_leaves_the_bytes_of_a_calm_one(
    tiny_model, tiny_mono, tiny_duo, tmp_path
):
    """In an interpreter of its own, whose forks are killed: none has computed before."""
    write_inputs(tmp_path)
    body = recipe_of(tmp_path, tiny_model, tiny_mono)
    body["stages"] |= yaml.safe_load(MORE)
    body["models"]["duo"] = {"path": str(tiny_duo)}
    body["resources"] |= {"threads": 1, "shard_rows": 10}
    (tmp_path / "recipe.yaml").write_text(yaml.safe_dump(body, sort_keys=False))
    stages = load_recipe(tmp_path / "recipe.yaml").stages
    assert {stage.do for stage in stages.values()} == {*KINDS} - {"index"}
    helpers = Path(__file__).parents[2] / "helpers"
    environment = {**os.environ, "PYTHONPATH": f"{helpers.parent.parent}:{helpers}"}
    command = [sys.executable, __file__, tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    kills = json.loads(done.stdout.splitlines()[-1])
    told = {kill.partition(" ")[0].partition(".")[0] for kill in kills}
    assert {*body["stages"]} <= told, "each stage's store is among them"


def run_in_child(folder: Path, out: Path, store: str = "", place: str = "") -> int:
    """The exit code of the pipeline in a fork, which dies at a place of a store."""
    from raypipe.cli.main import run

    if (pid := os.fork()) == 0:
        reached: list[str] = []

        def hook(event: str, arguments: tuple[object, ...]) -> None:
            if event == "open" and not (isinstance(arguments[2], int) and arguments[2] & 3):
                return  # to be read
            if event not in ("open", "os.link", "os.rename"):
                return
            if reached:
                os._exit(KILLED)
            last = "manifest.json" if place == UNPUBLISHED else "/shards/"
            for path in [name for name in arguments if isinstance(name, str)]:
                if f"/stores/{store}/" in path and last in path:
                    if place != AFTER:
                        os._exit(KILLED)
                    reached.append(path)

        if store:
            sys.addaudithook(hook)
        code, _ = run(["pipeline", str(folder / "recipe.yaml"), "--out", str(out)])
        if not store:
            (folder / "modules").write_text(json.dumps([*sys.modules]))
        os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def kill_and_compare(folder: Path) -> None:
    calm, out = folder / "calm", folder / "out"
    assert run_in_child(folder, calm) == 0
    for name in json.loads((folder / "modules").read_text()):
        if name.startswith("raypipe."):
            import_module(name)  # once, and not in each child
    expected = durable_bytes(calm)
    manifests = sorted((calm / "stores").glob("*/*/manifest.json"), key=lambda p: p.stat().st_mtime)
    kills = []
    for number, store in enumerate(path.parent.parent.name for path in manifests):
        place = PLACES[number % 3]
        code = run_in_child(folder, out, store, place)
        assert code == KILLED, f"{store} {place}: {code}"
        kills.append(f"{store} {place}")
    assert run_in_child(folder, out) == 0
    found = durable_bytes(out)
    changed = {n for n in found.keys() | expected.keys() if found.get(n) != expected.get(n)}
    changed = {n for n in changed if not n.startswith(("stores/nonce/", "stores/tmp/"))}
    assert not changed, sorted(changed)
    print(json.dumps(kills))


if __name__ == "__main__":
    kill_and_compare(Path(sys.argv[1]))
