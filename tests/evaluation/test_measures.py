"""Measures on written files: every reader sees one order, ties included."""

import numpy as np
import pyarrow as pa
import pytest
import pytrec_eval

from raypipe import schema
from raypipe.errors import InputError
from raypipe.evaluation.exports import write_msmarco, write_trec
from raypipe.evaluation.measures import Measuring, evaluate
from raypipe.evaluation.run_files.runs import read_run


def run_of(rows):
    """Rows (query, passage, score), best first a query, as schema.RUN_FILE."""
    ranks, seen = [], {}
    for query, _, _ in rows:
        seen[query] = seen.get(query, 0) + 1
        ranks.append(seen[query])
    columns = [[r[0] for r in rows], [r[1] for r in rows], ranks, [r[2] for r in rows]]
    return pa.table(columns, schema=schema.RUN_FILE)


def qrels_of(rows):
    return pa.table([list(column) for column in zip(*rows, strict=True)], schema=schema.QRELS)


@pytest.fixture(scope="module")
def tied():
    """40 queries x 60 passages, half of the scores tied, integer ids as MS MARCO's."""
    rng = np.random.default_rng(3)
    rows, judged = [], []
    for query in range(40):
        scores = np.round(rng.random(60), 1).astype(np.float32)
        scores[::2] = rng.random(30).astype(np.float32)
        passages = rng.permutation(1000)[:60]
        order = np.lexsort((passages, -scores))
        rows += [(str(query), str(passages[i]), float(scores[i])) for i in order]
        judged += [(str(query), str(p), int(rng.integers(0, 2))) for p in passages[:25]]
        judged[-1] = (str(query), str(passages[24]), 1)
    return run_of(rows), qrels_of(judged)


@pytest.mark.fault(
    29,
    "40 queries, half of their scores tied: trec_eval and MS MARCO's rule see the printed measures",
)
def test_written_files_give_the_printed_table_to_its_last_digit(tied, tmp_path):
    run, qrels = tied
    found = evaluate(run, qrels, ["nDCG@10", "AP", "RR@10", "R@100"]).mean
    write_trec(run, tmp_path / "run.trec", tag="x")
    write_msmarco(run, tmp_path / "run.tsv")
    judged: dict[str, dict[str, int]] = {}
    for row in qrels.to_pylist():
        judged.setdefault(row["query_id"], {})[row["passage_id"]] = row["relevance"]

    scored: dict[str, dict[str, float]] = {}
    for line in (tmp_path / "run.trec").read_text().splitlines():
        query, _, passage, _, score, _ = line.split()
        scored.setdefault(query, {})[passage] = float(np.float32(score))
    names = {"ndcg_cut.10", "map", "recall.100"}
    values = pytrec_eval.RelevanceEvaluator(judged, names).evaluate(scored)
    for name, measure in [("ndcg_cut_10", "nDCG@10"), ("map", "AP"), ("recall_100", "R@100")]:
        mean = np.mean([values[query][name] for query in judged])
        assert f"{mean:.4f}" == f"{found[measure]:.4f}"
        assert mean == pytest.approx(found[measure], abs=1e-12)

    total = 0.0  # the MS MARCO script: first relevant passage by rank, over queries of the qrels
    best: dict[str, float] = {}
    for line in (tmp_path / "run.tsv").read_text().splitlines():
        query, passage, rank = line.split("\t")
        if int(rank) <= 10 and judged.get(query, {}).get(passage, 0) > 0:
            best[query] = max(best.get(query, 0.0), 1 / int(rank))
    total = sum(best.values()) / len(judged)
    assert total == pytest.approx(found["RR@10"], abs=1e-12)


@pytest.mark.fault(29, "written scores fall strictly")
def test_written_scores_fall_strictly_as_float32(tied, tmp_path):
    run, _ = tied
    write_trec(run, tmp_path / "run.trec", tag="x")
    by_query: dict[str, list[np.float32]] = {}
    for line in (tmp_path / "run.trec").read_text().splitlines():
        by_query.setdefault(line.split()[0], []).append(np.float32(line.split()[4]))
    for scores in by_query.values():
        assert (np.diff(scores) < 0).all()


def test_reading_a_written_run_gives_its_order_again(tied, tmp_path):
    run, _ = tied
    for name, write in [
        ("a.trec", lambda p: write_trec(run, p, tag="x")),
        ("a.tsv", lambda p: write_msmarco(run, p)),
    ]:
        write(tmp_path / name)
        again = read_run(tmp_path / name)
        assert again.select(["query_id", "passage_id", "rank"]).equals(
            run.select(["query_id", "passage_id", "rank"])
        )


@pytest.mark.fault(
    28, "1 of 2 queries without a result: the mean is halved, and both kinds are named"
)
def test_a_query_without_a_result_counts_0_and_is_told():
    qrels = qrels_of([("1", "a", 1), ("2", "b", 1)])
    found = evaluate(run_of([("1", "a", 1.0), ("9", "z", 1.0)]), qrels, ["RR@10"])
    assert found.mean["RR@10"] == 0.5
    assert found.num_topics["RR@10"] == 2
    assert found.missing_queries == ("2",)
    assert found.unjudged_queries == ("9",)


def test_grades_of_deep_learning_measures():
    qrels = qrels_of([("1", "a", 1), ("1", "b", 2)])
    run = run_of([("1", "a", 2.0), ("1", "b", 1.0)])
    found = evaluate(run, qrels, ["RR(rel=2)@10", "RR@10", "Judged@10"]).mean
    assert found == {"RR(rel=2)@10": 0.5, "RR@10": 1.0, "Judged@10": 1.0}


def test_an_unknown_measure_is_refused():
    with pytest.raises(InputError, match="nDGC@10.*nearest known"):
        evaluate(run_of([("1", "a", 1.0)]), qrels_of([("1", "a", 1)]), ["nDGC@10"])


def test_real_run_and_judgements_agree_with_trec_eval(raypipe_data):
    from raypipe.data.qrels import read_qrels

    folder = raypipe_data / "msmarco-v2-dl21"
    qrels = read_qrels(folder / "qrels.dl21.txt.gz")
    run = read_run(folder / "runs" / "dl21.bm25.top100.trec.gz")
    found = evaluate(run, qrels, ["nDCG@10", "R(rel=2)@100"]).mean
    judged: dict[str, dict[str, int]] = {}
    for row in qrels.to_pylist():
        judged.setdefault(row["query_id"], {})[row["passage_id"]] = row["relevance"]
    scored: dict[str, dict[str, float]] = {}
    for row in run.to_pylist():
        scored.setdefault(row["query_id"], {})[row["passage_id"]] = row["score"]
    values = pytrec_eval.RelevanceEvaluator(judged, {"ndcg_cut.10"}).evaluate(scored)
    assert np.mean([values[q]["ndcg_cut_10"] for q in judged]) == pytest.approx(
        found["nDCG@10"], abs=1e-9
    )


def test_a_grade_of_a_table_beyond_the_bound_is_named_before_anything_is_measured():
    columns = [["q", "q"], ["a", "b"], [1, 1_000_001]]
    with pytest.raises(InputError, match="qrels: query q, passage b: grade 1,000,001 is beyond"):
        Measuring(pa.table(columns, schema=schema.QRELS), ["nDCG@10"])
