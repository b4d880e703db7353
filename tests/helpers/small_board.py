"""A leaderboard of three queries, and its metadata."""

from raypipe.leaderboard.boards import BOARDS

PASSAGE = BOARDS["msmarco-passage"]


SMALL = PASSAGE.model_copy(
    update={
        "depths": dict.fromkeys(PASSAGE.depths, 3),
        "num_passages": 100,
        "query_sets": {"dev": 2, "eval": 1},
    }
)
"""msmarco-passage with 3 rows a query, 2 dev queries and 1 eval query."""


GOOD = "7\t10\t1\n7\t11\t2\n7\t12\t3\n9\t5\t1\n9\t6\t2\n9\t99\t3\n"


METADATA = {
    "team": "t",
    "model_description": "d",
    "paper": "",
    "code": "",
    "type": "reranking",
}


def write(path, text):
    path.write_text(text)
    return path


def broken(findings):
    return [finding.rule for finding in findings if not finding.ok]


DL = "1 Q0 msmarco_passage_01_5 1 2.5 a\n1 Q0 msmarco_passage_01_6 2 2.0 a\n"
