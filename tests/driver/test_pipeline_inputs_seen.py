"""What the main job must see of its inputs: content, prefixes, tails, dense ids, new stages."""

import json
import logging
import os
from dataclasses import replace

import numpy as np
import pytest
from recipes import invoke, stored

from raypipe import schema
from raypipe.data import facts as known
from raypipe.errors import InputError, RefusedError
from raypipe.evaluation.run_files.runs import read_run
from raypipe.models.folder.model_folder import open_tokenizer, resolve_model
from raypipe.models.load import load_scorer
from raypipe.stages.in_memory import encode_texts
from raypipe.text.inputs import TextSlice
from raypipe.text.tokenize import tokenize_batch

PASSAGES = ["a lease of the shard", "the zebra run", "rank of a query", "a passage", "the run"]
QUERIES = {"q1": "zebra rank", "q2": "lease"}
RECIPE = """
format: 1
name: seen
collection: {{format: msmarco-v1, input: {folder}/passages.tsv}}
queries: {{dev: {{file: {folder}/queries.tsv}}}}
{models}
stages:
  given: {{do: read, runs: {{dev: {folder}/run.trec}}}}
{stages}
resources: {{backend: inline, device: cpu}}
"""


@pytest.fixture
def files(tmp_path):
    """Five passages with ids 0 to 4, two queries, and a run that has all of them."""
    folder = tmp_path / "files"
    folder.mkdir()
    lines = [f"{row}\t{text}\n" for row, text in enumerate(PASSAGES)]
    (folder / "passages.tsv").write_text("".join(lines))
    (folder / "queries.tsv").write_text("".join(f"{q}\t{text}\n" for q, text in QUERIES.items()))
    runs = [(q, p, r) for q in QUERIES for r, p in enumerate((3, 1, 4, 0, 2), 1)]
    (folder / "run.trec").write_text("".join(f"{q} Q0 {p} {r} {9 - r} x\n" for q, p, r in runs))
    return folder


@pytest.fixture
def run(files, tmp_path):
    """A function that runs a recipe with these models and further stages in one workspace."""

    def go(*overrides, models="", stages="", **options):
        text = RECIPE.format(folder=files, models=models, stages=stages)
        return invoke(text, tmp_path / "w", *overrides, **options).summary

    return go


def pieces_of(model, texts):
    flat, offsets = tokenize_batch(open_tokenizer(model), texts, max_pieces=512)
    return [flat[a:b].tolist() for a, b in zip(offsets, offsets[1:], strict=False)]


def pieces_in(tokens):
    flat, offsets = tokens.tokens(0, tokens.num_rows)
    return [flat[a:b].tolist() for a, b in zip(offsets, offsets[1:], strict=False)]


def vectors_in(embeddings):
    return [embeddings.vectors(record).tobytes() for record in embeddings.manifest.records]


def vectors_of(model, prefixed):
    """The embeddings of queries that have their prefix already."""
    bare = replace(model, conventions=replace(model.encoder, query_prefix=""))
    return [encode_texts(bare, prefixed, side="query", device="cpu").tobytes()]


PREFIXES = {"query_prefix": "query zebra ", "passage_prefix": "the lease "}


def test_an_encoders_queries_get_the_querys_prefix_and_passages_the_passages(run, tiny, tmp_path):
    folder = tiny.make_tiny_bert(tmp_path / "model", **PREFIXES)
    model = resolve_model(str(folder))
    summary = run(
        models=f"models: {{tiny: {{path: {folder}}}}}",
        stages="  vectors: {do: encode, model: tiny}\n"
        "  dense: {do: search, index: vectors, depth: 3}",
    )
    queries = [f"query zebra {text}" for text in QUERIES.values()]
    assert vectors_in(stored(tmp_path / "w", summary, "vectors.dev")) == vectors_of(model, queries)
    passages = pieces_in(stored(tmp_path / "w", summary, "tokens@tiny"))
    assert passages == pieces_of(model, [f"the lease {text}" for text in PASSAGES])


def test_a_rerankers_queries_get_the_querys_prefix_and_passages_the_passages(run, tiny, tmp_path):
    folder = tiny.make_tiny_reranker(tmp_path / "model", **PREFIXES)
    model = resolve_model(str(folder))
    run(
        models=f"models: {{mono: {{path: {folder}}}}}",
        stages="  mono: {do: score, run: given, model: mono, k0: 5}",
    )
    pairs = [(q, p) for q in QUERIES for p in range(5)]
    parts = []
    for texts in (
        [f"query zebra {QUERIES[q]}" for q, _ in pairs],
        [f"the lease {PASSAGES[p]}" for _, p in pairs],
    ):
        flat, offsets = tokenize_batch(open_tokenizer(model), texts, max_pieces=512)
        parts.append(TextSlice(flat, offsets[:-1], np.diff(offsets)))
    scores = dict(zip(pairs, load_scorer(model).score(parts[0], parts[1:]), strict=True))
    for query in QUERIES:
        expected = sorted(range(5), key=lambda p, q=query: (-scores[q, p], p))
        assert ranking(tmp_path, "mono", query) == [str(p) for p in expected]


