"""Excluded passages in a recipe: in no run and no score, and no older store brings them back."""

import json

import numpy as np
import pytest
from recipes import invoke, write_files

from raypipe.errors import InputError, RefusedError

RECIPE = """
format: 1
name: excluding
collection: {{format: msmarco-v1, input: {folder}/passages.tsv}}
queries: {{test: {{file: {folder}/queries.tsv, qrels: {folder}/qrels.txt{exclude}}}}}
models: {{tiny: {{path: {model}}}, mono: {{path: {mono}}}}}
stages:
  embeddings: {{do: encode, model: tiny}}
  dense: {{do: search, index: embeddings, depth: 25}}
  given: {{do: read, runs: {{test: {folder}/given.trec}}}}
  fused: {{do: fuse, runs: [dense, given], method: rrf, depth: 25}}
  mono: {{do: score, run: fused, model: mono, k0: 3}}
evaluate: {{measures: ["RR@10"], baseline: dense}}
resources: {{backend: inline, device: cpu, threads: 1, shard_rows: 11, shard_queries: 4}}
"""
WORDS = "lease shard rank query passage score merge model token batch".split()
SYSTEMS = ("dense", "given", "fused", "mono")


@pytest.fixture
def pipeline(tmp_path, tiny_model, tiny_mono):
    """Runs the recipe with the value of `exclude`; queries 0 to 5 have the texts of passages."""
    rng = np.random.default_rng(4)
    texts = [" ".join(rng.choice(WORDS, 5)) for _ in range(30)]
    queries = {f"p{i}": texts[i] for i in range(6)} | {"q6": "lease", "q7": "shard rank"}
    write_files(tmp_path, texts, queries, judged={f"p{i}": f"p{i + 10}" for i in range(6)})
    given = [
        f"p{i} Q0 p{(i + rank) % 30} {rank + 1} {9 - rank} t\n"
        for i in range(6)
        for rank in range(6)
    ]
    (tmp_path / "given.trec").write_text("".join(given))

    def run(exclude=None, out="work", **options):
        key = "" if exclude is None else f", exclude: {exclude}"
        text = RECIPE.format(folder=tmp_path, model=tiny_model, mono=tiny_mono, exclude=key)
        return invoke(text, tmp_path / out, base=tmp_path, **options).summary

    run.folder = tmp_path
    return run


def pairs(out, system):
    lines = (out / "runs" / "test" / f"{system}.trec").read_text().splitlines()
    return [(line.split()[0], line.split()[2]) for line in lines]


OWN = {(f"p{i}", f"p{i}") for i in range(6)}


def test_no_run_no_score_and_no_measure_has_a_querys_own_passage(pipeline):
    before = pipeline(out="without")
    for system in SYSTEMS:
        assert set(pairs(pipeline.folder / "without", system)) & OWN
    summary = pipeline("own-id")
    out = pipeline.folder / "work"
    for system in SYSTEMS:
        assert not set(pairs(out, system)) & OWN
    assert len(pairs(out, "dense")) == 8 * 25 == len(pairs(pipeline.folder / "without", "dense"))
    assert len(pairs(out, "given")) == 6 * 5
    assert summary["systems"]["test"]["mono"]["inferences"] == 8 * 3  # k0 counts none of them
    line = "exclude: own-id: 6 of 8 queries have passages of their own id, which are left out"
    assert line in summary["notes"]["test"]["passages"] and line in (out / "table.md").read_text()
    advice = "6 of 8 queries have passages of their own id, with the query's text, and may be"
    assert any(each.startswith(advice) for each in before["notes"]["test"]["passages"])
    assert not any(each.startswith(advice) for each in summary["notes"]["test"]["passages"])
    assert not any(each.startswith("exclude:") for each in before["notes"]["test"]["passages"])


def test_with_and_without_are_stores_apart_and_nothing_comes_back(pipeline):
    out = pipeline.folder / "work"
    without, summary = pipeline(), pipeline("own-id")
    apart = {"dense.test", "parts@dense.test", "given.test", "fused.test", "mono.test"}
    stages = summary["stages"]
    before = {name: each["fingerprint"] for name, each in without["stages"].items()}
    changed = {name for name in before if stages[name]["fingerprint"] != before[name]}
    assert apart <= changed and not changed & {"queries@test", "embeddings", "embeddings.test"}
    assert stages["scores@mono.test"]["copied"] > 0
    expected = {system: pairs(out, system) for system in SYSTEMS}
    again = pipeline()
    assert set(pairs(out, "mono")) & OWN
    assert all(each["reused"] for each in again["stages"].values())
    assert {name: each["fingerprint"] for name, each in again["stages"].items()} == before
    assert all(each["reused"] for each in pipeline("own-id")["stages"].values())
    assert {system: pairs(out, system) for system in SYSTEMS} == expected


