import json
import re
from html import unescape

import pytest
from small_documents import recipe_of, write_inputs

import raypipe
from raypipe.cli.main import run
from raypipe.report.contents import report
from raypipe.report.finished import open_finished
from raypipe.report.section import shown


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
        "forecast.all.json",
    }  # fmt: skip
    cells = [unescape(each) for each in re.findall(r"<td[^>]*>([^<]*)</td>", path.read_text())]
    expected = [
        shown(value, column) if not isinstance(value, str) else value
        for name in (
            "overview.test", "depth.test", "tradeoff-of-pairs.test", "fusion.test",
            "queries.test", "forecast.all", "making",
        )
        for table in twins[f"{name}.json"]["tables"]
        for row in table["rows"]
        for value, column in zip(row, table["columns"], strict=True)
    ]  # fmt: skip
    assert cells == expected
    facts = [unescape(each) for each in re.findall(r"<dd>([^<]*)</dd>", path.read_text())]
    assert facts == [
        shown(value, name) for name, value in twins["overview.test.json"]["facts"].items()
    ]
    lead = re.findall(r'<p class="lead">([^<]*)</p>', path.read_text())
    assert [unescape(each) for each in lead] == [twins["overview.test.json"]["lead"]]


def test_the_first_screen_names_the_best_system_with_its_costs(written, finished):
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
    assert overview["lead"].startswith(f"best by RR@10: {best}, {means[best]['RR@10']:.4f}")
    assert {row[0] for row in differences["rows"]} == set(means) - {"dense"}
    facts = overview["facts"]
    assert facts[f"Judged@10 of {best}"] == rows[best]["Judged@10"]
    assert facts[f"ms/query of {best}"] == rows[best]["ms/query"]
    assert facts["coverage, the least of a store"] == 1.0 and facts["rows in quarantine"] == 0
    assert (
        facts["its start weights saw"] == finished.summary["systems"]["test"][best]["start_weights"]
    )
    judged = {("q1", p) for p in ("p1", "p2", "p9")} | {("q2", "p7"), ("q3", "p3")}
    top = [
        (line["query_id"], line["passage_id"])
        for line in finished.named(finished.run("given", "test"), "test").to_pylist()
    ]
    assert rows["given"]["Judged@10"] == pytest.approx(sum(key in judged for key in top) / len(top))


def dots_of(svg):
    """(x, y, colour) of each marker of a chart, in the order in which they are drawn."""
    found = re.findall(r'<use [^>]*?x="([\d.]+)" y="([\d.]+)" style="fill: (#\w+)', svg)
    return [(float(x), float(y), colour) for x, y, colour in found]


def legend_of(svg):
    """Name -> colour of its marker, which stands before the name."""
    parts = re.split(r"<text[^>]*>([^<]*)</text>", svg)
    before = zip(parts[::2], parts[1::2], strict=False)
    return {unescape(name): dots_of(drawn)[-1][2] for drawn, name in before if dots_of(drawn)}


def test_the_first_chart_and_card_are_the_main_measure_with_intervals_to_the_baseline(written):
    path, twins = written
    page, overview = path.read_text(), twins["overview.test.json"]
    first = page.index("<figcaption>")
    assert first < page.index("<dt>") < page.index("<table>")
    assert page[first:].startswith(
        "<figcaption>RR@10, with the 95% interval of the difference to dense</figcaption>"
    )
    means = {row[0]: row[3] for row in overview["tables"][0]["rows"]}
    best = max(means, key=means.get)
    card = f"<dt>RR@10 of {best}</dt><dd>{means[best]:.4f}</dd>"
    assert page[page.index("<dt>") :].startswith(card)
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
        assert x == x_of(means[name])
        _, low, high = differences.get(name, (0, 0, 0))
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


def test_the_stores_and_the_recipe_are_told(written, finished):
    _, twins = written
    making = twins["making.json"]
    chain, settings, made_by = making["tables"]
    told = [dict(zip(chain["columns"], row, strict=True)) for row in chain["rows"]]
    stores = {row["name"]: row for row in told if row["what"] == "store"}
    stages = finished.summary["stages"]
    assert [*stores] == [*stages]
    for name, row in stores.items():
        stage = stages[name]
        assert row["fingerprint"] == stage["fingerprint"][:12]
        assert [row[key] for key in ("rows", "copied", "coverage")] == [
            stage[key] for key in ("rows", "copied", "coverage")
        ]
        assert row["shards"] == stage["shards"]["planned"]
    assert (
        stores["dense.test"]["made from"] == "passages@collection, parts@dense.test, queries@test"
    )
    files = {row["name"]: row for row in told if row["what"] in ("run", "measures")}
    hashes = finished.summary["files"]
    assert all(row["fingerprint"] == hashes[name][:12] for name, row in files.items())
    assert "runs/test/dense.trec" in files["measures/test.tsv"]["made from"]
    rows = [row for row in settings["rows"]]
    assert ["stages.first.k0", "8", "recipe"] in rows
    assert ["stages.dense.depth", "20", "recipe"] in rows
    assert ["stages.first.seed", "0", "default; raypipe's choice"] in rows
    assert dict(made_by["rows"])["device"] == finished.summary["device"]
    assert making["texts"]["recipe.yaml"] == (finished.workspace.folder / "recipe.yaml").read_text()


def test_a_page_is_the_same_bytes_again_and_verify_is_content(written, finished, capsys):
    path, _ = written
    before = path.read_bytes()
    folder = str(finished.workspace.folder)
    assert run(["report", folder])[0] == 0
    assert path.read_bytes() == before and str(path) in capsys.readouterr().out
    assert run(["verify", folder])[0] == 0


def test_runs_of_documents_have_an_overview_of_their_own(tmp_path, tiny_model, tiny_mono):
    write_inputs(tmp_path)
    done = raypipe.run(recipe_of(tmp_path, tiny_model, tiny_mono), tmp_path / "work")
    opened = open_finished(tmp_path / "work")
    path = report(opened)
    told = json.loads((path.parent / "analysis/overview-of-documents.test.json").read_bytes())
    systems = told["tables"][0]
    measured = {row[0]: row[3] for row in systems["rows"]}
    means = done.summary["measures"]["test"]
    assert measured == {name: next(iter(values.values())) for name, values in means.items()}
