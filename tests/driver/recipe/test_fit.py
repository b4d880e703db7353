"""Judged passages and queries that are not there are counted; where none is, no work is done."""

import pyarrow as pa
import pytest

from raypipe import schema
from raypipe.cli.main import run
from raypipe.config.load import load_recipe
from raypipe.driver.execute import Watcher
from raypipe.driver.pipeline import Options, run_pipeline
from raypipe.driver.recipe import fit
from raypipe.driver.recipe.fit import fit_of
from raypipe.errors import InputError

JUDGED = [("q1", "a"), ("q1", "x"), ("q2", "a"), ("q3", "y"), ("q4", "b")]


def judgements(pairs):
    columns = [list(column) for column in zip(*pairs, strict=True)]
    return pa.table([*columns, [1] * len(pairs)], schema=schema.QRELS)


def test_each_number_that_is_not_all_has_a_line():
    def found(passages, queries):
        return fit_of(
            judgements(JUDGED), "passages", queries, lambda ids: [each in passages for each in ids]
        )

    some = found("ab", ["q1", "q2", "q3", "q9"])
    assert some.lines() == [
        "2 of 4 judged passages are in the collection",
        "3 of 4 judged queries are in the query set; each of the others counts 0",
        "3 of 4 queries are judged",
    ]
    assert some.problems("qrels.txt") == []
    assert found("abxyz", ["q1", "q2", "q3", "q4"]).lines() == []
    assert found("", ["q9"]).problems("qrels.txt") == [
        "qrels.txt: 0 of 4 judged passages are in the collection (a, x, y, b); name the judgements "
        "of this collection, otherwise every measure is 0",
        "qrels.txt: 0 of 4 judged queries are in the query set; name the judgements of this query "
        "set, otherwise every measure is 0",
    ]


RECIPE = """
format: 1
name: mine
collection: {format: msmarco-v1, input: passages.tsv}
queries: {test: {file: queries.tsv, qrels: qrels.txt}}
models: {tiny: {path: MODEL}}
stages:
  vectors: {do: encode, model: tiny}
  dense: {do: search, index: vectors, depth: 2}
evaluate: {measures: [RR@10]}
resources: {backend: inline, device: cpu, threads: 1}
"""


@pytest.fixture
def here(tmp_path, tiny_model, monkeypatch):
    """A folder, the current one: three passages, four queries of which one is not judged."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "passages.tsv").write_text("a\tzebra\nb\tlease\nc\tshard\n")
    (tmp_path / "queries.tsv").write_text("q1\tzebra\nq2\tlease\nq3\tshard\nq9\trank\n")
    (tmp_path / "qrels.txt").write_text("".join(f"{q} 0 {p} 1\n" for q, p in JUDGED))
    (tmp_path / "mine.yaml").write_text(RECIPE.replace("MODEL", str(tiny_model)))
    return tmp_path


LINES = [
    "2 of 4 judged passages are in the collection",
    "3 of 4 judged queries are in the query set; each of the others counts 0",
    "3 of 4 queries are judged",
]


def test_the_table_the_plan_and_init_say_what_is_not_there(here, capsys):
    assert run(["pipeline", "mine.yaml", "--out", "work"])[0] == 0
    table = (here / "work" / "table.md").read_text()
    assert all(f"- {line}\n" in table for line in LINES)
    assert run(["plan", "mine.yaml", "--out", "other"])[0] == 0
    planned = capsys.readouterr().out
    assert all(f"- test: {line}\n" in planned for line in LINES)
    assert run(["init", "passages.tsv", "queries.tsv", "qrels.txt", "--models=minilm"])[0] == 0
    written = (here / "my-recipe.yaml").read_text()
    assert written.splitlines()[1:4] == [f"# queries: {line}" for line in LINES]
    (here / "qrels.txt").write_text("q1 0 a 1\nq2 0 b 0\nq3 0 c 1\nq9 0 c 1\n")
    assert run(["pipeline", "mine.yaml", "--out", "work"])[0] == 0
    assert not any(line[6:] in (here / "work" / "table.md").read_text() for line in LINES)


def test_judgements_of_another_collection_are_refused_by_every_command_before_work(here, capsys):
    (here / "qrels.txt").write_text("q1 0 x 1\nq2 0 y 1\n")
    problem = "0 of 2 judged passages are in the collection (x, y); name the judgements of this"
    for words in (
        ["init", "passages.tsv", "queries.tsv", "qrels.txt"],
        ["plan", "mine.yaml"],
        ["pipeline", "mine.yaml", "--out", "work"],
    ):
        assert run(words)[0] == 2
        assert f"qrels.txt: {problem}" in capsys.readouterr().err
    assert not (here / "my-recipe.yaml").exists()
    assert not (here / "work" / "stores" / "vectors").exists()
    (here / "qrels.txt").write_text("q1 0 x 1\nq2 0 c 0\n")
    assert run(["pipeline", "mine.yaml", "--out", "work"])[0] == 0


def test_a_collection_too_large_to_look_through_is_left_to_the_run(here, monkeypatch, capsys):
    monkeypatch.setattr(fit, "READ_BYTES", 10)
    assert run(["plan", "mine.yaml"])[0] == 0
    assert "judged passages" not in capsys.readouterr().out


def test_queries_that_choose_parameters_must_be_judged_over_this_collection(here):
    tune = "tune: {queries: test, measure: RR@10, k1: [0.9], b: [0.4]}"
    stages = f"{{lucene: {{do: index}}, bm25: {{do: search, index: lucene, bm25: {{{tune}}}}}}}"
    text = "\n".join(
        [
            "format: 1",
            "name: mine",
            "collection: {format: msmarco-v1, input: passages.tsv}",
            "queries:",
            "  test: {file: queries.tsv, qrels: qrels.txt, report: false}",
            "  other: {file: queries.tsv}",
            f"stages: {stages}",
            "resources: {backend: inline}",
        ]
    )
    recipe = load_recipe(text, base=here, source="test")
    for judged, problem in {
        "q1 0 x 1\n": "0 of 1 judged passages are in the collection (x)",
        "z 0 a 1\n": "0 of 1 judged queries are in the query set",
    }.items():
        (here / "qrels.txt").write_text(judged)
        with pytest.raises(InputError) as raised:
            run_pipeline(recipe, here / "work", Options(), watcher=Watcher())
        assert problem in str(raised.value)
    assert not (here / "work" / "stores" / "lucene").exists()


DOCUMENTS = """
format: 1
name: mine
collection:
  format: jsonl
  input: documents.jsonl
  fields: {id: id, body: body}
  split: {by: words, length: 3, stride: 3}
