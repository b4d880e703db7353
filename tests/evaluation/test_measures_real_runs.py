"""Runs that others made, measured here and by trec_eval and ir_measures on the files."""

import gzip
from collections import defaultdict

import ir_measures
import pyarrow as pa
import pytest
import pytrec_eval

from raypipe import schema
from raypipe.evaluation.exports import write_trec
from raypipe.evaluation.measures import evaluate
from raypipe.evaluation.run_files.runs import read_run

MEASURES = ["nDCG@10", "RR(rel=2)@10", "AP(rel=2)", "R(rel=2)@100", "Judged@10"]


@pytest.fixture(scope="module")
def folder(raypipe_data):
    return raypipe_data / "msmarco-v2-dl21"


@pytest.fixture(scope="module")
def judged(folder):
    found = defaultdict(dict)
    for line in gzip.open(folder / "qrels.dl21.txt.gz", "rt"):
        query, _, passage, grade = line.split()
        found[query][passage] = int(grade)
    return dict(found)


@pytest.fixture(scope="module")
def qrels(judged):
    rows = [(q, p, grade) for q, of_query in judged.items() for p, grade in of_query.items()]
    return pa.table(list(map(list, zip(*rows, strict=True))), schema=schema.QRELS)


def trec_eval(judged, path):
    """Per query values of trec_eval on the file as it is, and what it does not have, by hand."""
    scored = defaultdict(dict)
    for line in gzip.open(path, "rt"):
        query, _, passage, _, score, _ = line.split()
        scored[query][passage] = float(score)
    names = {"ndcg_cut.10", "map", "recall.100", "recip_rank"}
    graded = pytrec_eval.RelevanceEvaluator(judged, {"ndcg_cut.10"}).evaluate(scored)
    binary = pytrec_eval.RelevanceEvaluator(judged, names, relevance_level=2).evaluate(scored)
    found = defaultdict(dict)
    for query in judged:
        first = binary[query]["recip_rank"]
        best = sorted(scored[query], key=lambda p: (scored[query][p], p), reverse=True)[:10]
        found["nDCG@10"][query] = graded[query]["ndcg_cut_10"]
        found["RR(rel=2)@10"][query] = first if first >= 0.1 else 0.0
        found["AP(rel=2)"][query] = binary[query]["map"]
        found["R(rel=2)@100"][query] = binary[query]["recall_100"]
        found["Judged@10"][query] = sum(passage in judged[query] for passage in best) / 10
    return dict(found)


@pytest.mark.fault(28, "every value of real runs is that of trec_eval")
@pytest.mark.parametrize("name", ["bm25", "bm25_rm3", "splade_p_p_ensemble_distil"])
def test_every_value_is_trec_evals_and_that_of_ir_measures_on_the_written_file(
    folder, judged, qrels, tmp_path, name
):
    path = folder / "runs" / f"dl21.{name}.top100.trec.gz"
    run = read_run(path)
    found = evaluate(run, qrels, MEASURES)
    assert found.per_query == trec_eval(judged, path)
    write_trec(run, tmp_path / "again.trec", tag=name)
    measures = [ir_measures.parse_measure(measure) for measure in MEASURES]
    again = ir_measures.calc_aggregate(
        measures,
        ir_measures.read_trec_qrels(str(folder / "qrels.dl21.txt.gz")),
        ir_measures.read_trec_run(str(tmp_path / "again.trec")),
    )
    assert {str(m): f"{value:.6f}" for m, value in again.items()} == {
        measure: f"{value:.6f}" for measure, value in found.mean.items()
    }
