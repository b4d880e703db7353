"""What the steps of a reproduction read: described, found or missing."""

from pathlib import Path

from raypipe.report.inputs import missing, wanted
from raypipe.report.published import plan, reproduction, variables


def wants(name, data, out, only=()):
    of = reproduction(name)
    return wanted(of, out, plan(of, out, data=data, only=only), variables({}, data))


def test_what_an_earlier_step_makes_is_not_wanted(tmp_path):
    found = {each.path: each for each in wants("duobert", tmp_path, tmp_path / "out")}
    assert not any(path.startswith(str(tmp_path / "out")) for path in found)
    collection = found[f"{tmp_path}/msmarco/collection.tsv"]
    assert collection.steps == ("monobert-2019b", "duobert-multistage")
    assert collection.what == "the 8,841,823 passages of MS MARCO v1, id TAB text"
    start = found[f"{tmp_path}/models/bert-large-uncased"]
    assert start.steps == ("monobert-2019b", "duobert-2019")
    assert (start.described.layers, start.described.hidden) == (24, 1024)


def test_what_a_step_that_is_left_out_makes_is_wanted_and_says_so(tmp_path):
    out = tmp_path / "out"
    found = wants("duobert", tmp_path, out, only=["duobert-multistage"])
    (line,) = [line for line in missing(found, []) if "models/duobert-2019:" in line]
    made = "what the step duobert-2019 makes; run it too (for duobert-multistage)"
    assert line == f"missing: {out}/duobert-2019/models/duobert-2019: {made}"


def test_all_that_is_missing_is_told_and_what_is_there_is_not(tmp_path):
    (tmp_path / "msmarco").mkdir()
    (tmp_path / "msmarco" / "collection.tsv").write_text("1\ta\n")
    lines = missing(wants("monobert", tmp_path, tmp_path / "out"), [])
    assert [line.split(": ")[1].removeprefix(f"{tmp_path}/") for line in lines] == [
        "msmarco/queries.dev.small.tsv",
        "msmarco/qrels.dev.small.tsv",
        "models/monobert-large",
        "msmarco/top1000.dev.tsv",
    ]
    assert all("; from " in line and "(for msmarco-monobert)" in line for line in lines)


def test_a_step_that_has_all_it_reads_is_named(tmp_path):
    for name in ("collection.tsv", "queries.dev.small.tsv", "qrels.dev.small.tsv"):
        path = tmp_path / "msmarco" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("")
    told = missing(wants("repbert", tmp_path, Path("/out")), [])
    assert told[-1] == (
        "the other steps have all that they read: to run them alone, --only msmarco-bm25"
    )
    assert missing(wants("bm25", tmp_path, Path("/out"), only=["msmarco-bm25"]), []) == []
