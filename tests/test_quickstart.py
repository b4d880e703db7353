"""The quickstart as a user runs it, on a smaller collection."""

import hashlib
import json
from types import SimpleNamespace

import pytest

from raypipe.cli import reproduce
from raypipe.errors import InputError


def hashes(folder):
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for part in ("stores", "runs", "measures")
        for path in (folder / part).rglob("*")
        if path.is_file()
    }


@pytest.mark.ray
@pytest.mark.slow
def test_quickstart_ends_with_a_table_and_a_second_run_changes_no_byte(
    raypipe_cli, raypipe_here, tmp_path
):
    """In one process at first; whether stores are reused does not depend on that."""
    out = tmp_path / "quickstart"
    small = ("collection.max_passages=100", "resources.backend=inline")
    first = raypipe_cli("pipeline", "quickstart", "--out", out, *small)
    assert first.returncode == 0, first.stderr
    for expected in (
        "bm25",
        "dense",
        "fused",
        "mono",
        "duo-sum",
        "nDCG@10 (n=",
        "RR@10 (n=",
        "R@100 (n=",
        "ms/query",
    ):
        assert expected in first.stdout
    assert "95% interval" in first.stdout
    assert "start weights saw" in first.stdout
    assert first.stderr.splitlines()[-1] == "raypipe: exit 0 (complete)"

    summary = json.loads((out / "summary.json").read_text())
    assert summary["status"] == "complete" and summary["exit"] == 0
    assert list(summary["systems"]["test"]) == ["bm25", "dense", "fused", "mono", "duo-sum"]
    assert all(system["ms_per_query"] > 0 for system in summary["systems"]["test"].values())
    assert not any(stage["reused"] for stage in summary["stages"].values())
    assert (out / "table.md").read_text().strip() in first.stdout
    for system in summary["systems"]["test"]:
        lines = (out / f"runs/test/{system}.trec").read_text().splitlines()
        assert lines and all(len(line.split()) == 6 for line in lines)
    assert not [path for path in out.rglob("*tmp*/**/*") if path.is_file()]

    before = hashes(out)
    second = raypipe_here("quickstart", "--out", out, "--passages", 100, "--json")
    assert second.returncode == 0, second.stderr
    again = json.loads(second.stdout)
    assert all(stage["reused"] for stage in again["stages"].values())
    assert "reused" in second.stderr
    assert again["measures"] == summary["measures"]
    third = raypipe_here("quickstart", "--out", out, "--passages", 100)
    assert hashes(out) == before
    *_, sizes, costs, page, _, _, _, setting, own = third.stdout.splitlines()
    assert sizes.startswith("- ") and " passages, " in sizes
    assert sizes.endswith("; nothing was tuned or trained on these queries")
    assert costs == f"- wins, losses, costs and what the weights saw: {out / 'table.md'}"
    assert page == f"- charts and single queries, for a browser: {out / 'report.html'}"
    assert setting == f"    raypipe pipeline quickstart --out {out} stages.fused.method=alternate"
    assert own == "    raypipe init passages.tsv queries.tsv qrels.txt"
    num, told = len(again["stages"]), third.stderr.splitlines()[-1]
    assert f" {num} stages, {num} reused, " in told and told.endswith(f" s: {out}")


@pytest.mark.parametrize(
    ("given", "sizes"), [((), [6000, 6000]), (("--passages", 120), [120, 120])]
)
def test_what_it_trains_on_is_of_the_size_that_it_searches(
    given, sizes, raypipe_here, tmp_path, monkeypatch
):
    found = []

    def searched(recipe, out, *rest, **options):
        found.append(recipe.collection.max_passages)
        return SimpleNamespace(summary={})

    def trained(*rest):
        raise InputError("up to here")

    monkeypatch.setattr(reproduce, "execute", searched)
    monkeypatch.setattr(reproduce, "execute_training", trained)
    done = raypipe_here("quickstart", "--train", *given, "--out", tmp_path / "out")
    assert done.returncode == 2 and "up to here" in done.stderr
    assert found == sizes


@pytest.mark.ray
@pytest.mark.long
def test_quickstart_trains_for_a_minute_and_tells_all_of_it_in_one_object(raypipe_cli, tmp_path):
    out = tmp_path / "quickstart"
    told = ("quickstart", "--out", out, "--passages", 100, "--train", "--json")
    done = raypipe_cli(*told, RAY_ADDRESS="10.0.0.1:6379")  # not asked: the cluster is its own
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert set(told["systems"]["test"]) == {"bm25", "dense", "fused", "mono", "duo-sum"}
    assert [each["step"] for each in told["train"]["history"]] == [20, 40, 60]
    dropped = told["train"]["examples"]["own"]["dropped"]
    assert dropped["left_out_negative"] > 0  # passages judged for test queries are in the runs
    model = out / "trained" / "models" / "quickstart-train"
    assert (model / "model.safetensors").exists()
    assert done.stderr.splitlines()[-3].endswith(f"model: {model}")
