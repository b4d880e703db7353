"""A folder of snapshots: each is one generation, with its runs beside it, and none is run twice."""

import gzip
import json
import os
import shutil
import subprocess
import sys
from collections import namedtuple
from types import ModuleType

import psutil
import pytest
import yaml
from growing import SNAPSHOTS, paper, write_growing
from killed_jobs import REPOSITORY, killed
from patience import until

from raypipe.cli.main import run
from raypipe.driver.generations.past import history
from raypipe.driver.upkeep.status import open_workspace


@pytest.fixture
def folder(tmp_path, tiny_model):
    write_growing(tmp_path, tiny_model)
    return tmp_path


def reindex(folder, *more, out="work"):
    words = ["reindex", folder / "growing.yaml", "--out", folder / out, *more]
    return run([str(word) for word in words])[0]


def record(folder, out="work"):
    body = json.loads((folder / out / "snapshots" / "snapshots.json").read_text())
    return body["snapshots"]


def runs(folder, out="work"):
    """The bytes of the runs by their path, and what each holds unpacked."""
    root = folder / out / "snapshots"
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("run.txt.gz")}


def generations(folder):
    return history(open_workspace(folder / "work").stores, "growing")


@pytest.fixture(scope="module")
def built_and_copied(tmp_path_factory, tiny_model):
    """A folder whose workspace is complete over all three snapshots, and a copy of it."""
    folder = tmp_path_factory.mktemp("built")
    write_growing(folder, tiny_model)
    assert reindex(folder) == 0
    return folder, shutil.copytree(folder, folder.with_name("copied"))


@pytest.fixture
def built(built_and_copied):
    """That folder as it was then, in its own place."""
    folder, copied = built_and_copied
    shutil.rmtree(folder)
    return shutil.copytree(copied, folder)


def test_each_snapshot_is_one_generation_in_the_natural_order_of_the_names(built):
    facts = [(each["number"], each["snapshot"]) for each in generations(built)]
    assert facts == [*enumerate(SNAPSHOTS, 1)]
    counts = [
        [entry.get(name) for name in ("passages", "added", "removed", "changed")]
        for entry in record(built).values()
    ]
    assert counts == [[20, None, None, None], [22, 3, 1, 0], [24, 3, 1, 0]]
    assert [entry["stages"]["vectors"]["rows"] for entry in record(built).values()] == [20, 3, 3]


def test_a_run_over_a_snapshot_has_the_bytes_of_one_from_nothing(built):
    last = built / "snapshots" / "lag-10"
    alone = [f"collection.input={last}/documents", f"queries.test.file={last}/queries.txt"]
    recipe = (built / "growing.yaml").read_text().replace("\n  snapshots: snapshots", "")
    (built / "alone.yaml").write_text(recipe.replace(", qrels: qrels.txt", ""))
    words = ["pipeline", built / "alone.yaml", "--out", built / "alone", *alone]
    assert run([str(word) for word in words])[0] == 0
    expected = (built / "alone" / "runs" / "test" / "dense.trec").read_bytes()
    assert gzip.decompress(runs(built)["test/dense/lag-10/run.txt.gz"]) == expected
    assert len(runs(built)) == 3


def test_a_snapshot_without_judgements_is_ranked_and_not_measured(built):
    judged = {name: "test" in entry["measures"] for name, entry in record(built).items()}
    assert judged == {"lag-2": True, "lag-9": True, "lag-10": False}
    values = {path.name for path in (built / "work/snapshots/test").glob("*.tsv")}
    assert values == {"lag-2.tsv", "lag-9.tsv"}


def test_the_table_and_the_page_have_the_measures_over_snapshots(built, tmp_path, capsys):
    work = shutil.copytree(built / "work", tmp_path / "work")
    for command in ("table", "report"):
        assert run([command, str(work)])[0] == 0
    assert "| dense  | nDCG@10 | lag-9    | 3       | " in capsys.readouterr().out
    page = (work / "report.html").read_text()
    assert "Over snapshots: test" in page and "without judgements, so not measured: lag-10" in page
    assert (work / "analysis" / "snapshots.test.json").is_file()


@pytest.mark.slow
def test_what_is_complete_is_not_run_again_and_a_new_snapshot_is(folder, capsys):
    snapshots = folder / "snapshots"
    (snapshots / "lag-10").rename(folder / "lag-10")
    assert reindex(folder) == 0
    before = {path: path.stat().st_mtime_ns for path in (folder / "work").rglob("run.txt.gz")}
    (folder / "lag-10").rename(snapshots / "lag-10")
    capsys.readouterr()
    assert reindex(folder) == 0
    said = capsys.readouterr()
    assert "snapshot lag-2: complete as generation 1\n" in said.err
    assert "snapshot lag-10: queries.test.qrels: not there" in said.err
    assert "generation 3" in said.out and "snapshot lag-10" in said.out
    assert all(path.stat().st_mtime_ns == time for path, time in before.items())
    assert [each["snapshot"] for each in generations(folder)] == [*SNAPSHOTS]


