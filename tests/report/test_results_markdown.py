from raypipe.driver.summaries import read_summary
from raypipe.evaluation.paired import Difference
from raypipe.evaluation.tables import Row, render, rows_of, title_of


def test_a_table_has_n_in_its_header_and_differences_below():
    rows = [
        Row("bm25", "", "", {"RR@10": 0.25, "R@1000": 1.0}, None, ""),
        Row(
            "mono", "bm25", "m", {"RR@10": 0.5, "R@1000": 1.0}, 12.345, "MS MARCO",
            {
                "RR@10": Difference(0.25, -0.125, 0.5, 2, 0, 1),
                "R@1000": Difference(0.0, 0.0, 0.0, 0, 4, 0),
            },
        ),
        Row("duo", "mono", "m", {"RR@10": 0.0, "R@1000": 1.0}, 3.0, "MS MARCO"),
    ]  # fmt: skip
    text = render(
        "dev", rows, measures=["RR@10", "R@1000"], num_topics={"RR@10": 3, "R@1000": 4},
        baseline="bm25", notes=["a note"],
    )  # fmt: skip
    assert text == (
        "## dev\n"
        "\n"
        "| system | reranks | model | RR@10 (n=3) | R@1000 (n=4) | ms/query |\n"
        "|--------|---------|-------|-------------|--------------|----------|\n"
        "| bm25   |         |       | 0.2500      | 1.0000       | -        |\n"
        "| mono   | bm25    | m     | 0.5000      | 1.0000       | 12.3     |\n"
        "| duo    | mono    | m     | 0.0000      | 1.0000       | 3.0      |\n"
        "\n"
        "Difference to bm25, with a 95% interval and wins/ties/losses:\n"
        "\n"
        "| system | RR@10                            | R@1000                           |\n"
        "|--------|----------------------------------|----------------------------------|\n"
        "| mono   | +0.2500 [-0.1250, +0.5000] 2/0/1 | +0.0000 [+0.0000, +0.0000] 0/4/0 |\n"
        "\n"
        "- m: its start weights saw MS MARCO\n"
        "- a note\n"
    )
    alone = render(
        "dev", rows[:1], measures=["RR@10"], num_topics={"RR@10": 3}, baseline=None, notes=[]
    )
    assert alone.count("\n") == 6 and "Difference" not in alone
    without = render(
        "dev", rows, measures=["RR@10"], num_topics={"RR@10": 3}, baseline=None, notes=[]
    )
    assert "Difference" not in without


def test_inferences_are_told_a_query_and_those_of_a_summary_of_before_are_alone():
    told = {
        "bm25": {"ms_per_query": 1.0},
        "mono": {"ms_per_query": None, "inferences": 5000, "computed": 0},
        "old": {"ms_per_query": None, "inferences": 10},
    }
    told = {
        name: {"reranks": "a|b", "model": "", "start_weights": "", **of}
        for name, of in told.items()
    }
    means = dict.fromkeys(told, {"AP": 0.5})
    rows = rows_of(told, means, {"mono": {"AP": Difference(0.0, 0.0, 0.0, 0, 1, 0)}}, num_queries=4)
    assert [(row.inferences, row.computed) for row in rows] == [
        (None, None),
        (1250, 0),
        (2.5, None),
    ]
    assert [list(row.differences) for row in rows] == [[], ["AP"], []]
    settings = {"measures": ["AP"], "num_topics": {"AP": 2}, "baseline": None, "notes": []}
    assert render(title_of("dev", "documents"), rows, **settings).splitlines()[:6] == [
        "## dev, documents",
        "",
        "| system | reranks | model | AP (n=2) | ms/query | inferences/query | computed/query |",
        "|--------|---------|-------|----------|----------|------------------|----------------|",
        "| bm25   | a\\|b    |       | 0.5000   | 1.0      | -                | -              |",
        "| mono   | a\\|b    |       | 0.5000   | -        | 1,250.0          | 0.0            |",
    ]
    (nobody,) = rows_of({"mono": told["mono"]}, {"mono": {}}, {}, num_queries=0)
    assert nobody.inferences is None


def test_the_table_says_what_is_to_be_known(small_workspace):
    work, outcome, said = small_workspace
    assert said[0].startswith("device: CPU") and outcome.table == (work / "table.md").read_text()
    notes = [line for line in outcome.table.splitlines() if line.startswith("- ")]
    assert notes[-4:] == [
        "- relevant: grade 1",
        "- 5 passages, 3 queries",
        "- ms/query: wall time of the whole chain over all queries, loading excluded",
        "- given: judged queries without a result, each counting 0: 1",
    ]
    assert "- topics: two of them" in notes and "## other" not in outcome.table
    assert "Difference to given, with a 95% interval and wins/ties/losses:" in outcome.table
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
    assert list(summary["systems"]["dev"]) == ["dense", "given", "fused"]
    assert summary["systems"]["dev"]["given"] == {
        "reranks": "as read", "model": "run.trec", "start_weights": "", "ms_per_query": None,
    }  # fmt: skip
    assert summary["systems"]["dev"]["fused"]["reranks"] == "given + dense"
    assert summary["systems"]["dev"]["fused"]["model"] == "rrf"
    assert summary["systems"]["dev"]["dense"]["ms_per_query"] > 0
    shards = summary["stages"]["vectors"]["shards"]
    assert shards["planned"] > 1 and shards["reused"] == shards["quarantined"] == 0
    assert read_summary(work) == summary
