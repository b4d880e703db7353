import shutil
import subprocess
import sys

import pytest
from small_invocation import Watching
from tiny_workspace import run

from raypipe.driver.invocation import invocation
from raypipe.driver.pipeline import Options, run_pipeline
from raypipe.driver.upkeep.status import open_workspace, status
from raypipe.driver.upkeep.verify import verify
from raypipe.driver.workspace import Workspace
from raypipe.errors import InputError, LimitError
from raypipe.storage.lease import acquire


def test_status_of_a_killed_invocation_is_3_and_of_a_running_one_0(root):
    work = open_workspace(root / "work")
    assert (status(root / "work").state, status(root / "work").exit_code) == ("complete", 0)
    work.write_summary({"status": "running", "exit": None, "run": "x"})
    assert (status(root / "work").state, status(root / "work").exit_code) == ("killed", 3)
    assert status(root / "work").cause == "killed"
    held = acquire(work.own, "lease.json")
    assert (status(root / "work").state, status(root / "work").exit_code) == ("running", 0)
    held.release()
    with pytest.raises(InputError, match="no workspace"):
        status(root / "nowhere")


def test_a_flipped_recipe_is_told_or_harmless_to_status_and_verify(tmp_path):
    """Every byte, three ways each: an error that names the file, or the stores are still found."""
    work = tmp_path / "w"
    with invocation(Workspace(work), "mine"):
        pass
    recipe = work / "recipe.yaml"
    good = b"format: 1\nname: mine\nstores: " + str(work / "stores").encode() + b"\n"
    refused = 0
    for position in range(len(good)):
        for flip in (0x01, 0x20, 0x80):
            changed = bytearray(good)
            changed[position] ^= flip
            recipe.write_bytes(changed)
            for act in (status, lambda folder: verify(open_workspace(folder))):
                try:
                    act(work)
                except InputError as error:
                    refused += 1
                    assert "recipe.yaml: " in str(error) or "stores: " in str(error)
    assert refused > len(good)


@pytest.mark.parametrize(
    "content", [b"a: [", b"\xff\xfe", b"- a", b"", b"a: " + b"[" * 5000, b"stores: [1]"]
)
def test_a_damaged_recipe_is_told_by_status_and_verify(tmp_path, content):
    with invocation(Workspace(tmp_path / "w"), "mine"):
        pass
    (tmp_path / "w" / "recipe.yaml").write_bytes(content)
    for act in (status, open_workspace):
        with pytest.raises(InputError, match=r"recipe\.yaml: .*run its recipe again"):
            act(tmp_path / "w")


def test_status_and_evaluate_load_nothing_heavy(root, small_files):
    code = (
        "import sys, raypipe.evaluation.exports\n"
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


@pytest.mark.parametrize("below", ["", "/work"])
def test_a_file_in_the_place_of_a_workspace_is_refused(small_files, tmp_path, below):
    (tmp_path / "taken").write_text("mine")
    with pytest.raises(InputError, match="taken.*: expected a folder, found the file"):
        run(small_files, tmp_path / f"taken{below}", tmp_path / "stores")
    assert (tmp_path / "taken").read_text() == "mine" and not (tmp_path / "stores").exists()


def test_status_tells_how_far_each_store_is(small_workspace, tmp_path):
    copied = shutil.copytree(small_workspace[0], tmp_path / "w", copy_function=shutil.copy2)
    found = status(copied)
    assert (found.state, found.exit_code, found.reason) == ("complete", 0, "complete")
    assert list(found.stores) == sorted(found.stores)
    assert set(map(str, found.stores.values())) == {"{'state': 'complete'}"}
    (manifest,) = (copied / "stores" / "vectors").glob("*/manifest.json")
    manifest.unlink()
    records = sorted(manifest.parent.glob("shards/*.json"))
    records[0].unlink()
    told = status(copied).stores["vectors"]
    assert (told["state"], told["shards"], told["done"]) == ("incomplete", 5, 4)
    assert (told["rows"], told["rows_done"]) == (5, 4)
    assert told["seconds_left"] == round(1 / told["rows_per_second"])
    (manifest.parent / "plan.json").unlink()
    assert status(copied).stores["vectors"] == {"state": "not planned"}
    open_workspace(copied).write_summary({"status": "failed", "exit": 5, "reason": "no space"})
    found = status(copied)
    assert (found.state, found.exit_code, found.reason) == ("failed", 5, "no space")
    assert (found.cause, found.age_seconds) == (None, None)
    (copied / "summary.json").unlink()
    with pytest.raises(InputError, match="no invocation has begun"):
        status(copied)
    for asks in (status, open_workspace):
        with pytest.raises(InputError, match="no workspace"):
            asks(tmp_path)


def test_stores_of_an_earlier_invocation_are_told_apart_while_the_next_one_works(
    invocable, raypipe_here
):
    folder, recipe = invocable
    out, seen = folder / "w", []

    def look(store):
        if store == "vectors":
            seen.append(status(out))

    run_pipeline(recipe, out, Options(), watcher=Watching())
    assert not any("earlier" in store for store in status(out).stores.values())
    with (folder / "passages.tsv").open("a") as file:
        file.write("p9\ta new passage\n")
    run_pipeline(recipe, out, Options(), watcher=Watching(look))
    assert seen and seen[0].state == "running"
    stores = seen[0].stores
    assert stores["dense.dev"] == {"state": "waiting", "earlier": True}
    assert stores["passages@collection"] == {"state": "complete"}
    at_work = stores["vectors"]
    assert at_work["state"] == "at work" and "earlier" not in at_work
    assert at_work["done"] == 1
    assert seen[-1].stores["vectors"]["rows_done"] == at_work["rows"] == 6
    found = status(out)
    assert not any("earlier" in store for store in found.stores.values())
    assert found.stores["queries@dev"] == {"state": "complete", "reused": True}
    assert found.stores["vectors"] == {"state": "complete"}
    run_pipeline(recipe, out, Options(until="vectors"), watcher=Watching())
    assert status(out).stores["dense.dev"] == {"state": "complete", "earlier": True}
    told = raypipe_here("status", out, "-v").stdout.splitlines()
    assert "  dense.dev: complete, of an earlier invocation" in told
    assert "  vectors: complete, reused" in told
    assert told[1].startswith("  began 20") and ", ended 20" in told[1]


def test_what_a_first_invocation_has_before_it_waits_and_was_not_begun_if_it_failed(invocable):
    folder, recipe = invocable
    out, seen = folder / "w", []

    def look(store):
        if store == "vectors":
            seen.append(status(out).stores)
            raise LimitError("enough")

    with pytest.raises(LimitError):
        run_pipeline(recipe, out, Options(), watcher=Watching(look))
    (stores,) = seen
    assert [name for name, told in stores.items() if told["state"] == "at work"] == ["vectors"]
    assert stores["dense.dev"] == stores["dense.all"] == {"state": "waiting"}
    found = status(out)
    assert found.exit_code == 5 and found.began <= found.ended
    assert found.stores["dense.dev"] == {"state": "not begun"}
    assert found.stores["vectors"]["state"] == "incomplete"
    run_pipeline(recipe, out, Options(), watcher=Watching())
    assert {told["state"] for told in status(out).stores.values()} == {"complete"}
    assert "plan" not in open_workspace(out).read_summary()