def test_a_snapshot_that_failed_is_resumed_there_once_it_is_mended(folder):
    part = folder / "snapshots/lag-9/documents/part-2.jsonl"
    whole = part.read_text()
    part.write_text(whole + '{"id": "x"}\n')
    assert reindex(folder) == 2
    assert [*record(folder)] == ["lag-2"] and len(runs(folder)) == 1
    part.write_text(whole)
    assert reindex(folder) == 0
    assert [each["number"] for each in generations(folder)] == [1, 2, 3]


@pytest.mark.slow
def test_one_that_was_published_and_never_recorded_is_published_once(built):
    path = built / "work" / "snapshots" / "snapshots.json"
    body = json.loads(path.read_text())
    del body["snapshots"]["lag-10"]
    path.write_text(json.dumps(body))
    before = runs(built)
    assert reindex(built) == 0
    assert [each["number"] for each in generations(built)] == [1, 2, 3]
    assert record(built)["lag-10"]["generation"] == 3 and runs(built) == before


@pytest.mark.slow
def test_a_run_that_was_deleted_is_written_again_and_nothing_is_published(built):
    before = runs(built)
    (built / "work/snapshots/test/dense/lag-10/run.txt.gz").unlink()
    assert reindex(built) == 0
    assert runs(built) == before and len(generations(built)) == 3


@pytest.mark.slow
def test_a_changed_snapshot_is_run_again_and_those_after_it_are_published_after_it(built):
    (built / "snapshots/lag-9/documents/part-1.jsonl").write_text(json.dumps(paper(99)) + "\n")
    assert reindex(built) == 0
    facts = [(each["number"], each["snapshot"]) for each in generations(built)]
    assert facts[3:] == [(4, "lag-9"), (5, "lag-10")]
    assert [entry["generation"] for entry in record(built).values()] == [1, 4, 5]


@pytest.mark.slow
def test_a_changed_setting_runs_all_snapshots_again(built):
    assert reindex(built, "stages.dense.depth=3") == 0
    assert [entry["generation"] for entry in record(built).values()] == [4, 5, 6]
    assert all(gzip.decompress(each).count(b"\n") == 12 for each in runs(built).values())


@pytest.mark.slow
def test_runs_of_a_snapshot_that_is_gone_and_the_generation_go_with_it(built):
    own = built / "work/snapshots/test/dense/lag-10/note.txt"
    own.write_text("mine")
    shutil.move(built / "snapshots/lag-10", built)
    assert reindex(built) == 0
    assert sorted(runs(built)) == [f"test/dense/{name}/run.txt.gz" for name in ("lag-2", "lag-9")]
    assert own.read_text() == "mine" and [*record(built)] == ["lag-2", "lag-9"]
    assert generations(built)[-1]["snapshot"] == "lag-9"
    assert reindex(built) == 0 and len(generations(built)) == 4


@pytest.mark.slow
def test_no_run_of_earlier_settings_stays_beside_one_of_new_settings(built):
    recipe, part = built / "growing.yaml", built / "snapshots/lag-9/documents/part-2.jsonl"
    text = recipe.read_text().replace("dense:", "renamed:")
    recipe.write_text(text.replace("baseline: dense", "baseline: renamed"))
    part.write_text(part.read_text() + '{"id": "x"}\n')
    assert reindex(built) == 2
    assert [*runs(built)] == ["test/renamed/lag-2/run.txt.gz"]
    values = {path.name for path in (built / "work/snapshots/test").glob("*.tsv")}
    assert values == {"lag-2.tsv"} and [*record(built)] == ["lag-2"]


@pytest.mark.slow
def test_places_may_name_the_snapshot_or_be_the_same_for_all(folder):
    (folder / "shared.txt").write_text("q0\tzebra of\n")
    (folder / "qrels").mkdir()
    for name in SNAPSHOTS[1:]:
        (folder / "qrels" / f"{name}.txt").write_text("q0 0 8 1\n")
    places = [f"queries.test.file={folder}/shared.txt"]
    places.append(f"queries.test.qrels={folder}/qrels/{{snapshot}}.txt")
    assert reindex(folder, *places, f"snapshots={folder}/snapshots") == 0
    judged = [name for name, entry in record(folder).items() if entry["measures"]]
    assert judged == ["lag-9", "lag-10"]
    assert all(gzip.decompress(each).count(b"q0 Q0") == 8 for each in runs(folder).values())