def ranking(tmp_path, system, query):
    table = read_run(tmp_path / "w" / "runs" / "dev" / f"{system}.trec").to_pylist()
    return [line["passage_id"] for line in table if line["query_id"] == query]


def test_another_tail_makes_another_run(run, tiny_mono, tiny_duo, tmp_path):
    given = {
        "models": f"models: {{mono: {{path: {tiny_mono}}}, duo: {{path: {tiny_duo}}}}}",
        "stages": "  mono: {do: score, run: given, model: mono, k0: 3}\n"
        "  duo: {do: score, run: mono, model: duo, k1: 2}\n"
        "  sum: {do: aggregate, pairs: duo, method: sum}",
    }
    kept = run(**given)
    before = {name: ranking(tmp_path, name, "q1") for name in ("mono", "sum")}
    # Ranks 4 and 5 of the run that was read stay below, in their order.
    assert before["mono"][3:] == ["0", "2"] and sorted(before["mono"][:3]) == ["1", "3", "4"]
    assert before["sum"][2:] == before["mono"][2:] and len(before["sum"]) == 5
    cut = run("stages.sum.tail=drop", **given)
    assert cut["stages"]["sum.dev"]["fingerprint"] != kept["stages"]["sum.dev"]["fingerprint"]
    assert ranking(tmp_path, "sum", "q1") == before["sum"][:2]
    both = run("stages.mono.tail=drop", "stages.sum.tail=keep", **given)
    assert both["stages"]["mono.dev"]["fingerprint"] != kept["stages"]["mono.dev"]["fingerprint"]
    assert ranking(tmp_path, "mono", "q1") == before["mono"][:3]
    assert ranking(tmp_path, "sum", "q1") == before["sum"][:3]


def test_a_file_rewritten_with_the_same_size_is_read_again(run, files, tmp_path):
    summary = run()
    path = files / "passages.tsv"
    stat = path.stat()
    path.write_text(path.read_text().replace("zebra", "shard"))
    assert path.stat().st_size == stat.st_size
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns + 1))
    again = run()
    assert not again["stages"]["passages@collection"]["reused"]
    table = stored(tmp_path / "w", again, "passages@collection").table(schema.PASSAGES)
    assert table["text"].to_pylist()[1] == "the shard run"
    before = stored(tmp_path / "w", summary, "passages@collection").table(schema.PASSAGES)
    assert before["text"].to_pylist()[1] == "the zebra run"


@pytest.fixture
def msmarco(files, monkeypatch):
    """A collection named as MS MARCO's, which for once has three passages."""
    monkeypatch.setattr(known, "MSMARCO_V1_PASSAGES", 3)
    monkeypatch.setitem(known.NUM_RECORDS, "collection.tsv", 3)
    (files / "run.trec").write_text("q1 Q0 0 1 2.0 x\n")

    def write(*ids):
        (files / "collection.tsv").write_text("".join(f"{i}\ta passage\n" for i in ids))
        return f"collection.input={files}/collection.tsv"

    return write


def test_ids_that_are_not_their_lines_are_refused_in_msmarcos_collection(run, msmarco):
    assert run(msmarco("0", "1", "2"))["exit"] == 0
    for ids in (("0", "2", "3"), ("0", "1", "1"), ("0", "01", "2"), ("1", "0", "2")):
        with pytest.raises(InputError, match="expected id|passage id '1' again"):
            run(msmarco(*ids))


@pytest.mark.fault(25, "a missing line of MS MARCO's collection is told with both counts")
def test_a_missing_line_of_msmarcos_collection_is_told(run, msmarco, caplog):
    with caplog.at_level(logging.WARNING, "raypipe"):
        run(msmarco("0", "1", "2"))
        assert "official MS MARCO file" not in caplog.text
        run(msmarco("0", "2"))
    assert "collection.tsv: 2 records; the official MS MARCO file of this name has 3" in caplog.text


def names(folder):
    return sorted(str(path.relative_to(folder)) for path in (folder / "stores").glob("*/*"))


@pytest.mark.fault(21, "`--frozen` refuses a new stage and a new query set")
def test_frozen_refuses_a_new_stage_and_a_new_query_set_before_any_work(run, files, tmp_path):
    run()
    before = names(tmp_path / "w")
    more = f"  more: {{do: read, runs: {{dev: {files}/run.trec}}}}"
    with pytest.raises(RefusedError, match="more.dev: not in the last invocation"):
        run(stages=more, frozen=True)
    other = f"queries={{test: {{file: {files}/queries.tsv}}}}"
    with pytest.raises(RefusedError, match="queries.test: not in the last invocation"):
        run(other, f"stages.given.runs={{test: {files}/run.trec}}", frozen=True)
    assert names(tmp_path / "w") == before
    assert json.loads((tmp_path / "w" / "summary.json").read_text())["exit"] == 4
    assert run(frozen=True)["exit"] == 0


def test_a_torn_line_of_a_stores_log_is_passed_over(run, tmp_path):
    run()
    for log in (tmp_path / "w" / "stores").glob("*/*/attempts.jsonl"):
        with log.open("ab") as out:
            out.write(b'{"event": "published", "work')
    summary = run()
    assert summary["exit"] == 0 and summary["stages"]["given.dev"]["reused"]
