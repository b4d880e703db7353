"""After --until the page tells of the stages that were run, and of no others."""

import csv
import json
import re
from dataclasses import replace
from html import unescape

import pytest
import yaml

from raypipe.cli.main import run
from raypipe.config.load import load_recipe
from raypipe.driver.execute import Watcher
from raypipe.driver.pipeline import Options, run_pipeline
from raypipe.evaluation.tables import OUTSIDE, as_json, markdown
from raypipe.markdown import shown
from raypipe.report.contents import report, standing_report
from raypipe.report.finished import of_system, open_finished, recall_of
from raypipe.report.first_stages import depth, fusion
from raypipe.report.queries import queries, show
from raypipe.report.results import overview, results


@pytest.fixture(scope="module")
def written(finished):
    path = report(finished)
    folder = finished.workspace.folder / "analysis"
    return path, {p.name: json.loads(p.read_bytes()) for p in folder.glob("*.json")}


def test_each_section_has_a_twin_and_each_of_its_cells_is_on_the_page(written):
    path, twins = written
    assert set(twins) == {
        "overview.test.json", "depth.test.json", "tradeoff-of-pairs.test.json",
        "fusion.test.json", "queries.test.json", "making.json",
    }  # fmt: skip
    cells = [unescape(each) for each in re.findall(r"<td[^>]*>([^<]*)</td>", path.read_text())]
    expected = [
        shown(value, column) if not isinstance(value, str) else value
        for name in (
            "overview.test", "depth.test", "tradeoff-of-pairs.test", "fusion.test",
            "queries.test", "making",
        )
        for table in twins[f"{name}.json"]["tables"]
        for row in table["rows"]
        for value, column in zip(row, table["columns"], strict=True)
    ]  # fmt: skip
    assert cells == expected
    lead = re.findall(r'<p class="lead">([^<]*)</p>', path.read_text())
    assert [unescape(each) for each in lead] == [twins["overview.test.json"]["lead"]]


def test_a_page_is_made_anew_only_of_other_results(written, finished):
    path, _ = written
    text, written_at = path.read_bytes(), path.stat().st_mtime_ns
    assert standing_report(finished) == path and path.stat().st_mtime_ns == written_at
    sha256 = finished.summary["made_from"]["sha256"].encode()
    path.write_bytes(text.replace(sha256, b"of another run"))
    assert standing_report(finished).read_bytes() == text
    path.unlink()
    assert standing_report(finished).read_bytes() == text


def test_the_first_section_has_the_best_system_the_costs_and_the_weights_past(written, finished):
    _, twins = written
    overview = twins["overview.test.json"]
    systems, differences = overview["tables"]
    means = finished.summary["measures"]["test"]
    rows = {row[0]: dict(zip(systems["columns"], row, strict=True)) for row in systems["rows"]}
    assert {name: row["RR@10"] for name, row in rows.items()} == {
        name: of_system["RR@10"] for name, of_system in means.items()
    }
    assert (
        rows["second"]["inferences/query"] == 8 + 20 and rows["dense"]["inferences/query"] is None
    )
    best = max(means, key=lambda name: means[name]["RR@10"])
    assert overview["lead"].startswith(f"{best} has the best RR@10, {means[best]['RR@10']:.4f}: ")
    assert {row[0] for row in differences["rows"]} == set(means) - {"dense"}
    saw = finished.summary["systems"]["test"][best]["start_weights"]
    assert any(saw in note for note in overview["notes"])
    assert not any("left out" in note for note in overview["notes"]), "no row is"
    judged = {("q1", p) for p in ("p1", "p2", "p9")} | {("q2", "p7"), ("q3", "p3")}
    top = [
        (line["query_id"], line["passage_id"])
        for line in finished.named(finished.run("given", "test"), "test").to_pylist()
    ]
    assert rows["given"]["Judged@10"] == pytest.approx(sum(key in judged for key in top) / len(top))


def test_rows_that_could_not_be_computed_are_counted_below_the_first_table(finished):
    stages = {
        name: {**made, "shards": {**made["shards"], "quarantined": 2 * (name == "vectors")}}
        for name, made in finished.summary["stages"].items()
    }
    short = replace(finished, summary={**finished.summary, "stages": stages})
    expected = "rows that could not be computed and are left out: 2"
    assert expected in overview(short, "test").notes


