"""Ids of the name of a file and the number of a record in it."""

import gzip
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from raypipe.config.load import load_recipe
from raypipe.data.facts import count_file
from raypipe.data.formats.registry import get_format
from raypipe.data.reading import read_records
from raypipe.driver.execute import Watcher
from raypipe.driver.pipeline import Options, run_pipeline
from raypipe.driver.workspace import Workspace
from raypipe.errors import InputError
from raypipe.stages.prepare import ConvertStage
from raypipe.storage.generations import read_generation

TEXTS = ["one", "two", "two", "", "five"]
OBJECTS = [json.dumps({"title": "T", "text": text}) for text in TEXTS]


def parquet(path, **columns):
    pq.write_table(pa.table(columns), path, row_group_size=2)


def write(folder):
    """Files of each kind, with the format of each."""
    parquet(folder / "a.parquet", title=["T"] * 5, text=TEXTS)
    parquet(folder / "ids.parquet", docno=["x", "x", None, "y", "z"], title=["T"] * 5, text=TEXTS)
    (folder / "lines.jsonl").write_text("".join(f"{each}\n" for each in OBJECTS))
    (folder / "array.json").write_text(f"[{', '.join(OBJECTS)}]")
    with gzip.open(folder / "packed.jsonl.gz", "wt") as lines:
        lines.write("\n".join(OBJECTS))
    (folder / "ids.jsonl").write_text("".join(f'{{"id": 7, {each[1:]}\n' for each in OBJECTS))
    return [
        (path, "parquet" if path.suffix == ".parquet" else "jsonl") for path in folder.iterdir()
    ]


def test_ids_are_the_files_name_and_the_records_number_wherever_reading_begins(tmp_path):
    files = write(tmp_path)
    assert len(files) == 6
    for path, format in files:
        facts = count_file(path, format=format, checkpoint_records=2)
        expected = [
            (f"{path.name}:{number}", f"T {text}" if text else "T ")
            for number, text in enumerate(TEXTS, 1)
        ]
        for start in range(5):
            for stop in range(start, 6):
                span = {"start": start, "stop": stop, "facts": facts}
                rows = [*read_records(path, format=format, ids="file-row", **span)]
                assert rows == expected[start:stop], path.name


def test_without_the_key_a_missing_column_names_it(tmp_path):
    parquet(tmp_path / "a.parquet", text=["one"])
    with pytest.raises(InputError, match="missing passage_id; .*`collection.id=file-row` makes"):
        get_format("parquet").files([tmp_path])


@pytest.mark.parametrize("format", ["parquet", "jsonl"])
def test_files_whose_rows_would_have_the_same_ids_or_none_are_refused(tmp_path, format):
    for folder, name in (("x", "a"), ("y", "a"), ("y", "b c")):
        (tmp_path / folder).mkdir(exist_ok=True)
        parquet(tmp_path / folder / f"{name}.parquet", text=["one"])
        (tmp_path / folder / f"{name}.jsonl").write_text('{"text": "one"}\n')
    files = get_format(format, ids="file-row").files
    assert len(files([tmp_path / "x"])) == 1
    with pytest.raises(InputError) as refused:
        files([tmp_path / "x", tmp_path / "y"])
    same, blank = refused.value.problems
    assert f"y/a.{format}: its rows would have the ids of those of" in same
    assert f"y/b c.{format}: it is part of ids: " in blank


RECIPE = """
format: 1
name: rows
collection: {{format: {format}, input: [{files}], id: file-row}}
queries: {{test: {{file: {folder}/queries.tsv}}}}
stages: {{given: {{do: read, runs: {{test: {folder}/run.trec}}}}}}
resources: {{backend: inline}}
"""


def test_only_passages_of_files_with_fields_have_such_ids():
    more = {"format": "parquet", "files": "a.parquet", "folder": "."}
    text = RECIPE.format(**more)
    with pytest.raises(InputError, match="collection.id: for formats jsonl and parquet only"):
        load_recipe(text.replace("format: parquet", "format: msmarco-v1"), source="rows")
    split = "id: file-row, fields: {id: x, body: y}, split: {by: whole}"
    with pytest.raises(InputError, match="collection.id: for passages without fields and split"):
        text = text.replace("parquet,", "jsonl,").replace("id: file-row", split)
        load_recipe(text, source="rows")


def test_a_renamed_file_makes_other_passages_only_where_its_name_is_part_of_ids(tmp_path):
    def fingerprint(name, ids):
        path = tmp_path / name
        parquet(path, docno=["x"], text=["one"])
        facts = count_file(path, format="parquet")
        return ConvertStage([path], [facts], "parquet", ids=ids).spec.fingerprint()

    assert fingerprint("a.parquet", None) == fingerprint("b.parquet", None)
    assert fingerprint("a.parquet", "file-row") != fingerprint("b.parquet", "file-row")


def test_the_rows_of_a_file_keep_their_ids_whatever_becomes_of_other_files(tmp_path):
    for name in ("a", "b"):
        parquet(tmp_path / f"{name}.parquet", text=[f"{name} {row}" for row in range(3)])
    (tmp_path / "queries.tsv").write_text("1\tany\n")
    (tmp_path / "run.trec").write_text("1 Q0 b.parquet:3 1 9 x\n")
    files = ", ".join(f"{tmp_path}/{name}.parquet" for name in ("a", "b"))
    text = RECIPE.format(format="parquet", files=files, folder=tmp_path)

    def night():
        options = Options(reindex=True)
        recipe = load_recipe(text, source="rows")
        run_pipeline(recipe, tmp_path / "work", options, watcher=Watcher())

    night()
    parquet(tmp_path / "a.parquet", text=["a 0", "a 1", "a 2", "a 3"])
    night()
    facts = read_generation(Workspace(tmp_path / "work").stores, "rows", 2).facts
    counts = [facts[name] for name in ("added", "removed", "changed", "unchanged")]
    assert counts == [1, 0, 0, 6]
