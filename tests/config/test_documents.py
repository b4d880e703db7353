"""The rules of runs of documents, each broken alone, and what is filled in."""

import pytest

from raypipe.config import load_recipe
from raypipe.config.rules import units_of
from raypipe.kinds.registry import labels_of

RECIPE = """\
format: 1
name: documents
collection: {format: msmarco-doc-v2, input: docs.jsonl, split: {}}
queries:
  dev: {file: dev.tsv, document_qrels: dev.txt}
models:
  mono: {path: mono}
stages:
  lucene:  {do: index}
  bm25:    {do: search, index: lucene}
  mono:    {do: score, run: bm25, model: mono}
  given:   {do: read, of: documents, runs: {dev: top100.trec}}
  maxp:    {do: documents, run: mono, method: maxp}
  kmax:    {do: documents, run: bm25, method: k-max-avgp}
  windows: {do: passages, run: given}
  fused:   {do: fuse, runs: [maxp, given], method: rrf}
evaluate: {measures: [nDCG@10], baseline: maxp}
"""


@pytest.fixture
def stages(tmp_path):
    return load_recipe(RECIPE, base=tmp_path).stages


def test_each_stage_says_what_it_ranks(stages):
    known = units_of(stages)
    units = {name: known[name] for name in stages if stages[name].produces == "run"}
    of_documents = {name for name, unit in units.items() if unit == "documents"}
    assert of_documents == {"given", "maxp", "kmax", "fused"}
    assert set(units.values()) == {"passages", "documents"}


def test_k_is_4_for_its_method_and_a_run_is_of_so_many_documents(stages):
    assert (stages["kmax"].k, stages["maxp"].k) == (4, None)
    assert (stages["kmax"].over, stages["kmax"].depth) == ("raw", 1000)
    assert (stages["windows"].documents, stages["windows"].at_most) == (100, None)
    assert stages["maxp"].inputs == ("mono",) and stages["windows"].inputs == ("given",)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (
            "run: mono, method: maxp",
            "run: mono, method: maxp, k: 3",
            "stages.maxp.k: for method k-max-avgp only, not maxp; remove it",
        ),
        (
            "run: bm25, method: k-max-avgp",
            "run: bm25, method: sump, over: probability",
            "stages.kmax.over: bm25 has no probabilities; expected a stage of kind score, or "
            "over: raw",
        ),
        (
            "run: bm25, model: mono",
            "run: bm25, model: mono, score: probability",
            "stages.maxp.over: mono has probabilities, which no longer tell large raw scores "
            "apart; remove stages.mono.score, or write over: probability",
        ),
        (
            "run: mono, method",
            "run: given, method",
            "stages.maxp: expected a run of passages; given ranks documents: take their passages "
            "with do: passages",
        ),
        (
            "do: passages, run: given",
            "do: passages, run: bm25",
            "stages.windows: expected a run of documents; bm25 ranks passages: make them of it "
            "with do: documents",
        ),
        (
            "[maxp, given]",
            "[bm25, given]",
            "stages.fused: expected a run of passages; given ranks documents: take their passages "
            "with do: passages",
        ),
        (
            "run: bm25, model: mono",
            "run: bm25, model: mono, k1: 5",
            f"stages.maxp.run: expected an earlier stage of kind {' or '.join(labels_of('run'))};"
            " found 'mono', which is of kind score with k1",
        ),
    ],
)
def test_a_broken_rule_is_the_only_problem(problems, old, new, expected):
    assert old in RECIPE
    (problem,) = problems(RECIPE.replace(old, new, 1), source="a.yaml")
    assert problem.split(": ", 2)[2] == expected


def test_a_score_stage_over_documents_is_refused(problems):
    new = RECIPE.replace("evaluate:", "  late: {do: score, run: fused, model: mono}\nevaluate:")
    (problem,) = problems(new, source="a.yaml")
    assert "stages.late: expected a run of passages; fused ranks documents" in problem


def test_documents_need_a_collection_that_has_them(problems):
    plain = RECIPE.replace("msmarco-doc-v2", "msmarco-v1").replace(", split: {}", "")
    found = problems(plain, source="a.yaml")
    text = "is about documents; expected a collection with split"
    assert [p.split(": ")[2] for p in found] == [
        "queries.dev.document_qrels",
        *(f"stages.{name}" for name in ("given", "maxp", "kmax", "windows")),
    ]
    assert all(text in p for p in found[1:])
    assert "judges documents; expected a collection with split" in found[0]
