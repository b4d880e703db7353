"""Collections of documents as stores: split or given, changed, and read as a generation."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from recipes import invoke, stored
from small_documents import document, recipe_of, write_documents, write_inputs

import raypipe
from raypipe import schema
from raypipe.config.load import load_recipe
from raypipe.driver.forecast.plan import make_plan
from raypipe.errors import InputError


@pytest.fixture
def inputs(tmp_path):
    write_inputs(tmp_path)
    return tmp_path


@pytest.fixture
def body(inputs, tiny_model, tiny_mono):
    """The recipe with vectors and one run of documents."""
    found = recipe_of(inputs, tiny_model, tiny_mono)
    kept = ("embeddings", "dense", "maxp")
    found["stages"] = {name: found["stages"][name] for name in kept}
    found["stages"]["maxp"]["run"] = "dense"
    return found


@pytest.fixture
def alone(body):
    """The recipe's collection without queries and stages."""
    kept = ("format", "name", "collection", "resources")
    return {name: body[name] for name in kept}


def finished(body, folder, **options):
    return invoke(body, folder, **options).summary


def rows_of(folder, summary, name, columns):
    return stored(folder, summary, name).table(columns).to_pylist()


def ids_of(folder, system):
    lines = (folder / "runs" / "test" / f"{system}.trec").read_text().splitlines()
    return [tuple(line.split()[:3:2]) for line in lines]


def test_a_changed_document_makes_only_its_own_passages_new(body, inputs):
    """And all is as if the changed documents had been the first."""
    work, calm = inputs / "work", inputs / "calm"
    finished(body, work)
    # The fifth document has 3 passages in place of 7, so that every later one has other rows.
    changed = [document(n) for n in range(12)]
    changed[4]["body"] = "i j k l m n o"
    write_documents(inputs / "docs.jsonl", changed)
    again, anew = (finished(body, folder)["stages"] for folder in (work, calm))
    assert again["passages@collection"]["rows"] == 30
    for name in ("tokens@encoder", "embeddings"):
        assert (again[name]["copied"], anew[name]["copied"]) == (27, 0)
    for name in ("passages@collection", "tokens@encoder", "embeddings", "dense.test", "maxp.test"):
        assert blobs(work, name, again) == blobs(calm, name, anew)


def blobs(folder, name, stages):
    """The fingerprint of a store and the hashes of its payloads."""
    fingerprint = stages[name]["fingerprint"]
    text = (folder / "stores" / name / fingerprint / "manifest.json").read_text()
    return fingerprint, [record["sha256"] for record in json.loads(text)["body"]["records"]]


def test_other_words_in_front_split_the_same_documents_anew(alone, inputs):
    first = finished(alone, inputs / "work")["stages"]
    alone["collection"]["split"]["title_words"] = 2
    again = finished(alone, inputs / "work")["stages"]
    assert all(again[f"{name}@collection"]["reused"] for name in ("documents", "windows", "map"))
    split, before = again["passages@collection"], first["passages@collection"]
    assert not split["reused"] and split["rows"] == before["rows"] == 34


