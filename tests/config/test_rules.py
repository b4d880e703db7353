import pytest

from raypipe.config import load_recipe
from raypipe.kinds.read import GivenRun
from raypipe.kinds.registry import labels_of
from raypipe.kinds.search import Bm25Search, Tuned


def test_a_broken_rule_is_the_only_problem(text: str, problems):
    for old, new, expected in [
        (
            ", input: collection.tsv",
            "",
            "collection.input: missing; expected files or folders with passages",
        ),
        (
            "input: collection.tsv",
            "input: c.tsv, max_passages: 3",
            "collection.max_passages: for format python-docs only, not msmarco-v1; remove it",
        ),
        (
            "file: test.tsv, qrels: test.txt",
            "report: true",
            "queries.test: expected one of file, car and builtin; found none of them",
        ),
        (
            "file: test.tsv, qrels: test.txt",
            "builtin: test",
            "queries.test.builtin: for format python-docs only, not msmarco-v1; give"
            " file and qrels",
        ),
        (
            "qrels: test.txt",
            "only_judged: true",
            "queries.test.only_judged: needs qrels; give them or remove only_judged",
        ),
        (
            "model: encoder",
            "model: encodre",
            "stages.embeddings.model: expected a model; found 'encodre'; did you mean"
            " encoder? there are: encoder",
        ),
        (
            "index: lucene",
            "index: lucen",
            "stages.bm25.index: expected an earlier stage of kind ann or encode or index; found"
            " 'lucen'; did you mean lucene? there are: lucene, embeddings",
        ),
        (
            "index: lucene",
            "index: bm25",
            "stages.bm25.index: expected an earlier stage of kind ann or encode or index; found"
            " 'bm25', the stage itself",
        ),
        (
            "index: lucene",
            "index: fused",
            "stages.bm25.index: expected an earlier stage of kind ann or encode or index; found"
            " 'fused', a stage below bm25; move it up",
        ),
        (
            "index: embeddings",
            "index: bm25",
            "stages.dense.index: expected an earlier stage of kind ann or encode or index; found"
            " 'bm25', which is of kind search",
        ),
        (
            "[bm25, dense]",
            "[bm25, lucene]",
            "stages.fused.runs.1: expected an earlier stage of kind "
            f"{' or '.join(labels_of('run'))}; found 'lucene', which is of kind index",
        ),
        (
            "[bm25, dense]",
            "[bm25, bm25]",
            "stages.fused.runs.1: bm25 given twice; keep one of them",
        ),
        (
            "index: embeddings",
            "index: embeddings, bm25: {}",
            "stages.dense.bm25: for a Lucene index of words only, and embeddings holds"
            " embeddings; remove it",
        ),
        (
            "index: embeddings",
            "index: embeddings, rm3: {}",
            "stages.dense.rm3: for a Lucene index of words only, and embeddings holds embeddings; "
            "remove it",
        ),
        (
            "method: rrf",
            "method: alternate, k: 3",
            "stages.fused.k: for method rrf only, not alternate; remove it",
        ),
        (
            "method: rrf",
            "method: rrf, weights: [1, 2]",
            "stages.fused.weights: for method weighted only, not rrf; remove them",
        ),
        (
            "method: rrf",
            "method: weighted, weights: [1]",
            "stages.fused.weights: expected 2, one for each of the runs; found 1",
        ),
        (
            "[bm25, dense]",
            "[bm25]",
            "stages.fused.method: expected one for two runs or more, none to cut one",
        ),
        (
            ", method: rrf",
            "",
            "stages.fused.method: expected one for two runs or more, none to cut one",
        ),
        (
            "[bm25, dense], method: rrf",
            "[bm25], k: 3",
            "stages.fused.k: for method rrf only, not one run; remove it",
        ),
        (
            "[bm25, dense], method: rrf",
            "[bm25], weights: [1]",
            "stages.fused.weights: for method weighted only, not one run; remove them",
        ),
        (
            "method: rrf",
            "method: weighted, weights: [0, 0.0]",
            "stages.fused.weights: expected one above 0, for something to rank by",
        ),
        (
            "method: rrf",
            "method: weighted, weights: [1, -1]",
            "stages.fused.weights.1: expected a number from 0; found -1",
        ),
        (
            "lucene:     {do: index}",
            "lucene: {do: index}\n  old: {do: read, runs: {tst: r.trec}}",
            "stages.old.runs.tst: expected a query set; found 'tst'; did you mean test?"
            " there are: dev, test",
        ),
        (
            "evaluate:",
            "  blobs: {do: index}\nevaluate:",
            "stages.blobs: a store root has a folder of this name; any name but blobs, gc, "
            "generations, nonce, refs, tmp",
        ),
        (
            "baseline: bm25",
            "baseline: lucene",
            "evaluate.baseline: expected a stage that makes a run; found 'lucene'; these do: bm25,"
            " dense, fused",
        ),
        ("nDCG@10", "AP, AP", "evaluate.measures: AP given twice; keep one of them"),
        (
            "qrels: test.txt",
            "report: false",
            "queries: the stages make runs: expected a query set with report: true",
        ),
    ]:
        assert old in text
        (problem,) = problems(text.replace(old, new, 1), source="a.yaml")
        assert problem.split(": ", 2)[2] == expected


