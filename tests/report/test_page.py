from html.parser import HTMLParser

from raypipe.markdown import Table, shown
from raypipe.report.charts import Chart
from raypipe.report.page import ReportSection, page

SECTIONS = [
    ReportSection(
        "depth", "dev",
        [Table("Values <1>", ["name", "n", "mean"], [["<b>&", 1234, 0.25], ["d", 5, None]])],
        [Chart("C", "x", "y", {"a": [(1, 2.0), (2, 3.0)]}), Chart("none", "x", "y", {})],
        ["two <topics>"],
    ),
    ReportSection("making", "", [Table("T", ["p"], [[float("nan")], [1e-6]])],
            texts={"recipe.yaml": "a: <b>"}, lead="first <of> all"),
]  # fmt: skip


class Read(HTMLParser):
    """Cells by table, and every element with its attributes."""

    def __init__(self, text):
        super().__init__()
        self.tables, self.elements, self.text, self.part = [], [], "", None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag == "tbody":
            self.tables.append([])
        if tag == "tr" and self.part == "tbody":
            self.tables[-1].append([])
        if tag in ("thead", "tbody"):
            self.part = tag
        if tag == "td":
            self.tables[-1][-1].append("")

    def handle_data(self, data):
        self.text += data
        if self.elements and self.elements[-1][0] == "td" and self.tables and self.tables[-1]:
            self.tables[-1][-1][-1] += data.strip("\n")


def test_the_cells_are_the_sections_values_as_shown():
    found = Read(page("raypipe: x", SECTIONS)).tables
    assert found[0] == [["<b>&", "1,234", "0.2500"], ["d", "5", "-"]]
    assert found[1] == [["-"], ["<0.0001"]]
    assert shown(0.25) == "0.2500"


def test_a_columns_name_is_to_the_right_if_its_cells_are_numbers():
    heads = [a.get("class") for tag, a in Read(page("x", SECTIONS)).elements if tag == "th"]
    assert heads == [None, "number", "number", "number"]


def test_a_name_stays_on_its_line_and_a_text_is_wide():
    cells = ["a name", "bm25 + dense, first 100", "3e64f309478e0d38775122a8429f68", "word " * 20]
    section = ReportSection("movers", "", [Table("T", ["a", "b", "c", "d"], [cells])])
    found = [a.get("class") for tag, a in Read(page("x", [section])).elements if tag == "td"]
    assert found == ["short", "text", "text", "long"]


def test_the_page_asks_for_nothing_and_has_every_note_and_picture():
    read = Read(text := page("raypipe: <x>", SECTIONS))
    tags = [tag for tag, _ in read.elements]
    assert "script" not in tags and "img" not in tags and "link" not in tags
    addresses = [a[k] for _, a in read.elements for k in ("href", "src", "xlink:href") if k in a]
    assert all(address.startswith("#") for address in addresses)
    assert tags.count("svg") == 1, "a chart without lines is left out"
    assert (
        "two <topics>" in read.text
        and "first <of> all" in read.text
        and "a: <b>" in read.text
        and "raypipe: <x>" in read.text
    )
    assert text.startswith("<!doctype html>") and "prefers-color-scheme: dark" in text
    assert "@import" not in text and "url(http" not in text


def test_no_name_in_the_page_is_given_twice():
    charts = [Chart(f"C{n}", "x", "y", {"a": [(1, 2.0), (2, n)], "b": [(1, n)]}) for n in (1, 2)]
    section = ReportSection("depth", "dev", [], charts)
    names = [a["id"] for _, a in Read(page("x", [section, section])).elements if "id" in a]
    own = [name for name in names if name not in ("s0", "s1")]
    assert len(own) == 2 * len(set(own)), "each picture is there twice, each with names of its own"


def test_links_lead_to_the_sections():
    read = Read(page("x", SECTIONS))
    wanted = {a["href"][1:] for tag, a in read.elements if tag == "a"}
    assert wanted == {a["id"] for tag, a in read.elements if tag == "section"} == {"s0", "s1"}


HOSTILE = "'\"><script>alert(1)</script><img src=x onerror=alert(1)>&amp;"


def test_a_hostile_text_runs_nothing_wherever_it_stands():
    lines = {HOSTILE: [(1, 2.0), (2, 3.0)]}
    section = ReportSection(
        HOSTILE, HOSTILE,
        [Table(HOSTILE, [HOSTILE], [[HOSTILE]])],
        [Chart(HOSTILE, HOSTILE, HOSTILE, lines)],
        [HOSTILE],
        texts={HOSTILE: HOSTILE}, lead=HOSTILE,
    )  # fmt: skip
    read = Read(page(HOSTILE, [section]))
    tags = {tag for tag, _ in read.elements}
    assert not tags & {"script", "img"}
    assert not any(name.startswith("on") for _, attributes in read.elements for name in attributes)
    assert read.text.count(HOSTILE) >= 12, "and each is shown as it is"
