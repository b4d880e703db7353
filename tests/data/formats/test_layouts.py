"""JSON in lines, over several lines, in an array, and in folders of folders."""

import gzip
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raypipe.data.facts import count_file
from raypipe.data.files import not_read
from raypipe.data.formats.registry import FORMATS, format_of
from raypipe.data.reading import read_records
from raypipe.errors import InputError

PASSAGES = [("d1", "boats ] } [ {"), ("d2", 'trees \\" é'), ("d3", "")]
OBJECTS = [{"id": name, "more": [{"a": {}}, "}"], "contents": text} for name, text in PASSAGES]
LAYOUTS = {
    "lines": "".join(json.dumps(each) + "\n" for each in OBJECTS),
    "one array": json.dumps(OBJECTS),
    "an array over lines": json.dumps(OBJECTS, indent=1) + "\n",
    "an array of lines": "[" + ",\n".join(map(json.dumps, OBJECTS)) + "\n]\n",
    "objects over lines": "\n".join(json.dumps(each, indent=2) for each in OBJECTS),
    "behind a mark": "\ufeff" + json.dumps(OBJECTS, indent=1, ensure_ascii=False),
    "an array below a blank line": "\n \r\n" + json.dumps(OBJECTS),
    "objects over lines below one": "\n"
    + json.dumps(OBJECTS[0], indent=1)
    + "".join(map(json.dumps, OBJECTS[1:])),
}


def read(path, format="pyserini", **more):
    facts = count_file(path, format=format, **more)
    stop = facts.num_records
    whole = list(read_records(path, format=format, start=0, stop=stop, facts=facts))
    for row in range(stop):
        one = read_records(path, format=format, start=row, stop=row + 1, facts=facts)
        assert list(one) == whole[row : row + 1]
    return whole


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("form", ["pyserini", "jsonl"])
def test_every_layout_holds_the_same_passages_whatever_is_read_of_it(
    layout, packed, form, tmp_path
):
    path = tmp_path / "a.json"
    data = LAYOUTS[layout].encode()
    path.write_bytes(gzip.compress(data) if packed else data)
    for every in (1, 2, 100):
        assert read(path, form, checkpoint_records=every) == PASSAGES
    assert format_of(path) == "pyserini"


@pytest.mark.parametrize("layout", ["lines", "one array", "objects over lines"])
@pytest.mark.parametrize(
    ("form", "names"), [("beir", ("_id", "text")), ("msmarco-v2", ("pid", "passage"))]
)
def test_every_layout_is_read_in_the_format_that_it_is_recognised_as(form, names, layout, tmp_path):
    path = tmp_path / "a.json"
    named = zip(("id", "contents"), names, strict=True)
    text = LAYOUTS[layout]
    for theirs, ours in named:
        text = text.replace(f'"{theirs}"', f'"{ours}"')
    path.write_text(text)
    assert format_of(path) == form
    assert read(path, form) == PASSAGES


@given(st.lists(st.text('ab"\\{}[],: \n\u2028é', max_size=8), max_size=6), st.integers(1, 3))
def test_texts_of_any_marks_are_read_as_they_are(tmp_path_factory, texts, every):
    path = tmp_path_factory.mktemp("j") / "a.json"
    objects = [{"id": str(n), "contents": text} for n, text in enumerate(texts)]
    for indent in (None, 1):
        path.write_text(json.dumps(objects, indent=indent, ensure_ascii=False))
        expected = [(each["id"], each["contents"]) for each in objects]
        assert read(path, checkpoint_records=every) == expected


def test_an_object_across_blocks_of_a_file_is_read_whole(tmp_path):
    """Each is five bytes longer than a block, so that blocks end at every place of its end."""
    path = tmp_path / "a.json"
    ends = "\\" * 30 + '"{'
    others = len(json.dumps({"id": "10", "contents": ends})) + len(", ")
    texts = ["x" * ((1 << 20) + 5 - others) + ends] * 12
    objects = [{"id": str(n), "contents": text} for n, text in enumerate(texts, 10)]
    path.write_text(json.dumps(objects))
    assert [text for _, text in read(path)] == texts


def test_an_array_without_objects_holds_no_passage(tmp_path):
    path = tmp_path / "a.json"
    path.write_text("[ ]\n")
    assert read(path) == []


