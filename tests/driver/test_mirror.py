"""Workspaces in a bucket: `--out s3://...`, on one machine and then on another."""

import json
from threading import Thread

import pytest
from recipes import dense

import raypipe
from raypipe.cli.main import run
from raypipe.driver.mirror import copy_out, mirror_of, write_out
from raypipe.driver.verbs.single_stage import recipe_of, search_stage
from raypipe.storage.bucket import BucketStorage
from raypipe.storage.lease import acquire
from raypipe.storage.records import digest

INPUTS = {
    "passages.tsv": "a\tthe zebra\nb\ta lease\nc\tof shards\n",
    "queries.tsv": "1\tthe zebra\n2\ta lease\n",
    "qrels.txt": "1 0 a 1\n2 0 b 1\n",
}


@pytest.fixture
def recipe(bucket_uri, bucket_server, tiny_model, tmp_path, monkeypatch):
    """A recipe whose collection, queries and judgements are in the bucket."""
    place = BucketStorage(f"{bucket_uri}/data")
    for name, text in INPUTS.items():
        place.replace(name, text.encode())
    path = tmp_path / "tiny.yaml"
    path.write_text(dense(f"{bucket_uri}/data", tiny_model, depth=2, judged=True))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "one machine"))
    return str(path)


def outputs(own):
    names = {"table.md", *(n for n in own.names("") if n.split("/")[0] in ("runs", "measures"))}
    return {name: own.read(name) for name in names}


@pytest.mark.slow
def test_a_workspace_in_a_bucket_is_resumed_and_read_on_another_machine(
    recipe, bucket_uri, tmp_path, monkeypatch, capsys
):
    uri = f"{bucket_uri}/work"
    assert run(["pipeline", recipe, "--out", uri]) == (0, "complete")
    own = BucketStorage(uri)
    first = outputs(own)
    assert any(name.startswith("runs/test/dense") for name in first)
    assert json.loads(own.read("summary.json"))["status"] == "complete"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "another machine"))
    for verb in ("status", "verify", "gc"):
        assert run([verb, uri])[0] == 0, verb
    capsys.readouterr()
    assert run(["pipeline", recipe, f"--out={uri}", "stages.dense.depth=1", "--json"])[0] == 0
    told = json.loads(capsys.readouterr().out)
    assert told["stages"]["vectors"]["reused"] and not told["stages"]["dense.test"]["reused"]
    changed = outputs(own)
    assert {n for n in first if changed[n] != first[n]} >= {"runs/test/dense.trec"}
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "one machine"))
    assert run(["pipeline", recipe, "--out", uri])[0] == 0
    assert outputs(own) == first


@pytest.mark.slow
def test_results_leave_a_bucket_before_their_files_change_and_come_after_them(
    recipe, bucket_uri, monkeypatch
):
    uri, calls = f"{bucket_uri}/work", []
    replace, delete = BucketStorage.replace, BucketStorage.delete

    def noting(act, how):
        def noted(storage, name, *data):
            if storage.uri == uri:
                calls.append((how, name))
            return act(storage, name, *data)

        return noted

    monkeypatch.setattr(BucketStorage, "replace", noting(replace, "put"))
    monkeypatch.setattr(BucketStorage, "delete", noting(delete, "delete"))
    for depth in (2, 1):
        calls.clear()
        assert run(["pipeline", recipe, f"--out={uri}", f"stages.dense.depth={depth}"])[0] == 0
        away, there = (calls.index((how, "results.json")) for how in ("delete", "put"))
        files = [n for n, call in enumerate(calls) if call[1].startswith(("runs/", "recipe.yaml"))]
        ended = max(n for n, call in enumerate(calls) if call == ("put", "summary.json"))
        assert len(files) >= 2 and away < min(files) and max(files) < there < ended
    own = BucketStorage(uri)
    written = [json.loads(own.read(name)) for name in ("results.json", "summary.json")]
    assert [each.pop("status") for each in written] == ["complete"] * 2
    assert written[0] == written[1] | {"sha256": written[0]["sha256"]}
    assert written[0]["files"]["runs/test/dense.trec"] == digest(own.read("runs/test/dense.trec"))


