import json

import pytest

from raypipe import schema
from raypipe.cli.main import run
from raypipe.errors import InputError
from raypipe.evaluation.run_files.runs import read_run
from raypipe.names import Role, of_collection
from raypipe.report import first_stages as module
from raypipe.report.finished import Finished
from raypipe.report.first_stages import CUTOFFS, consistencies, consistency, consistency_factor


def test_the_share_of_the_first_passages_that_the_reference_has(finished, tmp_path):
    ranked = {}
    for line in finished.named(finished.run("dense", "test"), "test").to_pylist():
        ranked.setdefault(line["query_id"], []).append(line["passage_id"])
    reference = tmp_path / "reference.trec"
    lines = [f"q1 Q0 {p} {n} {9 - n} x\n" for n, p in enumerate(ranked["q1"][1:8:2], 1)]
    lines += [f"q2 Q0 {p} {n} {9 - n} x\n" for n, p in enumerate(ranked["q2"][:6], 1)]
    reference.write_text("".join(lines))
    section = consistency(finished, "test", str(reference))
    (table,) = section.tables
    rows = {row[0]: dict(zip(table.columns, row, strict=True)) for row in table.rows}
    assert set(rows) == {"dense", "given"} and rows["dense"]["queries"] == 2
    # q1: ranks 2, 4, 6, 8 are in the reference; q2: ranks 1 to 6.
    assert rows["dense"]["5"] == pytest.approx((2 / 5 + 5 / 5) / 2)
    assert rows["dense"]["10"] == pytest.approx((4 / 10 + 6 / 10) / 2)
    assert "20" in rows["dense"] and rows["given"]["20"] is None
    assert section.charts[0].lines["dense"][0] == (5, rows["dense"]["5"])


def test_a_reference_without_a_common_query_is_refused(finished, tmp_path):
    reference = tmp_path / "other.trec"
    reference.write_text("z Q0 p1 1 1 x\n")
    with pytest.raises(InputError, match="no query in common"):
        consistency(finished, "test", str(reference))


def shares(section):
    (table,) = section.tables
    return {row[0]: dict(zip(table.columns[1:], row[1:], strict=True)) for row in table.rows}


@pytest.mark.parametrize("reference", ["given", "FOLDER/given.trec"])
def test_runs_over_a_larger_collection_are_compared_with_each_other_alone(outside, reference):
    finished, folder = outside
    section = consistency(finished, "test", reference.replace("FOLDER", str(folder)))
    # Of other's lists, without z1 and p9 of q3: q1 p1 p2 p3 p5, of which given has p1, p3 and p5;
    # q2 p0 p1, of which it has p1.
    assert shares(section) == {"other": {"queries": 2, "4": pytest.approx((3 / 4 + 1 / 2) / 2)}}
    assert (
        "left out, since they rank another collection than the reference: own, second"
        in (section.notes[-1])
    )
    assert "rank all of it, not this collection" in section.notes[2]
    assert "other ranks all of it, not this collection: 1 of its 8 lines" in " ".join(section.notes)


def test_runs_over_this_collection_are_compared_without_the_others(outside):
    finished, _ = outside
    section = consistency(finished, "test", "own")
    assert shares(section) == {"second": {"queries": 2, "3": pytest.approx((2 / 3 + 1) / 2)}}
    assert section.notes[-1].endswith("than the reference: given, other")


def test_a_file_with_passages_from_elsewhere_is_compared_with_no_run_over_this_collection(
    outside, finished, tmp_path
):
    reference = tmp_path / "official.trec"
    reference.write_text("q1 Q0 p1 1 2 x\nq1 Q0 z9 2 1 x\n")
    found = shares(consistency(outside[0], "test", str(reference)))
    assert set(found) == {"given", "other"}
    with pytest.raises(InputError, match="ranks a larger collection, and no other first stage"):
        consistency(finished, "test", str(reference))


@pytest.fixture
def unjudged(finished):
    """The same runs in a recipe without judgements and measures, and no index of ids."""
    sets = {
        name: each.model_copy(update={"qrels": None})
        for name, each in finished.recipe.queries.items()
    }
    recipe = finished.recipe.model_copy(update={"queries": sets, "evaluate": None})
    index = f"{of_collection(Role.IDS)}/"
    stores = [place for place in finished.summary["stores"] if not place.startswith(index)]
    summary = {**finished.summary, "measures": {}, "stores": stores}
    return Finished(finished.workspace, recipe, summary)


