import json


def test_the_table_says_what_is_to_be_known(small_workspace):
    work, outcome, said = small_workspace
    assert said[0].startswith("device: CPU") and outcome.table == (work / "table.md").read_text()
    notes = [line for line in outcome.table.splitlines() if line.startswith("- ")]
    assert notes[-4:] == [
        "- relevant: grade 1",
        "- 5 passages, 3 queries",
        "- ms/query: wall time of the whole chain over all queries, loading excluded",
        "- given: 1 judged queries without a result; each counts 0",
    ]
    assert "- topics: two of them" in notes and "## other" not in outcome.table
    assert "Difference to given, with a 95% interval:" in outcome.table
    measured = (work / "measures" / "dev.tsv").read_text().splitlines()
    assert measured[:3] == [
        "query_id\tsystem\tmeasure\tvalue",
        "q1\tdense\tRR@10\t" + measured[1].split("\t")[3],
        "q2\tdense\tRR@10\t" + measured[2].split("\t")[3],
    ]
    assert "q1\tgiven\tRR@10\t0.5" in measured and "q2\tgiven\tRR@10\t0.0" in measured
    summary = outcome.summary
    assert summary["measures"]["dev"]["given"] == {"RR@10": 0.25}
    assert (summary["status"], summary["exit"], summary["reason"]) == ("complete", 0, "complete")
    assert list(summary["systems"]) == ["dense", "given", "fused"]
    assert summary["systems"]["given"] == {
        "reranks": "as read", "model": "run.trec", "ms_per_query": None,
    }  # fmt: skip
    assert summary["systems"]["fused"]["reranks"] == "given + dense"
    assert summary["systems"]["fused"]["model"] == "rrf"
    assert summary["systems"]["dense"]["ms_per_query"] > 0
    shards = summary["stages"]["vectors"]["shards"]
    assert shards["planned"] > 1 and shards["reused"] == shards["quarantined"] == 0
    assert json.loads((work / "summary.json").read_text()) == summary