@pytest.mark.slow
@pytest.mark.parametrize(
    "machine", [pytest.param("one machine", marks=pytest.mark.long), "another machine"]
)
def test_files_of_runs_that_a_recipe_writes_no_longer_leave_the_bucket(
    recipe, bucket_uri, tmp_path, monkeypatch, machine
):
    uri = f"{bucket_uri}/work"
    assert run(["pipeline", recipe, "--out", uri, "runs.tsv=true"])[0] == 0
    own, kept = BucketStorage(uri), {"runs/test/dense.trec"}
    assert set(own.names("runs")) == kept | {"runs/test/dense.tsv"}
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / machine))
    assert run(["pipeline", recipe, "--out", uri])[0] == 0
    assert set(own.names("runs")) == kept


@pytest.mark.slow
@pytest.mark.fault(13, "a workspace in a bucket has one holder: exit 4")
def test_a_workspace_in_a_bucket_has_one_holder_and_says_how_it_ended(
    recipe, bucket_uri, tmp_path, capsys
):
    uri = f"{bucket_uri}/work"
    assert run(["status", uri])[0] == 2
    assert f"{uri}: no workspace" in capsys.readouterr().err
    lease = acquire(BucketStorage(uri), "lease.json")
    assert run(["pipeline", recipe, "--out", uri])[0] == 4
    lease.release()
    assert run(["pipeline", recipe, "--out", uri, "--until", "vectors"])[0] == 0
    assert run(["pipeline", recipe, "--out", uri, "stages.dense.depht=3"])[0] == 2
    assert json.loads(BucketStorage(uri).read("summary.json"))["exit"] == 2


@pytest.mark.slow
def test_commands_and_functions_read_a_workspace_in_a_bucket(
    recipe, bucket_uri, tmp_path, monkeypatch
):
    uri = f"{bucket_uri}/work"
    assert run(["reindex", recipe, "--out", uri])[0] == 0
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "another machine"))
    search = recipe_of(search_stage(mirror_of(uri), tmp_path / "queries.tsv", None, depth=2))
    assert (search.stores, search.collection.input) == (
        f"{uri}/stores", (f"{bucket_uri}/data/passages.tsv",),
    )  # fmt: skip
    with raypipe.open_index(uri) as index:
        found = index.search(["the zebra"], depth=1)
        assert found["passage_id"].to_pylist() == ["a"] and index.number == 1


def test_a_command_beside_a_working_one_puts_no_older_file_in_its_place(
    bucket_uri, bucket_server, tmp_path, monkeypatch
):
    """Both use one mirror, since they are on one machine."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    own = BucketStorage(f"{bucket_uri}/work")
    names = ("summary.json", "recipe.yaml")
    for name in names:
        own.replace(name, b"old")
    folder = mirror_of(own.uri)
    read, writers = BucketStorage.read, []

    def read_while_written(storage, name):
        found = read(storage, name)
        if name in names and len(writers) < len(names):
            writers.append(Thread(target=write_out, args=(folder, name, b"new")))
            writers[-1].start()
            writers[-1].join(0.2)
        return found

    monkeypatch.setattr(BucketStorage, "read", read_while_written)
    assert mirror_of(own.uri) == folder
    for writer in writers:
        writer.join()
    copy_out(folder)
    assert [own.read(name) for name in names] == [b"new", b"new"]
    assert [(folder / name).read_bytes() for name in names] == [b"new", b"new"]


def test_what_a_killed_process_left_half_written_is_not_copied_to_the_bucket(
    bucket_uri, bucket_server, tmp_path, monkeypatch
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    own = BucketStorage(f"{bucket_uri}/work")
    folder = mirror_of(own.uri)
    (folder / "runs").mkdir()
    for name in ("runs/dense.trec", "runs/dense.trec.tmp", "table.md.tmp"):
        (folder / name).write_text("x")
    copy_out(folder)
    assert [name for name in own.names("") if not name.startswith("lease")] == ["runs/dense.trec"]