def dots_of(svg):
    """(x, y, colour) of each marker of a chart, in the order in which they are drawn."""
    found = re.findall(r'<use [^>]*?x="([\d.]+)" y="([\d.]+)" style="fill: (#\w+)', svg)
    return [(float(x), float(y), colour) for x, y, colour in found]


def legend_of(svg):
    """Name -> colour of its marker, which stands before the name."""
    parts = re.split(r"<text[^>]*>([^<]*)</text>", svg)
    before = zip(parts[::2], parts[1::2], strict=False)
    return {unescape(name): dots_of(drawn)[-1][2] for drawn, name in before if dots_of(drawn)}


def test_the_first_chart_is_the_difference_to_the_baseline_with_its_interval(written):
    path, twins = written
    page, overview = path.read_text(), twins["overview.test.json"]
    first = page.index("<figcaption>")
    assert first < page.index("<table>")
    assert page[first:].startswith(
        "<figcaption>RR@10: difference to dense, with its 95% interval</figcaption>"
    )
    means = {row[0]: row[3] for row in overview["tables"][0]["rows"]}
    best = max(means, key=means.get)
    assert page.index(f"{best} has the best RR@10, {means[best]:.4f}") < first
    assert "<figcaption>RR@10 against time</figcaption>" in page
    svg = re.findall(r"<svg.*?</svg>", page, re.DOTALL)[0]
    words = re.findall(r"<text[^>]*>([^<]*)</text>", svg)
    assert [word for word in words if word in means] == [*means], "each system is named in order"
    places = dict(zip(means, dots_of(svg), strict=True))
    assert [*places] == sorted(places, key=lambda name: places[name][1])
    lowest = min(means, key=means.get)
    scale = (places[best][0] - places[lowest][0]) / (means[best] - means[lowest])

    def x_of(value):
        return pytest.approx(places[lowest][0] + scale * (value - means[lowest]), abs=0.01)

    drawn = re.findall(r'<path d="M ([\d.]+) [\d.]+ *\nL ([\d.]+) [^"]*" [^>]*stroke: (#\w+)', svg)
    ends = {colour: (float(low), float(high)) for low, high, colour in drawn}
    differences = {row[0]: row[2:5] for row in overview["tables"][1]["rows"] if row[1] == "RR@10"}
    assert {*differences} == {*means} - {"dense"}
    for name, (x, _, colour) in places.items():
        mean, low, high = differences.get(name, (0, 0, 0))
        assert x == x_of(means["dense"] + mean)
        assert ends[colour] == (x_of(means["dense"] + low), x_of(means["dense"] + high))


def test_a_system_has_one_colour_in_all_charts_which_are_as_wide_as_the_screen_lets_them(written):
    path, twins = written
    page = path.read_text()
    first, *charts = re.findall(r"<svg.*?</svg>", page, re.DOTALL)
    systems = [row[0] for row in twins["overview.test.json"]["tables"][0]["rows"]]
    colours = {name: colour for name, (_, _, colour) in zip(systems, dots_of(first), strict=True)}
    assert len({*colours.values()}) == len(systems)
    found = [(name, colour) for svg in charts for name, colour in legend_of(svg).items()]
    assert {name for name, _ in found if name in colours} == {*systems}
    assert all(colour == colours.get(name, colour) for name, colour in found)
    for svg in (first, *charts):
        tag = svg[: svg.index(">")]
        assert "viewBox=" in tag and "width=" not in tag and "height=" not in tag
    assert not re.search(r"svg [^}]*min-width", page) and not re.search(r"width: *\d+px", page)
    assert page.count("<table>") == page.count('<div class="wide"><table>')


def test_the_stores_and_the_recipe_are_on_the_page(written, finished):
    making = written[1]["making.json"]
    stores, made_by = making["tables"]
    rows = {row[0]: dict(zip(stores["columns"], row, strict=True)) for row in stores["rows"]}
    stages = finished.summary["stages"]
    assert [*rows] == [*stages]
    for name, row in rows.items():
        assert row["fingerprint"] == stages[name]["fingerprint"][:12]
        assert all(row[key] == stages[name][key] for key in ("rows", "copied", "coverage"))
    made_from = rows["dense.test"]["made from"]
    assert made_from == "passages@collection, parts@dense.test, queries@test"
    assert dict(made_by["rows"])["device"] == finished.summary["device"]
    assert making["texts"]["recipe.yaml"] == (finished.workspace.folder / "recipe.yaml").read_text()


