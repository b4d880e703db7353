import json
import signal
from contextlib import nullcontext
from pathlib import Path

import pytest
from small_invocation import Watching
from watchers import Silent

from raypipe.cli.main import run as run_command
from raypipe.config import load_recipe, sweep_points
from raypipe.driver.invocation import invocation
from raypipe.driver.mirror import mirror_of
from raypipe.driver.pipeline import Options, run_pipeline
from raypipe.driver.sweep.state import read_sweep
from raypipe.driver.sweep.sweep import run_sweep
from raypipe.driver.upkeep.gc import find_garbage
from raypipe.driver.upkeep.status import open_workspace, status
from raypipe.driver.upkeep.verify import verify
from raypipe.errors import InputError, Interrupted, RefusedError
from raypipe.report.finished import open_finished
from raypipe.storage import copies
from raypipe.storage.bucket import BucketStorage

GRID = ("stages.mono.k0=[2, 4]", "stages.both.k=[1]")
NAMES = [f"stages.mono.k0={k0},stages.both.k=1" for k0 in (2, 4)]


def sweep(text, out, *overrides, options=Options(), watcher=None):  # noqa: B008
    points = sweep_points(text, overrides=overrides)
    return run_sweep(points, out, options, watching=lambda: nullcontext(watcher or Silent()))


def outputs(folder):
    """The runs, measures and table of a workspace."""
    kept = [folder / "table.md", *folder.glob("runs/*/*"), *folder.glob("measures/*")]
    return {str(path.relative_to(folder)): path.read_bytes() for path in kept}


def without_costs(found):
    """The table has times, and what was computed for a system depends on what is stored."""
    return {name: data for name, data in found.items() if name != "table.md"}


@pytest.fixture(scope="module")
def whole(reranked, tmp_path_factory):
    """A finished sweep of two points."""
    out = tmp_path_factory.mktemp("whole") / "w"
    return out, sweep(reranked, out, *GRID)


def test_each_point_has_the_bytes_of_its_recipe_run_apart(whole, reranked, tmp_path):
    out, found = whole
    assert [path.name for path in sorted((out / "points").iterdir())] == sorted(NAMES)
    assert list(found.outcomes) == NAMES
    for number, name in enumerate(NAMES):
        recipe = load_recipe(reranked, overrides=name.split(","))
        apart = tmp_path / str(number)
        run_pipeline(recipe, apart, Options(), watcher=Silent())
        own = outputs(out / "points" / name)
        assert len(own) == 1 + 4 + 1
        assert without_costs(own) == without_costs(outputs(apart))


def test_nothing_is_computed_twice(whole, reranked):
    out, found = whole
    assert not [*out.glob("points/*/stores")]
    scored = [json.loads(path.read_text()) for path in out.glob("stores/scores@*/*/manifest.json")]
    rows = [record["facts"]["rows"] for each in scored for record in each["body"]["records"]]
    assert sum(rows) == 3 * 4  # three queries, the larger k0
    watcher = Watching()
    again = sweep(reranked, out, *GRID, watcher=watcher)
    assert {told[0] for told in watcher.told} == {"ended"} and all(t[3] for t in watcher.told)
    assert (again.table, again.sweep) == (found.table, found.sweep)


def test_a_longer_list_goes_on_with_the_points_that_are_there(swept, tmp_path):
    sweep(swept, tmp_path / "w", "stages.both.k=[2]")
    watcher = Watching()
    found = sweep(swept, tmp_path / "w", "stages.both.k=[3, 2]", watcher=watcher)
    assert [row.values["stages.both.k"] for row in found.sweep.rows[::3]] == [3, 2]
    assert [told[1] for told in watcher.told if told[0] == "began"] == ["both.dev"]
    assert sum(told[0] == "ended" for told in watcher.told) == 2 * 7


def test_the_table_and_the_file_have_a_line_for_each_point_and_system(whole):
    out, found = whole
    body = json.loads((out / "sweep.json").read_text())
    assert body == found.sweep.to_json() and body["keys"] == ["stages.mono.k0", "stages.both.k"]
    assert list(body["points"]) == NAMES
    told = [(r["point"], r["query_set"], r["system"], r["n"]) for r in body["rows"]]
    systems = ("given", "other", "mono", "both")
    assert told == [(name, "dev", system, 2) for name in NAMES for system in systems]
    for row in body["rows"]:
        summary = json.loads((out / "points" / row["point"] / "summary.json").read_text())
        assert row["measures"] == summary["measures"]["dev"][row["system"]]
        reranked = row["system"] in ("mono", "both")
        expected = row["values"]["stages.mono.k0"] if reranked else None
        assert row["inferences_per_query"] == expected
        told = summary["systems"]["dev"][row["system"]]
        assert row["ms_per_query"] == told["ms_per_query"]
    assert (out / "sweep.md").read_text() == found.table
    assert found.table.count("\n| 2 ") == found.table.count("\n| 4 ") == 4