def test_judgements_of_a_data_set_are_asked_for_by_the_snapshot_and_not_left_out(folder, capsys):
    assert reindex(folder, "queries.test.qrels=irds:nowhere/{snapshot}") == 2
    assert "nowhere/lag-2: " in capsys.readouterr().err  # no such id, or no such package


class Set:
    """A data set as ir_datasets has it, in which each paper and query is a tuple with names."""

    def __init__(self, numbers, queries, qrels):
        papers = [Paper(**paper(n)) for n in numbers]
        self.docs_iter, self.has_docs = lambda: papers, lambda: True
        self.queries_iter, self.has_queries = lambda: queries, lambda: True
        self.qrels_iter, self.has_qrels = lambda: qrels, lambda: True


class Paper(namedtuple("Paper", "id title abstract authors")):
    doc_id = property(lambda self: self.id)

    def default_text(self):
        return f"{self.title} {self.abstract}" if self.abstract else self.title


class Query(namedtuple("Query", "query_id text")):
    def default_text(self):
        return self.text


@pytest.mark.slow
def test_snapshots_of_ir_datasets_are_named_in_order(folder, monkeypatch):
    qrel = namedtuple("Qrel", "query_id doc_id relevance")
    queries, qrels = [Query("q0", "zebra of")], [qrel("q0", "8", 1)]
    sets = {f"longeval-x/{n}": Set(range(n, 20 + n), queries, qrels) for n in (1, 2)}
    package = ModuleType("ir_datasets_longeval")
    package.load = sets.__getitem__
    monkeypatch.setitem(sys.modules, "ir_datasets", ModuleType("ir_datasets"))
    monkeypatch.setitem(sys.modules, "ir_datasets_longeval", package)
    recipe = yaml.safe_load((folder / "growing.yaml").read_text())
    snapshots = {"format": "ir-datasets", "snapshots": ["2", "1"]}
    recipe["collection"] = {**snapshots, "input": "longeval-x/{snapshot}"}
    place = "irds:longeval-x/{snapshot}"
    recipe["queries"]["test"] = {"file": place, "qrels": place}
    (folder / "growing.yaml").write_text(yaml.safe_dump(recipe, sort_keys=False))
    assert reindex(folder) == 0
    entries = record(folder)
    assert [*entries] == ["2", "1"] and all(entry["measures"] for entry in entries.values())
    assert (entries["1"]["added"], entries["1"]["removed"]) == (1, 1)
    assert reindex(folder) == 0 and len(generations(folder)) == 2


def test_what_no_snapshot_can_be_run_with_is_told_before_any_work(folder, capsys):
    for name in ("lag-2", "lag-10"):
        (folder / "snapshots" / name / "documents").rename(folder / name)
    assert reindex(folder) == 2
    told = capsys.readouterr().err
    for name in ("lag-2", "lag-10"):
        assert f"snapshot {name}: collection.input.0: " in told
    assert "snapshot lag-9" not in told and not (folder / "work").exists()


@pytest.mark.parametrize("name", ["nowhere", "empty"])
def test_a_folder_without_snapshots_is_refused(folder, capsys, name):
    (folder / "empty").mkdir()
    assert reindex(folder, f"snapshots={name}") == 2
    expected = f"{folder}/{name}: expected a folder of this machine with a folder for each snapshot"
    assert expected in capsys.readouterr().err


def test_only_reindex_runs_snapshots_and_not_into_their_own_folder(folder, capsys):
    words = ["pipeline", folder / "growing.yaml", "--out", folder / "work"]
    assert run([str(word) for word in words])[0] == 2
    assert "`raypipe reindex` alone runs the snapshots" in capsys.readouterr().err
    assert reindex(folder, out="") == 2
    assert "runs would be written there; name another --out" in capsys.readouterr().err
    mirror = folder / "mirror"
    mirror.mkdir()
    (mirror / ".mirrors").write_text("s3://bucket/work")
    assert reindex(folder, out="mirror") == 2
    assert "--out s3://bucket/work: the runs of snapshots" in capsys.readouterr().err


@pytest.mark.slow
def test_a_killed_one_is_resumed_at_its_snapshot_with_the_bytes_of_one_undisturbed(folder, built):
    command = [sys.executable, "-m", "raypipe", "reindex", folder / "growing.yaml"]
    command += ["--out", folder / "work"]
    with open(folder / "log", "ab") as log:
        process = subprocess.Popen(
            [*map(str, command)], cwd=REPOSITORY, env={**os.environ}, stdout=log, stderr=log
        )
    second = folder / "work/stores/vectors"
    until(lambda: process.poll() is not None or len([*second.glob("*")]) > 1)
    assert killed(psutil.Process(process.pid))
    process.wait()
    assert [*record(folder)] == ["lag-2"]
    assert reindex(folder) == 0
    assert runs(folder) == runs(built)
    assert [each["number"] for each in generations(folder)] == [1, 2, 3]