def test_a_page_is_the_same_bytes_again_and_verify_is_content(written, finished, capsys):
    path, _ = written
    before = path.read_bytes()
    folder = str(finished.workspace.folder)
    assert run(["report", folder])[0] == 0
    assert path.read_bytes() == before and str(path) in capsys.readouterr().out
    assert run(["verify", folder])[0] == 0


def test_runs_of_documents_have_an_overview_of_their_own(given_documents):
    path = report(given_documents)
    told = json.loads((path.parent / "analysis/overview-of-documents.test.json").read_bytes())
    systems = told["tables"][0]
    measured = {row[0]: row[3] for row in systems["rows"]}
    means = given_documents.summary["measures"]["test"]
    assert len(means) == 2
    assert measured == {name: next(iter(values.values())) for name, values in means.items()}


@pytest.mark.parametrize("until", ["dense", "first"])
def test_a_section_of_stages_that_were_not_run_is_left_out(analysed, until, capsys):
    opened = analysed(name="part", chosen={"until": until})
    text = report(opened).read_text()
    assert "<h2>Results: test</h2>" in text and "tradeoff" not in text.lower()
    folder = str(opened.workspace.folder)
    assert run(["analyse", "tradeoff", folder])[0] == 2
    assert "expected a duoBERT stage" in capsys.readouterr().err


def test_a_grid_without_an_aggregation_has_no_time_of_a_pair(analysed):
    """All inputs of the grid were run; no stage that aggregates its pairs was."""
    opened = analysed(name="pairs", chosen={"until": "pairs"})
    assert "ms/query, derived" in report(opened).read_text()


@pytest.fixture(scope="module")
def nothing(tmp_path_factory, tiny_mono):
    """q1 alone is judged; `one` and its reranker have passages for q2 only, `two` for both."""
    folder = tmp_path_factory.mktemp("nothing")
    (folder / "passages.tsv").write_text("".join(f"p{i}\tpassage {i}\n" for i in range(4)))
    (folder / "queries.tsv").write_text("q1\tone\nq2\ttwo\n")
    (folder / "qrels.txt").write_text("q1 0 p1 1\n")
    (folder / "one.trec").write_text("q2 Q0 p0 1 2 x\nq2 Q0 p1 2 1 x\n")
    (folder / "two.trec").write_text("q1 Q0 p0 1 2 x\nq1 Q0 p1 2 1 x\nq2 Q0 p3 1 1 x\n")
    stages = {n: {"do": "read", "runs": {"test": f"{folder}/{n}.trec"}} for n in ("one", "two")}
    recipe = {
        "format": 1,
        "name": "nothing",
        "collection": {"format": "msmarco-v1", "input": f"{folder}/passages.tsv"},
        "queries": {"test": {"file": f"{folder}/queries.tsv", "qrels": f"{folder}/qrels.txt"}},
        "models": {"tiny": {"path": str(tiny_mono)}},
        "stages": {**stages, "mono": {"do": "score", "run": "one", "model": "tiny", "k0": 2}},
        "evaluate": {"measures": ["RR@10", "NumRet"], "baseline": "one"},
        "resources": {"backend": "inline", "device": "cpu"},
    }
    loaded = load_recipe(yaml.safe_dump(recipe, sort_keys=False), source="nothing")
    run_pipeline(loaded, folder / "work", Options(), watcher=Watcher())
    return open_finished(folder / "work")


def test_a_run_without_a_judged_query_counts_0_and_the_pipeline_completes(nothing):
    means = nothing.summary["measures"]["test"]
    assert {name: each["RR@10"] for name, each in means.items()} == {
        "one": 0.0, "two": 0.5, "mono": 0.0,
    }  # fmt: skip
    table = (nothing.workspace.folder / "table.md").read_text()
    assert "one: judged queries without a result, each counting 0: 1" in table


