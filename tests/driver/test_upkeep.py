"""status, verify, gc and evaluate on a small finished workspace."""

import json
import shutil
import subprocess
import sys
import time

import pytest
from watchers import Silent

from raypipe.config import load_recipe
from raypipe.driver.pipeline import Options, run_pipeline
from raypipe.driver.upkeep.export import export
from raypipe.driver.upkeep.gc import delete, find_garbage
from raypipe.driver.upkeep.status import open_workspace, status
from raypipe.driver.upkeep.verify import verify
from raypipe.errors import CorruptError, IncompleteError, InputError
from raypipe.storage.lease import acquire

RECIPE = """
format: 1
name: tiny
collection: {{format: msmarco-v1, input: {files}/passages.tsv}}
queries: {{test: {{file: {files}/queries.test.tsv}}}}
models: {{minilm: {{path: {model}}}}}
stages:
  embeddings: {{do: encode, model: minilm}}
  dense: {{do: search, index: embeddings, depth: 5}}
resources: {{backend: inline, device: cpu, shard_tokens: 6000}}
stores: {stores}
"""


MODEL: list[object] = []


@pytest.fixture(scope="session", autouse=True)
def model(tiny_model):
    """The recipe's model, for every test here but the one that needs time to be killed in."""
    MODEL[:] = [tiny_model]


def run(files, out, stores, *overrides):
    text = RECIPE.format(files=files, stores=stores, model=MODEL[0])
    recipe = load_recipe(text, overrides=overrides, source="tiny")
    return run_pipeline(recipe, out, Options(), watcher=Silent()).summary


@pytest.fixture(scope="session")
def finished(small_files, tmp_path_factory):
    root = tmp_path_factory.mktemp("finished")
    run(small_files, root / "work", root / "stores")
    return root


@pytest.fixture
def root(finished, tmp_path):
    """A copy of the finished workspace whose recipe names the copied stores."""
    copied = shutil.copytree(finished, tmp_path / "root", copy_function=shutil.copy2)
    recipe = copied / "work" / "recipe.yaml"
    recipe.write_text(recipe.read_text().replace(str(finished), str(copied)))
    return copied


def hashed_files(stores):
    told = ("attempts.jsonl", "lease.json", "refs", "nonce", "tmp")
    names = (p for p in sorted(stores.rglob("*")) if p.is_file())
    return [p for p in names if not any(word in str(p.relative_to(stores)) for word in told)]


def flip(path, position):
    data = bytearray(path.read_bytes())
    data[position % len(data)] ^= 1 << (position % 8)
    path.chmod(0o644)
    path.write_bytes(data)


def test_one_flipped_bit_in_any_file_is_found_and_its_file_named(root):
    work = open_workspace(root / "work")
    assert verify(work) == []
    files = hashed_files(root / "stores")
    assert len(files) > 30
    for number, path in enumerate(files):
        before = path.read_bytes()
        flip(path, 31 * number + 5)
        found = verify(open_workspace(root / "work"))
        assert found, path
        name = str(path.relative_to(root / "stores"))
        assert any(
            name in (d.name, *d.remedy.split())
            or d.name in name
            or name.startswith(d.remedy.split()[3])
            for d in found
        ), (name, found)
        path.write_bytes(before)


def test_a_damaged_payload_is_found_before_use_and_mended_by_the_remedy(root, small_files):
    work = open_workspace(root / "work")
    calm = {p: p.read_bytes() for p in hashed_files(root / "stores")}
    manifest = next((root / "stores" / "embeddings").glob("*/manifest.json"))
    sha256 = json.loads(manifest.read_text())["body"]["records"][0]["sha256"]
    flip(root / "stores" / "blobs" / sha256[:2] / sha256, 4000)
    with pytest.raises(CorruptError, match=sha256):
        run(small_files, root / "work", root / "stores", "stages.dense.depth=4")
    assert status(root / "work").exit_code == 3
    (damage,) = verify(work)
    doomed = [w.strip(",") for w in damage.remedy.split() if "/" in w]
    assert len(doomed) == 3
    for name in doomed:
        (root / "stores" / name).unlink()
    run(small_files, root / "work", root / "stores")
    assert verify(work) == []
    assert all(path.read_bytes() == data for path, data in calm.items())


def test_a_second_workspace_survives_the_first_ones_gc(root, small_files):
    first, second = root / "work", root / "second"
    run(small_files, second, root / "stores", "stages.dense.depth=3")
    run(small_files, first, root / "stores", "stages.dense.depth=2")
    work = open_workspace(first)
    assert find_garbage(work).names == []  # everything is younger than a day
    garbage = find_garbage(work, spared_seconds=-1)
    gone = {name.split("/")[1] for name in garbage.names if name.startswith("dense.test/")}
    assert len(gone) == 1  # depth 5: the first workspace left it, the second never had it
    delete(work, garbage)
    assert verify(open_workspace(second)) == [] and verify(work) == []
    assert all(
        s["reused"]
        for s in run(small_files, second, root / "stores", "stages.dense.depth=3")[
            "stages"
        ].values()
    )
    again = run(small_files, first, root / "stores")
    assert not again["stages"]["dense.test"]["reused"]