@pytest.fixture
def given(inputs):
    """The passages of three documents in the fields of MS MARCO v2, those of one apart."""
    places = [("b", 9), ("a", 0), ("b", 0), ("c", 3), ("b", 50)]
    lines = [
        {"pid": f"p{n}", "passage": f"alpha {n} beta", "docid": d, "spans": f"({at},{at + 2})"}
        for n, (d, at) in enumerate(places)
    ]
    (inputs / "passages.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (inputs / "qrels.txt").write_text("q1 0 b 1\n")
    return inputs / "passages.jsonl"


@pytest.mark.parametrize(
    "collection",
    [
        {"format": "msmarco-v2", "split": {"by": "given"}},
        {
            "format": "jsonl",
            "fields": {"id": "pid", "body": "passage", "document": "docid"},
            "split": {"by": "given"},
        },
    ],
    ids=["msmarco-v2", "jsonl"],
)
def test_passages_that_are_given_keep_their_ids_and_make_runs_of_their_documents(
    body, given, inputs, collection
):
    body["collection"] = {"input": str(given), **collection}
    summary = finished(body, inputs / "work")
    passages = rows_of(inputs / "work", summary, "passages@collection", schema.PASSAGES)
    assert [row["passage_id"] for row in passages] == [f"p{n}" for n in range(5)]
    documents = rows_of(inputs / "work", summary, "documents@collection", schema.DOCUMENTS)
    assert [row["document_id"] for row in documents] == ["b", "a", "c"]
    home = dict(zip("p0 p1 p2 p3 p4".split(), "babcb", strict=True))
    found, dense = ids_of(inputs / "work", "maxp"), ids_of(inputs / "work", "dense")
    assert found == list(dict.fromkeys((query, home[passage]) for query, passage in dense))


def test_passages_by_named_fields_are_the_same_from_any_file(alone, inputs):
    rows = [("winter", f"alpha {n}", f"d{n}") for n in range(5)] + [("", "beta", "d5")]
    names = ("name", "abstract", "key")
    pq.write_table(pa.table(list(map(list, zip(*rows, strict=True))), names), inputs / "p.parquet")
    lines = [json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in rows]
    (inputs / "p.jsonl").write_text("".join(lines))
    text = "".join(",".join(row) + "\n" for row in (names, *rows))
    (inputs / "p.csv").write_text(text)
    found = []
    for form in ("jsonl", "csv", "parquet"):
        fields = {"id": "key", "title": "name", "body": "abstract"}
        alone["collection"] = {"format": form, "input": f"{inputs}/p.{form}", "fields": fields}
        summary = finished(alone, inputs / form)
        found.append(rows_of(inputs / form, summary, "passages@collection", schema.PASSAGES))
    assert found[0] == found[1] == found[2]
    texts = {row["passage_id"]: row["text"] for row in found[0]}
    assert len(texts) == 6 and (texts["d4"], texts["d5"]) == ("winter alpha 4", "beta")


def test_given_passages_are_the_store_of_a_collection_of_passages_alone(alone, given, inputs):
    found = []
    for more in ({}, {"split": {"by": "given"}}):
        alone["collection"] = {"format": "msmarco-v2", "input": str(given), **more}
        found.append(finished(alone, inputs / "work")["stages"]["passages@collection"])
    assert found[1]["reused"] and found[0]["fingerprint"] == found[1]["fingerprint"]


@pytest.mark.parametrize(
    ("split", "first"),
    [
        ({"by": "whole"}, ["D0#0", "D1#0", "D2#0"]),
        ({"length": 3, "stride": 2, "at_most": 1}, ["D0#0", "D1#0", "D2#0"]),
        ({"by": "sentences", "length": 1, "stride": 1}, ["D0#0", "D1#0", "D2#0"]),
        ({"length": 3, "stride": 3}, ["D0#0", "D1#0", "D1#1"]),
    ],
)
def test_documents_of_v1_are_split_by_the_units_that_are_asked_for(alone, inputs, split, first):
    lines = [f"D{n}\tu\ttitle {n}\t{document(n)['body']}\n" for n in range(12)]
    (inputs / "docs.tsv").write_text("".join(lines))
    found = {"format": "msmarco-doc-v1", "input": str(inputs / "docs.tsv"), "split": split}
    summary = finished({**alone, "collection": found}, inputs / "work")
    rows = rows_of(inputs / "work", summary, "passages@collection", schema.PASSAGES)
    assert [row["passage_id"] for row in rows[:3]] == first
    assert rows[0]["text"].startswith("title 0 ")


def test_a_document_id_that_is_there_twice_is_refused(alone, inputs):
    write_documents(inputs / "docs.jsonl", [document(1), document(2), document(1)])
    with pytest.raises(InputError, match="document id 'D1' again"):
        finished(alone, inputs / "work")


def test_files_without_a_document_are_refused(alone, inputs):
    (inputs / "docs.jsonl").write_text("")
    with pytest.raises(InputError, match="expected documents, found no record"):
        finished(alone, inputs / "work")


def test_a_generation_has_the_documents_of_its_runs_and_tells_how_they_moved(body, inputs):
    first = finished(body, inputs / "work", reindex=True)
    assert first["generation"]["number"] == 1
    write_documents(inputs / "docs.jsonl", [document(n) for n in (11, *range(11))])
    second = finished(body, inputs / "work", reindex=True)
    drift = second["generation"]["drift"]["test"]["maxp"]
    assert drift["means"]["overlap@10"] == 1.0 and drift["gained"] == 0
    with raypipe.open_index(inputs / "work") as index:
        found = index.run("maxp", "test")
        assert set(found["passage_id"].to_pylist()) <= {f"D{n}" for n in range(12)}
        assert index.passages(["D0#0"])["D0#0"].startswith("alpha ")


def segment(number, part, start):
    """A record as in MS MARCO v2.1's segments, whose first one begins with the title."""
    title, headings = f"Title {number}", f"One\\nTwo {number}"
    return {
        "docid": f"msmarco_v2.1_doc_00_{number}#{part}_{start}", "url": "http://a.b/",
        "title": title, "headings": headings,
        "segment": f"{title if part == 0 else 'words'} of part {part}",
        "start_char": start, "end_char": start + 20,
    }  # fmt: skip


SEGMENTS = [segment(n, part, start) for n in (0, 70) for part, start in ((0, 0), (1, 155))]


def of_segments(folder, form, **collection):
    """A recipe that ranks the documents of four segments by their best ones, and measures them."""
    if form == "jsonl":
        text = "".join(json.dumps(each) + "\n" for each in SEGMENTS)
        (folder / "segments.jsonl").write_text(text)
    else:
        pq.write_table(pa.Table.from_pylist(SEGMENTS), folder / "segments.parquet")
    (folder / "q.tsv").write_text("q1\twords\n")
    ranked = [SEGMENTS[place]["docid"] for place in (1, 2, 0, 3)]
    (folder / "run.trec").write_text(
        "".join(f"q1 Q0 {name} {n} {9 - n} x\n" for n, name in enumerate(ranked, 1))
    )
    (folder / "qrels.txt").write_text("q1 0 msmarco_v2.1_doc_00_70 1\n")
    place = str(folder / f"segments.{form}")
    judged = {"file": str(folder / "q.tsv"), "document_qrels": str(folder / "qrels.txt")}
    split = {"by": "given", "delimiter": "#"}
    return {
        "format": 1,
        "name": "segments",
        "collection": {"format": form, "input": place, "split": split, **collection},
        "queries": {"test": judged},
        "stages": {
            "first": {"do": "read", "runs": {"test": str(folder / "run.trec")}},
            "maxp": {"do": "documents", "run": "first", "method": "maxp"},
        },
        "evaluate": {"measures": ["RR@10"]},
        "resources": {"backend": "inline"},
    }


FIELDS = {"fields": {"id": "docid", "body": "segment"}}


@pytest.mark.parametrize(
    ("form", "more", "in_front"),
    [("jsonl", {}, True), ("jsonl", FIELDS, False), ("parquet", {}, True)],
)
def test_segments_of_ms_marco_name_their_documents_in_front_of_the_delimiter(
    form, more, in_front, tmp_path
):
    summary = finished(of_segments(tmp_path, form, **more), tmp_path / "work")
    documents = ["msmarco_v2.1_doc_00_0", "msmarco_v2.1_doc_00_70"]
    assert ids_of(tmp_path / "work", "maxp") == [("q1", name) for name in documents]
    assert summary["measures"]["test"]["maxp"]["RR@10"] == 0.5
    rows = rows_of(tmp_path / "work", summary, "passages@collection", schema.PASSAGES)
    # As ir_datasets reads them: title, headings and segment, whatever the segment begins with.
    expected = [
        f"{each['title']} {each['headings']} {each['segment']}" if in_front else each["segment"]
        for each in SEGMENTS
    ]
    assert [row["text"] for row in rows] == expected


@pytest.mark.parametrize("bad", ["d1", "d1#0#1", "#0", "d1#"])
def test_an_id_without_one_delimiter_is_refused_before_any_work(bad, tmp_path):
    body = of_segments(tmp_path, "jsonl")
    lines = (tmp_path / "segments.jsonl").read_text().splitlines()
    lines[1] = json.dumps({**SEGMENTS[1], "docid": bad})
    (tmp_path / "segments.jsonl").write_text("\n".join(lines) + "\n")
    with pytest.raises(InputError, match="line 2: expected an id with '#' once") as caught:
        finished(body, tmp_path / "work")
    assert repr(bad) in str(caught.value)
    assert not (tmp_path / "work/stores").exists()


def test_fields_of_other_names_are_refused_with_one_remedy(tmp_path):
    (tmp_path / "p.jsonl").write_text('{"key": "1", "content": "a"}\n' * 3)
    body = of_segments(tmp_path, "jsonl", input=str(tmp_path / "p.jsonl"))
    del (
        body["collection"]["split"],
        body["stages"]["maxp"],
        body["queries"]["test"]["document_qrels"],
    )
    del body["evaluate"]
    with pytest.raises(InputError) as caught:
        finished(body, tmp_path / "work")
    assert len(caught.value.problems) == 4
    assert "collection.fields: {id: key, body: content}" in caught.value.problems[-1]


def test_what_a_folder_holds_and_its_format_does_not_read_is_named(tmp_path):
    folder = tmp_path / "passages"
    (folder / "sub").mkdir(parents=True)
    (folder / "sub" / "a.json").write_text('{"id": "1", "contents": "a"}\n')
    (folder / "b.json").write_text('[{"id": "2",\n"contents": "b"}]')
    for name in ("README.md", *(f"{n}.tsv" for n in range(6))):
        (folder / name).write_text("x")
    body = {
        "format": 1,
        "name": "named",
        "collection": {"format": "pyserini", "input": str(folder)},
        "resources": {"backend": "inline"},
    }
    lines = []
    summary = invoke(body, tmp_path / "work", said=lines).summary
    rows = rows_of(tmp_path / "work", summary, "passages@collection", schema.PASSAGES)
    assert [tuple(row.values()) for row in rows] == [("1", "a"), ("2", "b")]
    (said,) = [line for line in lines if "not read" in line]
    assert said in make_plan(load_recipe(body, source="named"), tmp_path / "plan").forecast.notes
    assert said == (f"{folder}: not read as pyserini: 0.tsv, 1.tsv, 2.tsv, 3.tsv, 4.tsv and 2 more")
