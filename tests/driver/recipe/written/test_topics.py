import pytest
from car_files import page, section, under

from raypipe.config.load import load_recipe
from raypipe.driver.inputs import with_topics
from raypipe.driver.workspace import Workspace
from raypipe.errors import InputError, RefusedError

RECIPE = """
format: 1
name: car
collection: {format: trec-car, input: x}
queries:
  all: {car: {level: hierarchical, outlines: pages.cbor}}
  judged: {car: {level: top-level, pages: pages.cbor}}
  released: {car: {level: hierarchical, qrels: [one.qrels, two.qrels]}}
  own: {file: own.tsv}
stages: {lucene: {do: index}}
"""
A = page("A", section("S", under("p1")), section("T", section("U", under("p2"))))


@pytest.fixture
def recipe(tmp_path):
    (tmp_path / "pages.cbor").write_bytes(A)
    (tmp_path / "one.qrels").write_text("A/T/U 0 p2 1\n")
    (tmp_path / "two.qrels").write_text("B 0 p3 1\n")
    return load_recipe(RECIPE, base=tmp_path)


def test_topics_become_ordinary_files_of_the_workspace_once(recipe, tmp_path):
    workspace, said = Workspace(tmp_path / "out"), []
    found = with_topics(recipe, workspace, said.append)
    assert said == [
        "queries all: 3 topics at hierarchical level",
        "queries judged: 2 topics and 2 judgements at top-level level",
        "queries released: 2 topics and 2 judgements at hierarchical level",
    ]
    folder = tmp_path / "out" / "topics"
    own, every = found.queries["own"], found.queries["all"]
    assert own == recipe.queries["own"]
    assert (every.file, every.qrels, every.car) == (str(folder / "all/queries.tsv"), None, None)
    judged = found.queries["judged"]
    assert judged.qrels == str(folder / "judged/qrels.txt")
    assert (folder / "judged/queries.tsv").read_text() == "A/S\tA S\nA/T\tA T\n"
    assert (folder / "released/queries.tsv").read_text() == "A/T/U\tA T U\nB\tB\n"
    assert {f"topics/judged/{name}" for name in ("queries.tsv", "qrels.txt", "made-from.json")} < (
        workspace.written
    )
    said.clear()
    times = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    assert with_topics(recipe, workspace, said.append) == found and not said
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == times


def test_what_is_written_over_is_told_before_and_not_what_is_new(recipe, tmp_path):
    workspace, seen = Workspace(tmp_path / "out"), []
    queries = tmp_path / "out/topics/all/queries.tsv"

    def made():
        def note():
            seen.append(queries.read_text())

        workspace.work_begins = note
        with_topics(recipe, workspace, lambda line: None)

    made()
    made()
    assert seen == []
    before = queries.read_text()
    (tmp_path / "pages.cbor").write_bytes(page("C", section("V", under("p1"))))
    made()
    assert seen[0] == before != queries.read_text() and len(seen) == 2  # all and judged


def test_topics_are_made_again_of_other_files_or_at_another_level(recipe, tmp_path):
    workspace, said = Workspace(tmp_path / "out"), []
    with_topics(recipe, workspace, said.append)
    said.clear()
    (tmp_path / "pages.cbor").write_bytes(A + page("C", section("V", under("p1"))))
    with_topics(recipe, workspace, said.append)
    assert said == [
        "queries all: 4 topics at hierarchical level",
        "queries judged: 3 topics and 3 judgements at top-level level",
    ]
    other = load_recipe(RECIPE, base=tmp_path, overrides=["queries.judged.car.level=article"])
    with_topics(other, workspace, said.append)
    assert said[2:] == ["queries judged: 2 topics and 3 judgements at article level"]
    note = tmp_path / "out/topics/all/made-from.json"
    note.write_text("torn")
    with_topics(other, workspace, said.append)
    assert said[3:] == ["queries all: 4 topics at hierarchical level"]


def test_a_damaged_file_is_refused_and_mended_by_the_same_command(recipe, tmp_path):
    workspace = Workspace(tmp_path / "out")
    (tmp_path / "pages.cbor").write_bytes(A[:-1])
    for _ in range(2):
        with pytest.raises(InputError, match=r"pages.cbor: cut off: the record at byte 0"):
            with_topics(recipe, workspace, print)
    (tmp_path / "pages.cbor").write_bytes(A)
    assert with_topics(recipe, workspace, print).queries["all"].car is None


@pytest.mark.parametrize("file", ["queries.tsv", "qrels.txt"])
@pytest.mark.parametrize("text", [None, "A/S 0 p9 1\n"])
def test_a_file_of_topics_that_was_edited_or_deleted_is_made_again(recipe, tmp_path, file, text):
    workspace = Workspace(tmp_path / "out")
    with_topics(recipe, workspace, print)
    made = tmp_path / "out/topics/judged" / file
    before = made.read_text()
    made.write_text(text) if text else made.unlink()
    with_topics(recipe, workspace, print)
    assert made.read_text() == before


@pytest.mark.parametrize(
    ("override", "line"),
    [
        ("queries.judged.car.level=article", "queries.judged.car.level: top-level -> article"),
        ("queries.released.car.level=article", "released.car.level: hierarchical -> article"),
        ("queries.judged.car.outlines=pages.cbor", "queries.judged.car.outlines: none -> given"),
    ],
)
def test_frozen_topics_are_not_made_with_other_settings(recipe, tmp_path, override, line):
    workspace = Workspace(tmp_path / "out")
    with_topics(recipe, workspace, print, frozen=True)  # there is nothing to compare with
    before = {path: path.read_bytes() for path in (tmp_path / "out").rglob("*.*")}
    other = load_recipe(RECIPE, base=tmp_path, overrides=[override])
    with pytest.raises(RefusedError, match=line):
        with_topics(other, workspace, print, frozen=True)
    assert {path: path.read_bytes() for path in (tmp_path / "out").rglob("*.*")} == before
    (tmp_path / "pages.cbor").write_bytes(A + A)  # content may change
    with_topics(recipe, workspace, print, frozen=True)


@pytest.mark.parametrize(
    ("queries", "problem"),
    [
        ("car: {level: article}", "queries.all.car.outlines: missing; expected outlines, or pages"),
        ("car: {outlines: x}", "queries.all.car.level: missing"),
        ("car: {level: page, outlines: x}", "queries.all.car.level: expected 'article', "),
        (
            "car: {level: article, pages: x, qrels: y}",
            "queries.all.car.qrels: expected one of pages and qrels; found both of them",
        ),
        ("car: {level: article, pages: x}, qrels: y", "queries.all.qrels: TREC CAR's judgements"),
        ("file: x, car: {level: article, pages: x}", "queries.all: expected one of file, car and"),
        (
            "car: {level: article, outlines: x}, only_judged: true",
            "queries.all.only_judged: needs qrels",
        ),
    ],
)
def test_a_set_of_topics_that_means_nothing_is_refused(queries, problem):
    text = RECIPE.replace("car: {level: hierarchical, outlines: pages.cbor}", queries)
    with pytest.raises(InputError) as found:
        load_recipe(text)
    assert problem in found.value.problems[0]