def test_gc_spares_what_a_live_lease_holds(root, small_files):
    run(small_files, root / "work", root / "stores", "stages.dense.depth=2")
    work = open_workspace(root / "work")
    (old,) = {
        n.split("/")[1]
        for n in find_garbage(work, spared_seconds=-1).names
        if n.startswith("dense.test/")
    }
    held = acquire(work.stores, f"dense.test/{old}/lease.json")
    names = find_garbage(work, spared_seconds=-1).names
    assert not [name for name in names if name.startswith(f"dense.test/{old}")]
    held.release()


def test_status_of_a_killed_invocation_is_3_and_of_a_running_one_0(root):
    work = open_workspace(root / "work")
    assert (status(root / "work").state, status(root / "work").exit_code) == ("complete", 0)
    work.write_summary({"status": "running", "exit": None, "run": "x"})
    assert (status(root / "work").state, status(root / "work").exit_code) == ("killed", 3)
    held = acquire(work.own, "lease.json")
    assert (status(root / "work").state, status(root / "work").exit_code) == ("running", 0)
    held.release()
    with pytest.raises(InputError, match="no workspace"):
        status(root / "nowhere")


def test_status_and_evaluate_load_nothing_heavy(root, small_files):
    code = (
        "import sys\n"
        "from raypipe.cli.main import run\n"
        "codes = [run(sys.argv[1:3])[0], run(['evaluate', *sys.argv[3:]])[0]]\n"
        "bad = {'torch', 'ray', 'transformers', 'jnius', 'faiss'} & set(sys.modules)\n"
        "sys.exit(f'{codes} {bad}' if bad or any(codes) else 0)"
    )
    arguments = ["status", root / "work", root / "work/runs/test/dense.trec"]
    arguments += ["--qrels", small_files / "qrels.test.txt"]
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "nDCG@10 (n=" in done.stdout


def test_a_driver_killed_in_the_night_reads_as_killed(root, small_files, raypipe_cli, tmp_path):
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(RECIPE.format(files=small_files, stores=tmp_path / "stores", model="minilm"))
    command = [
        sys.executable,
        "-m",
        "raypipe",
        "pipeline",
        str(recipe),
        "--out",
        str(tmp_path / "w"),
    ]
    driver = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob("stores/embeddings/*/shards/*")) and time.monotonic() < deadline:
        time.sleep(0.01)
    driver.kill()
    driver.wait()
    told = raypipe_cli("status", tmp_path / "w")
    assert told.returncode == 3
    assert told.stderr.splitlines()[-1].startswith("raypipe: exit 3")
    assert raypipe_cli("pipeline", recipe, "--out", tmp_path / "w").returncode == 0
    assert raypipe_cli("status", tmp_path / "w").returncode == 0
    assert not [p for p in tmp_path.rglob("tmp/*/*") if p.is_file()]


def test_a_deleted_spec_is_told_by_verify_and_written_anew(root, small_files):
    (spec,) = (root / "stores" / "embeddings").glob("*/spec.json")
    before = spec.read_bytes()
    spec.unlink()
    (damage,) = verify(open_workspace(root / "work"))
    assert damage.name.endswith("/spec.json") and damage.remedy.startswith("run again")
    with pytest.raises(IncompleteError, match=r"embeddings/\w+: its spec.json is gone"):
        export(root / "stores" / "embeddings", "numpy", root / "numpy")
    run(small_files, root / "work", root / "stores")
    assert spec.read_bytes() == before and verify(open_workspace(root / "work")) == []


def test_a_damaged_identity_of_a_workspace_is_told_without_a_remedy_that_loses_it(root):
    flip(root / "work" / "workspace.json", 9)
    with pytest.raises(CorruptError, match="nobody knows which stores are its own. Put the file"):
        open_workspace(root / "work")


def test_a_workspace_that_named_its_own_stores_by_their_path_can_be_moved(small_files, tmp_path):
    run(small_files, tmp_path / "work", tmp_path / "work" / "stores")
    (tmp_path / "work").rename(tmp_path / "moved")
    work = open_workspace(tmp_path / "moved")
    assert verify(work) == [] and len(work.refs()) > 5
    assert not (tmp_path / "work").exists()


@pytest.mark.parametrize("below", ["", "/work"])
def test_a_file_in_the_place_of_a_workspace_is_refused(small_files, tmp_path, below):
    (tmp_path / "taken").write_text("mine")
    with pytest.raises(InputError, match="taken.*: expected a folder, found the file"):
        run(small_files, tmp_path / f"taken{below}", tmp_path / "stores")
    assert (tmp_path / "taken").read_text() == "mine" and not (tmp_path / "stores").exists()