def test_its_page_and_its_tables_are_made_for_one_topic(nothing, capsys):
    text = report(nothing).read_text()
    lead = (
        "two has the best RR@10, 0.5000: 0.5000 more than one (95% interval +0.5000 to +0.5000, p "
    )
    assert lead in text
    assert "nan" not in text.lower().replace("tenant", "")
    assert run(["table", str(nothing.workspace.folder), "--format", "csv"])[0] == 0
    lines = {line["system"]: line for line in csv.DictReader(capsys.readouterr().out.splitlines())}
    assert lines["two"]["RR@10 wins"] == lines["two"]["NumRet wins"] == "1"
    assert lines["mono"]["RR@10 ties"] == "1" and lines["one"]["RR@10 ties"] == ""


def test_a_run_without_a_line_has_no_depths(nothing):
    class Empty(type(nothing)):
        def run(self, system, query_set):
            return super().run(system, query_set).slice(0, 0)

    empty = Empty(nothing.workspace, nothing.recipe, nothing.summary)
    assert of_system(empty, "test", "two").mean == {"RR@10": 0.0, "NumRet": 0.0}
    assert recall_of(empty, "test", "two") == {} and fusion(empty, "test") is None
    section = depth(empty, "test")
    assert [table.rows for table in section.tables] == [[["one"], ["two"]]]


@pytest.mark.parametrize("loss", ["nan", "inf", "-0.1"])
def test_a_loss_that_is_no_loss_is_refused(nothing, loss, capsys):
    command = ["analyse", "tradeoff", str(nothing.workspace.folder), f"--loss={loss}"]
    assert run(command)[0] == 2
    assert "expected a number from 0" in capsys.readouterr().err


MEANING = OUTSIDE.removeprefix("* ")


def test_the_pipelines_table_stars_them_and_says_once_what_it_means(outside):
    opened, folder = outside
    told = (folder / "work" / "table.md").read_text()
    assert told.count(f"- \\{OUTSIDE}\n") == 1, "a star alone would begin a list in the list"
    assert "| given * |" in told and "| other * |" in told and "| own     |" in told
    assert markdown(results(opened)) == told
    notes = opened.summary["notes"]["test"]["passages"]
    before = {"test": {"passages": [note for note in notes if note != OUTSIDE]}}
    old = replace(opened, summary={**opened.summary, "notes": before})
    assert markdown(results(old)).count(OUTSIDE) == 1


def test_csv_and_json_name_the_collection_and_say_what_follows(outside, capsys):
    work = str(outside[0].workspace.folder)
    assert run(["table", work, "--format", "csv"])[0] == 0
    lines = {line["system"]: line for line in csv.DictReader(capsys.readouterr().out.splitlines())}
    assert {n: line["larger_collection"] for n, line in lines.items()} == {
        "own": "", "second": "", "given": "all of it", "other": "all of it",
    }  # fmt: skip
    assert [line["note"] for line in lines.values()] == ["", "", MEANING, MEANING]
    assert lines["given"]["RR@10 wins"] == "" and lines["second"]["RR@10 losses"] == "1"
    (table,) = json.loads(as_json(results(outside[0])))["tables"]
    assert [each["larger_collection"] for each in table["systems"]] == [
        None, None, "all of it", "all of it",
    ]  # fmt: skip
    assert table["notes"].count(OUTSIDE) == 1


def test_queries_are_not_said_to_change_from_one_collection_to_another(outside):
    section = queries(outside[0], "test")
    by_title = {table.title: table for table in section.tables}
    assert "RR@10: lost most, second over own" in by_title
    columns = by_title["RR@10: hardest for every system"].columns
    assert columns == ["query", "text", "relevant", "own", "second", "given *", "other *"]
    assert [*section.charts[0].lines] == ["second"]
    assert section.notes.count(OUTSIDE) == 1


def test_the_hardest_are_hard_for_the_systems_over_this_collection(outside):
    (hardest,) = [t for t in queries(outside[0], "test").tables if "hardest" in t.title]
    assert [row[0] for row in hardest.rows] == ["q1", "q2"]
    assert [max(row[3:5]) for row in hardest.rows] == [1.0, 1.0]


def test_a_query_shown_says_which_of_its_runs_rank_another_collection(outside):
    (shown,) = show(outside[0], "q1")
    assert any(note.startswith("given ranks all of it, not this coll") for note in shown.notes)
    (alone,) = show(outside[0], "q1", systems=["own"])
    assert not any("not this collection" in note for note in alone.notes)