def test_a_generation_that_copies_scores_has_none_of_them(pipeline):
    pipeline(reindex=True)
    pipeline("own-id", reindex=True)
    passages = pipeline.folder / "passages.tsv"
    first, *others = passages.read_text().splitlines(keepends=True)
    passages.write_text("".join(["new\tlease shard rank\n", *others, first]))
    summary = pipeline("own-id", reindex=True)
    assert summary["generation"]["number"] == 3 and summary["stages"]["scores@mono.test"]["copied"]
    out = pipeline.folder / "work"
    expected = {system: pairs(out, system) for system in SYSTEMS}
    assert not any(set(found) & OWN for found in expected.values())
    pipeline("own-id", out="fresh")
    assert {system: pairs(pipeline.folder / "fresh", system) for system in SYSTEMS} == expected


def test_pairs_of_a_file_take_no_place_and_what_is_not_there_is_counted(pipeline):
    folder = pipeline.folder
    every = "".join(f"q6,p{i}\n" for i in range(30))
    text = f"query_id,passage_id\n{every}q7,p3\nq7,nowhere\nother,p1\n"
    (folder / "pairs.csv").write_text(text)
    summary = pipeline("pairs.csv")
    found = pairs(folder / "work", "dense")
    assert "q6" not in dict(found) and ("q7", "p3") not in found and ("p1", "p1") in found
    line = "exclude: pairs.csv: 31 of 32 excluded passages are in the collection, and left out"
    assert f"{line}; 1 are of other queries" in summary["notes"]["test"]["passages"]


def test_frozen_refuses_the_key_and_takes_other_pairs(pipeline):
    file = pipeline.folder / "pairs.tsv"
    pipeline()
    file.write_text("q6 p1\n")
    with pytest.raises(RefusedError, match="excluded@test: not in the last invocation"):
        pipeline("pairs.tsv", frozen=True)
    pipeline("pairs.tsv")
    file.write_text("q6 p2\n")
    assert not pipeline("pairs.tsv", frozen=True)["stages"]["dense.test"]["reused"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("z p1\n", "found those of other queries only (z); name the file of this query set"),
        ("q6 p1 2 3 4\n", "expected queries and the passages that they exclude"),
    ],
)
def test_a_file_of_other_queries_or_of_another_form_is_refused_before_any_work(
    pipeline, text, problem
):
    (pipeline.folder / "pairs.tsv").write_text(text)
    with pytest.raises(InputError) as raised:
        pipeline("pairs.tsv")
    assert problem in str(raised.value)
    assert not (pipeline.folder / "work" / "stores" / "passages@collection").exists()
    with pytest.raises(InputError, match=r"queries\.test\.exclude: .*no such file"):
        pipeline("nowhere.tsv")


DOCUMENTS = """
format: 1
name: excluding
collection:
  format: jsonl
  input: {folder}/documents.jsonl
  fields: {{id: id, body: body}}
  split: {{by: words, length: 3, stride: 3}}
queries: {{test: {{file: {folder}/queries.tsv, exclude: {exclude}}}}}
models: {{tiny: {{path: {model}}}}}
stages:
  embeddings: {{do: encode, model: tiny}}
  dense: {{do: search, index: embeddings, depth: 50}}
  best: {{do: documents, run: dense, method: maxp}}
  given: {{do: read, runs: {{test: {folder}/given.trec}}, of: documents}}
  inside: {{do: passages, run: given, documents: 2}}
resources: {{backend: inline, device: cpu, threads: 1}}
"""


def test_a_documents_id_stands_for_all_its_passages(tmp_path, tiny_model):
    texts = {"a": "lease shard rank query merge", "b": "lease shard rank", "c": "model token batch"}
    records = [json.dumps({"id": name, "body": text}) for name, text in texts.items()]
    (tmp_path / "documents.jsonl").write_text("\n".join(records) + "\n")
    (tmp_path / "queries.tsv").write_text("a\tlease shard\nq\tlease\n")
    given = "a Q0 a 1 3 t\na Q0 b 2 2 t\na Q0 c 3 1 t\nq Q0 a 1 1 t\n"
    (tmp_path / "given.trec").write_text(given)

    def run(exclude):
        text = DOCUMENTS.format(folder=tmp_path, model=tiny_model, exclude=exclude)
        invoke(text, tmp_path / "work", base=tmp_path)
        systems = ("dense", "best", "given", "inside")
        return {name: pairs(tmp_path / "work", name) for name in systems}

    found = run("own-id")
    of_query = {name: {p for q, p in lines if q == "a"} for name, lines in found.items()}
    passages = {p for _, p in found["dense"]}
    assert {p.partition("#")[0] for p in passages} == {"a", "b", "c"} and len(passages) == 4
    assert of_query["dense"] == {p for p in passages if not p.startswith("a#")}
    assert of_query["best"] == of_query["given"] == {"b", "c"}
    assert of_query["inside"] == of_query["dense"]
    assert ("q", "a") in found["given"] and ("q", "a") in found["best"]
    (tmp_path / "pairs.tsv").write_text(f"q {min(passages)}\na c\n")
    found = run("pairs.tsv")
    assert ("q", min(passages)) not in found["dense"] + found["inside"]
    assert ("q", "a") in found["given"] and ("q", "a") in found["best"]  # by its other passage
    assert ("a", "c") not in found["given"] + found["best"] and ("a", "a") in found["best"]