def test_upkeep_of_the_folder_sees_every_point(whole):
    out, _ = whole
    found = status(out)
    assert (found.state, found.exit_code, list(found.points)) == ("complete", 0, NAMES)
    assert all(point["state"] == "complete" for point in found.points.values())
    work = open_workspace(out)
    assert verify(work) == [] and find_garbage(work, spared_seconds=-1).names == []
    told = f"found a sweep; name one of its points, such as .*{NAMES[0]}"
    with pytest.raises(InputError, match=told):
        open_finished(out)
    assert open_finished(out / "points" / NAMES[1]).query_sets == ["dev"]


def test_damage_of_a_point_is_told_with_its_name(swept, tmp_path):
    sweep(swept, tmp_path / "w", "stages.both.k=[1, 2]")
    point = tmp_path / "w" / "points" / "stages.both.k=2"
    (point / "runs" / "dev" / "both.trec").write_text("other")
    (blob, *_) = (tmp_path / "w" / "stores").glob("both.dev/*/manifest.json")
    blob.write_bytes(blob.read_bytes()[:-9])
    names = {damage.name for damage in verify(open_workspace(tmp_path / "w"))}
    expected = {
        "points/stages.both.k=2/runs/dev/both.trec",
        f"both.dev/{blob.parent.name}/manifest.json",
    }
    assert names == expected
    (point / "summary.json").unlink()
    names = {damage.name for damage in verify(open_workspace(tmp_path / "w"))}
    assert "points/stages.both.k=2/summary.json" in names


def test_a_point_that_fails_ends_the_sweep_and_is_named(swept, tmp_path):
    class Failing(Silent):
        def ended(self, name, result):
            if str(name) == "both.dev" and not result.reused:
                seen.append(name)
                if len(seen) == 2:
                    raise RefusedError("enough")

    seen = []
    out = tmp_path / "w"
    with pytest.raises(RefusedError, match="enough") as ended:
        sweep(swept, out, "stages.both.k=[1, 2, 3]", watcher=Failing())
    name = "stages.both.k=2"
    assert ended.value.__notes__ == [f"in point 2 of 3: {out}/points/{name}"]
    found = status(out)
    assert (found.state, found.exit_code, found.reason) == ("failed", 4, "enough")
    states = [(p["state"], p["exit_code"]) for p in found.points.values()]
    assert states == [("complete", 0), ("failed", 4), ("not begun", None)]
    assert {row.point for row in read_sweep(out).rows} == {"stages.both.k=1"}
    assert json.loads((out / "summary.json").read_text())["point"] == name
    sweep(swept, out, "stages.both.k=[1, 2, 3]")
    assert status(out).exit_code == 0


def test_status_tells_what_the_running_point_is_at(swept, tmp_path):
    out, seen = tmp_path / "w", []
    names = [f"stages.both.k={k}" for k in (1, 2, 3)]
    watcher = Watching(lambda store: seen.append((store, status(out))))
    sweep(swept, out, "stages.both.k=[1, 2, 3]", watcher=watcher)
    told = [found for store, found in seen if store == "both.dev"][1]
    assert told.state == "running" and list(told.points) == names
    first, second, third = told.points.values()
    assert first == {"state": "complete", "exit_code": 0, "reason": "complete"}
    assert second["state"] == "running" and list(second["at_work"]) == ["both.dev"]
    assert second["at_work"]["both.dev"]["rows"] == 3
    assert third == {"state": "not begun", "exit_code": None, "reason": None}


def test_a_signal_ends_the_sweep_between_its_points_too(swept, tmp_path):
    class Ended(Silent):
        def __exit__(self, *how):
            signal.raise_signal(signal.SIGTERM)

        def __enter__(self):
            return self

    points = sweep_points(swept, overrides=["stages.both.k=[1, 2]"])
    with pytest.raises(Interrupted):
        run_sweep(points, tmp_path / "w", Options(), watching=Ended)
    assert status(tmp_path / "w").exit_code == 143
    assert [p["state"] for p in status(tmp_path / "w").points.values()] == ["complete", "not begun"]


def test_every_point_is_checked_before_the_first_one_begins(reranked, tmp_path, tiny_model):
    out = tmp_path / "w"
    overrides = ["stages.given.runs.dev=[a.trec, b.trec]", "models.mono.path=[minilm, nowhere]"]
    with pytest.raises(InputError) as refused:
        sweep(reranked, out, *overrides)
    told = refused.value.problems
    assert len(told) == 3 and not out.exists()
    assert all(any(name in each for each in told) for name in ("a.trec", "b.trec", "nowhere"))
    with pytest.raises(InputError, match="found an encoder") as refused:
        sweep(reranked, out, f"models.mono.path=[{tiny_model}]", "stages.both.k=[1, 2]")
    assert len(refused.value.problems) == 1
    with pytest.raises(InputError, match="no stage 'mno'"):
        sweep(reranked, out, *GRID, options=Options(until="mno"))
    assert not out.exists()


