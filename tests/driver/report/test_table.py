from raypipe.driver.report.table import Row, render
from raypipe.evaluation.difference import Difference


def test_a_table_has_n_in_its_header_and_differences_below():
    rows = [
        Row("bm25", "", "", {"RR@10": 0.25, "R@1000": 1.0}, None, ""),
        Row(
            "mono", "bm25", "m", {"RR@10": 0.5, "R@1000": 1.0}, 12.345, "MS MARCO",
            {"RR@10": Difference(0.25, -0.125, 0.5), "R@1000": Difference(0.0, 0.0, 0.0)},
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
        "Difference to bm25, with a 95% interval:\n"
        "\n"
        "| system | RR@10                      | R@1000                     |\n"
        "|--------|----------------------------|----------------------------|\n"
        "| mono   | +0.2500 [-0.1250, +0.5000] | +0.0000 [+0.0000, +0.0000] |\n"
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