queries: {test: {file: queries.tsv, document_qrels: qrels.txt}}
models: {tiny: {path: MODEL}}
stages:
  vectors: {do: encode, model: tiny}
  dense: {do: search, index: vectors}
  best: {do: documents, run: dense, method: maxp}
evaluate: {measures: [RR@10]}
resources: {backend: inline, device: cpu, threads: 1}
"""


def test_judged_documents_are_looked_for_among_the_documents(here, tiny_model, capsys):
    (here / "documents.jsonl").write_text('{"id": "a", "body": "zebra lease shard rank"}\n')
    (here / "mine.yaml").write_text(DOCUMENTS.replace("MODEL", str(tiny_model)))
    line = "1 of 4 judged documents are in the collection"
    assert run(["plan", "mine.yaml"])[0] == 0
    assert f"- test: {line}\n" in capsys.readouterr().out
    assert run(["pipeline", "mine.yaml", "--out", "work"])[0] == 0
    assert f"- {line}\n" in (here / "work" / "table.md").read_text()
    (here / "qrels.txt").write_text("q1 0 a#0 1\n")  # a passage's id
    for words in (["plan", "mine.yaml"], ["pipeline", "mine.yaml", "--out", "work"]):
        assert run(words)[0] == 2
        assert "0 of 1 judged documents are in the collection (a#0)" in capsys.readouterr().err


def test_judgements_whose_first_lines_alone_are_of_others_are_taken(here):
    others = "".join(f"z{i} 0 x{i} 1\n" for i in range(fit.FIRST + 1))
    (here / "qrels.txt").write_text(f"{others}q1 0 a 1\n")
    assert run(["pipeline", "mine.yaml", "--out", "work"])[0] == 0
    line = "- 1 of 102 judged passages are in the collection\n"
    assert line in (here / "work" / "table.md").read_text()


def test_ids_of_queries_and_passages_that_merely_coincide_are_no_advice(here, capsys):
    (here / "qrels.txt").write_text("a 0 b 1\n")
    for text, advised in {"another text": False, "zebra": True}.items():
        (here / "queries.tsv").write_text(f"a\t{text}\nb\trank\n")
        assert run(["pipeline", "mine.yaml", "--out", "work"])[0] == 0
        line = "- 2 of 2 queries have passages of their own id, with the query's text"
        assert (line in capsys.readouterr().out) is advised