def test_a_sweep_and_a_single_recipe_keep_out_of_each_others_folders(whole, swept, tmp_path):
    recipe = load_recipe(swept)
    with pytest.raises(InputError, match="the folder of a sweep; .* With stores=.*/w/stores "):
        run_pipeline(recipe, whole[0], Options(), watcher=Silent())
    run_pipeline(recipe, tmp_path / "single", Options(until="given"), watcher=Silent())
    with pytest.raises(InputError, match="the workspace of a single recipe; .*single/stores "):
        sweep(swept, tmp_path / "single", "stages.both.k=[1, 2]")
    assert status(whole[0]).exit_code == status(tmp_path / "single").exit_code == 0


def test_the_stores_that_the_recipe_names_are_those_of_every_point(swept, tmp_path):
    text = f"{swept}stores: {tmp_path}/shared\n"
    sweep(text, tmp_path / "w", "stages.both.k=[1, 2]", options=Options(until="given"))
    assert (tmp_path / "shared" / "given.dev").is_dir()
    assert not (tmp_path / "w" / "stores").exists()
    for folder in (tmp_path / "w", tmp_path / "w" / "points" / "stages.both.k=1"):
        assert open_workspace(folder).stores.uri == str(tmp_path / "shared")
    assert verify(open_workspace(tmp_path / "w")) == []


def test_one_sweep_works_in_a_folder_at_a_time(swept, tmp_path):
    sweep(swept, tmp_path / "w", "stages.both.k=[1]", options=Options(until="given"))
    work = open_workspace(tmp_path / "w")
    with invocation(work, "other"), pytest.raises(RefusedError):
        sweep(swept, tmp_path / "w", "stages.both.k=[1]")


def test_a_moved_sweep_goes_on_as_it_was(swept, tmp_path):
    named = f"{swept}stores: {tmp_path}/w/stores\n"  # as if it were not named
    assert sweep(named, tmp_path / "w", "stages.both.k=[1, 2]").sweep.stores is None
    (tmp_path / "w").rename(tmp_path / "moved")
    assert status(tmp_path / "moved").exit_code == 0
    assert verify(open_workspace(tmp_path / "moved")) == []
    point = tmp_path / "moved" / "points" / "stages.both.k=2"
    assert {told["state"] for told in status(point).stores.values()} == {"complete"}
    assert verify(open_workspace(point)) == []
    assert open_finished(point).workspace.stores.uri == str(tmp_path / "moved" / "stores")
    watcher = Watching()
    sweep(swept, tmp_path / "moved", "stages.both.k=[1, 2]", watcher=watcher)
    assert all(told[0] == "ended" and told[3] for told in watcher.told)


@pytest.mark.slow
def test_a_sweep_in_a_bucket_is_read_and_resumed_on_another_machine(
    swept, bucket_uri, tmp_path, monkeypatch, capsys
):
    (tmp_path / "swept.yaml").write_text(swept)
    command = ["pipeline", str(tmp_path / "swept.yaml"), "--out", f"{bucket_uri}/w"]
    lists = ["stages.both.k=[2]", "--until", "given"]
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "one machine"))
    assert run_command([*command, *lists]) == (0, "complete")
    place = BucketStorage(f"{bucket_uri}/w/points/stages.both.k=2")
    assert {"table.md", "summary.json", "runs/dev/given.trec"} <= {*place.names("")}
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "another machine"))
    for verb in ("status", "verify"):
        assert run_command([verb, f"{bucket_uri}/w"])[0] == 0, verb
    assert [*read_sweep(mirror_of(f"{bucket_uri}/w")).points] == ["stages.both.k=2"]
    assert run_command(["table", f"{bucket_uri}/w"])[0] == 2
    assert run_command(["table", f"{bucket_uri}/w/points/stages.both.k=2"])[0] == 0
    assert run_command([*command, "--until", "given"])[0] == 2
    capsys.readouterr()
    assert run_command([*command, *lists])[0] == 0
    assert " rows in " not in capsys.readouterr().err


def test_what_is_in_a_bucket_is_fetched_once_for_all_points(
    swept, bucket_uri, tmp_path, monkeypatch
):
    place = BucketStorage(bucket_uri)
    file = Path(load_recipe(swept).collection.input[0])
    place.replace("passages.tsv", file.read_bytes())
    text = swept.replace(str(file), f"{bucket_uri}/passages.tsv")
    fetched, fetch = [], copies._fetch
    monkeypatch.setattr(copies, "_fetch", lambda *given: (fetched.append(given[1]), fetch(*given)))
    found = sweep(text, tmp_path / "w", "stages.both.k=[1, 2]")
    assert len(found.outcomes) == 2 and len(fetched) == 1
    assert [path.name for path in tmp_path.glob("w/inputs/*/*.tsv")] == ["passages.tsv"]
    assert not [*tmp_path.glob("w/points/*/inputs")]


@pytest.mark.ray
@pytest.mark.slow
def test_one_ray_serves_every_point_and_ends_with_the_sweep(swept, tmp_path):
    import ray

    started = []

    class Seeing(Silent):
        def advanced(self, name, report):
            started.append(ray.get_runtime_context().gcs_address)

    over = ("resources.backend=ray", "stages.both.k=[1, 2]")
    found = sweep(swept, tmp_path / "w", *over, watcher=Seeing())
    assert len(found.outcomes) == 2 and len(set(started)) == 1
    assert not ray.is_initialized()