def test_judgements_are_not_needed(finished, unjudged, tmp_path):
    assert unjudged.query_sets == ["test", "other"]
    expected = [consistency(finished, name, "given") for name in ("test", "other")]
    assert consistencies(unjudged, "given") == expected
    assert consistencies(unjudged, "given", "other") == expected[1:]
    file = tmp_path / "own.trec"
    file.write_text("q2 Q0 p1 1 2 x\nq2 Q0 p7 2 1 x\n")
    (section,) = consistencies(unjudged, str(file))  # of `test` alone, which has q2
    assert (
        section.query_set == "test"
        and section.tables == consistency(finished, "test", str(file)).tables
    )
    assert "queries that the reference lacks, left out of the means: 2" in section.notes
    with pytest.raises(InputError, match="no query in common"):
        consistencies(unjudged, str(file), "other")


def test_where_no_query_set_has_a_query_of_the_file_all_are_named(unjudged, tmp_path):
    file = tmp_path / "other.trec"
    file.write_text("z Q0 p1 1 1 x\n")
    with pytest.raises(InputError, match="no query of test or other is in it"):
        consistencies(unjudged, str(file))
    with pytest.raises(InputError, match="--queries x: expected one of test, other"):
        consistencies(unjudged, str(file), "x")


def test_a_file_is_read_once_for_all_query_sets(unjudged, tmp_path, monkeypatch):
    (tmp_path / "both.trec").write_text("q1 Q0 p1 1 2 x\nq2 Q0 p7 1 2 x\n")
    read = []
    monkeypatch.setattr(module, "read_run", lambda path: read.append(path) or read_run(path))
    assert len(consistencies(unjudged, str(tmp_path / "both.trec"))) == 2 and len(read) == 1


def test_passages_from_elsewhere_are_seen_without_an_index_of_ids(outside, unjudged, tmp_path):
    given = [f"p{n}" for n in range(30)]
    here = unjudged.ranked()
    assert here.index is None and here.have(given)
    assert not here.have([*given, "p30"]) and here.have([])


def test_the_command_prints_every_query_set_with_runs(finished, capsys):
    folder = str(finished.workspace.folder)
    assert run(["analyse", "consistency", folder, "--reference", "given", "--json"])[0] == 0
    found = json.loads(capsys.readouterr().out)["sections"]
    assert [each["query_set"] for each in found] == ["test", "other"]


@pytest.fixture
def table(tmp_path):
    """A run from query id -> passage ids, as its file is read."""

    def made(name, rankings):
        lines = [
            f"{query}\t{passage}\t{rank}\n"
            for query, passages in rankings.items()
            for rank, passage in enumerate(passages.split(), 1)
        ]
        (tmp_path / f"{name}.tsv").write_text("".join(lines))
        return read_run(tmp_path / f"{name}.tsv")

    return made


def test_consistency_is_the_mean_share_of_the_first_n_in_the_reference(table):
    run = table("run", {"1": "10 11 12 13", "2": "20 21"})
    reference = table("reference", {"1": "13 10 12 99", "2": "22 21"})
    assert run.schema == schema.RUN_FILE
    found = consistency_factor(run, reference, [1, 2, 3, 4])
    # query 1: 1/1, 1/2, 2/3, 3/4; query 2: 0/1, 1/2, and 1/2 again, as it has only two passages
    assert found.mean == pytest.approx({1: 1 / 2, 2: 1 / 2, 3: 7 / 12, 4: 5 / 8})
    assert found.num_queries == 2


def test_queries_of_only_one_of_them_count_in_no_mean(table):
    run = table("run", {"1": "10", "3": "10"})
    reference = table("reference", {"1": "10", "2": "10"})
    assert consistency_factor(run, reference, [5]) == ({5: 1.0}, 1)


def test_a_run_is_consistent_with_itself_at_every_depth(table):
    run = table("run", {"1": "10 11 12", "2": "20"})
    assert consistency_factor(run, run).mean == dict.fromkeys(CUTOFFS, 1.0)


@pytest.mark.parametrize("cutoffs", [[], [0], [5, -1]])
def test_a_cutoff_below_one_is_refused(table, cutoffs):
    run = table("run", {"1": "10"})
    with pytest.raises(InputError, match="from 1"):
        consistency_factor(run, run, cutoffs)


def test_runs_without_a_query_in_common_are_refused(table):
    with pytest.raises(InputError, match="no query in common"):
        consistency_factor(table("run", {"1": "10"}), table("reference", {"2": "10"}))