def test_a_built_in_set_has_judgements_of_its_own(text: str, problems):
    changed = text.replace("file: test.tsv, qrels: test.txt", "builtin: test, qrels: test.txt", 1)
    told = [problem.split(": ", 2)[2] for problem in problems(changed, source="a.yaml")]
    expected = "queries.test.qrels: the builtin set test has judgements of its own; remove qrels"
    assert expected in told


GRID = "{queries: dev, measure: nDCG@10, k1: [0.6, 0.9], b: [0.4]}"


def with_bm25(text: str, bm25: str) -> str:
    return text.replace("index: lucene}", f"index: lucene, bm25: {bm25}}}")


def test_tuning_takes_the_place_of_fixed_parameters(text: str):
    stage = load_recipe(with_bm25(text, f"{{tune: {GRID}}}")).stages["bm25"]
    assert isinstance(stage, Bm25Search) and isinstance(stage.bm25, Tuned)
    assert (stage.bm25.tune.k1, stage.bm25.tune.b) == ((0.6, 0.9), (0.4,))
    assert (stage.bm25.tune.k1, stage.bm25.tune.b) == ((0.6, 0.9), (0.4,))


@pytest.mark.parametrize(
    ("grid", "expected"),
    [
        (
            "{k1: 0.9, tune: GRID}",
            "bm25.k1: found 0.9 and a grid to tune it on; remove one of them",
        ),
        ("{tune: GRID}", "tune.queries: expected a query set; found 'devel'"),
        (
            "{tune: GRID}",
            "tune.queries: test is reported, but tuning queries cannot test what",
        ),
        (
            "{tune: GRID}",
            "tune.queries: tuning needs judgements; give qrels to the query set train",
        ),
    ],
)
def test_tuning_uses_judged_queries_that_are_not_reported(
    text: str, problems, grid: str, expected: str
):
    queries = {"devel": "devel", "test is": "test", "set train": "train"}
    chosen = next((name for mark, name in queries.items() if mark in expected), "dev")
    text = text.replace("models:", "  train: {file: t.tsv, report: false}\nmodels:")
    tune = grid.replace("GRID", GRID.replace("dev", chosen))
    (problem,) = problems(with_bm25(text, tune))
    assert expected in problem


def test_a_reported_query_set_may_lack_judgements(text: str):
    recipe = load_recipe(text.replace(", qrels: test.txt", ""))
    assert not recipe.queries["test"].judged


def test_a_stage_of_unknown_kind_is_told_once_and_not_again_by_its_readers(text: str, problems):
    (problem,) = problems(text.replace("dense:      {do: search,", "dense: {do: rank,"))
    assert "stages.dense.do: unknown kind of stage" in problem


def test_an_existing_ranking_is_a_run(text: str, tmp_path):
    stage = "  old: {do: read, runs: {test: old.trec.gz}}\n"
    text = text.replace("  fused:", f"{stage}  fused:").replace("[bm25, dense]", "[old, dense]")
    recipe = load_recipe(text, base=tmp_path)
    old = recipe.stages["old"]
    assert isinstance(old, GivenRun) and old.runs == {"test": str(tmp_path / "old.trec.gz")}
