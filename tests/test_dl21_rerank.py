"""The BM25 run that others made of TREC DL 2021, reranked: one line, no passage outside the run."""

import json
import shutil

import pyarrow.compute as pc
import pytest

from raypipe.evaluation.run_files.runs import read_run

pytestmark = [pytest.mark.ray, pytest.mark.long]


def test_a_run_of_others_is_scored_and_nothing_beside_it_tokenised(
    raypipe_data, raypipe_cli, tiny_mono, tmp_path
):
    folder = raypipe_data / "msmarco-v2-dl21"
    run = folder / "runs" / "dl21.bm25.top100.trec.gz"
    arguments = ["--run", run, "--collection", folder / "collection.tsv.gz"]
    arguments += ["--queries", folder / "queries.dl21.tsv"]
    arguments += ["--qrels", folder / "qrels.dl21.txt.gz", "evaluate.measures=[R(rel=2)@100]"]
    out = tmp_path / "mono"
    done = raypipe_cli("score", *arguments, "--model", tiny_mono, "--out", out, "--k0", 20)
    assert done.returncode == 0, done.stderr
    summary = json.loads((out / "summary.json").read_text())
    given = read_run(run)
    first = given.filter(pc.less_equal(given["rank"], 20))
    named = len(set(first["passage_id"].to_pylist()))
    assert summary["stages"]["pieces@score.queries"]["rows"] == named
    assert summary["stages"]["passages@collection"]["rows"] == 33_184
    assert summary["stages"]["scores@score.queries"]["rows"] == first.num_rows
    measured = summary["measures"]["queries"]
    assert measured["run"] == measured["score"], "the depth is unchanged"
    ours = read_run(out / "runs" / "queries" / "score.trec")
    assert sorted(ours["passage_id"].to_pylist()) == sorted(given["passage_id"].to_pylist())
    shutil.rmtree(out)
