"""The table in brief, by hand."""

from raypipe.evaluation.tables import brief


def test_the_brief_table_has_the_first_measures_interval_and_the_costs():
    summary = {
        "systems": {"dev": {"a": {"ms_per_query": 1.25}, "b": {"ms_per_query": None}}},
        "measures": {
            "dev": {
                "a": {"nDCG@10": 0.5, "RR@10": 0.25, "AP": 0.1, "R@100": 1.0},
                "b": {"nDCG@10": 0.4, "RR@10": 0.75, "AP": 0.2, "R@100": 0.0},
            }
        },
        "differences": {"dev": {"b": {"nDCG@10": [-0.1, -0.2, 0.05], "AP": [0.1, 0.0, 0.2]}}},
    }
    rows = [
        [c.strip() for c in line.split("|")[1:-1]] for line in brief(summary, "dev").splitlines()
    ]
    assert rows[0] == ["system", "nDCG@10", "to a, 95% interval", "RR@10", "R@100", "ms/query"]
    assert rows[2] == ["a", "0.5000", "", "0.2500", "1.0000", "1.2"]
    assert rows[3] == ["b", "0.4000", "-0.1000 [-0.2000, +0.0500]", "0.7500", "0.0000", "-"]
    summary["differences"] = {}
    assert "interval" not in brief(summary, "dev")