def written(folder, files):
    for name, objects in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("".join(json.dumps(each) + "\n" for each in objects))
    return folder


def test_a_folder_of_pyserinis_is_read_with_its_sub_folders(tmp_path):
    (tmp_path / "work/stores").mkdir(parents=True)
    (tmp_path / "work/workspace.json").write_text("{}")
    names = ("b.jsonl", "x/a.json", "x/y/c.jsonl", ".x/h.json", "work/r.json", "README.md")
    folder = written(tmp_path, {name: OBJECTS[:1] for name in names})
    (folder / "x/loop").symlink_to(folder)
    files = FORMATS["pyserini"].files([folder])
    assert [file.relative_to(folder).as_posix() for file in files] == [
        "x/a.json", "b.jsonl", "x/y/c.jsonl"]  # fmt: skip
    assert not_read(folder, files) == ["README.md", "x/loop/"]
    (folder / "b.jsonl").unlink()
    assert format_of(folder) == "pyserini"


@pytest.mark.parametrize(
    ("form", "name"), [("jsonl", "b.json"), ("csv", "b.csv"), ("msmarco-v1", "b.tsv")]
)
def test_a_folder_whose_sub_folders_hold_more_of_the_kind_is_refused(form, name, tmp_path):
    folder = written(tmp_path, {f"a.{name[2:]}": [], f"sub/{name}": [], f"qrels/{name}": []})
    (folder / f"a.{name[2:]}").write_text("docno,text\n")
    (folder / "sub" / name).write_text("docno,text\n")
    with pytest.raises(InputError, match=f"sub/{name}: in a sub-folder, which is not read"):
        FORMATS[form].files([folder])
    assert len(FORMATS[form].files([folder, folder / "sub"])) == 2
    (folder / f"a.{name[2:]}").unlink()
    with pytest.raises(InputError, match="sub has some: name that folder"):
        FORMATS[form].files([folder])
    written(tmp_path, {f"lang=de/{name}": [], f"lang=de/more.{name[2:]}": []})
    told = "lang=de and 1 more have some: name each of these folders"
    with pytest.raises(InputError, match=told):
        FORMATS[form].files([folder])


def test_queries_and_judgements_beside_the_passages_are_not_read_as_passages(tmp_path):
    names = ("passages.tsv", "queries.dev.tsv", "Qrels.tsv", "topics-1.tsv", "queriesish.tsv")
    folder = written(tmp_path, dict.fromkeys(names, []))
    files = FORMATS["msmarco-v1"].files([folder])
    assert [file.name for file in files] == ["passages.tsv", "queriesish.tsv"]
    assert not_read(folder, files) == ["Qrels.tsv", "queries.dev.tsv", "topics-1.tsv"]
    (only := tmp_path / "q").mkdir()
    (only / "queries.tsv").touch()
    assert FORMATS["msmarco-v1"].files([only]) == [only / "queries.tsv"]


parse = FORMATS["jsonl"].parse


@pytest.mark.parametrize(
    ("line", "passage"),
    [
        (b'{"docno": "d1", "text": "a"}', ("d1", "a")),
        (b'{"doc_id": 7, "title": "t", "body": "a", "url": []}', ("7", "t a")),
        (b'{"_id": "d1", "title": null, "contents": "a"}', ("d1", "a")),
        (b'{"docid": 3, "docno": "d1", "passage": "a", "title": ""}', ("d1", "a")),
        (b'{"docid": "d1#0", "headings": "h", "segment": "a"}', ("d1#0", "h a")),
        (b'{"docid": "d", "title": "t", "headings": "h\\nk", "body": "t b"}', ("d", "t h\nk t b")),
    ],
)
def test_an_object_may_have_any_name_of_the_field(line, passage):
    assert parse(line) == passage


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (b'{"text": "a"}', 'expected a field "passage_id" or "docno" or'),
        (b'{"id": "1"}', 'expected a field "text" or "contents" or'),
        (b'{"id": "1", "text": 5}', 'expected a string in "text"'),
        (b'{"id": "a b", "text": "a"}', "white space or a control character in the id"),
    ],
)
def test_an_object_that_lacks_one_is_refused(line, told):
    with pytest.raises(ValueError) as caught:
        parse(line)
    assert told in str(caught.value)
