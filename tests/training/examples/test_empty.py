import pytest
from training_texts import wanted

from raypipe.config.training import TrainingSet
from raypipe.training.examples_stage import nothing_left
from raypipe.training.negatives import Short


@pytest.mark.parametrize(
    ("changed", "relevant", "short", "why"),
    [
        ({}, {}, {}, "q.txt has no judgement of grade 2 or higher for a query of q.tsv"),
        ({"teacher": "t"}, {0: [1]}, {"without_teacher": 2, "without_negatives": 1},
         "t has no score of a relevant passage"),
        ({"teacher": "t"}, {0: [1]}, {"without_teacher": 2, "without_negatives": 2},
         "no relevant passage has 4 irrelevant ones in ranks 3 to 9 of first"),
        ({"teacher": "t"}, {0: [1]}, {"without_negatives": 1, "negatives_without_teacher": 1},
         "t has too few scores of irrelevant passages"),
        ({"negatives": {"relevant_last": 7}}, {0: [1]}, {"beyond_runs": 1},
         "no relevant passage is in ranks 1 to 7 of first; raise"),
        ({"negatives": {"relevant_last": 7}}, {0: [1]}, {"without_negatives": 1},
         "no relevant passage has 4 irrelevant ones"),
        ({}, {0: [1]}, {}, "no relevant passage has 4 irrelevant ones in ranks 3 to 9"),
    ],
)  # fmt: skip
def test_why_no_example_is_left(changed, relevant, short, why):
    found = nothing_left(wanted(min_grade=2, **changed), "docs", relevant, Short(**short))
    assert found.startswith(f"train.docs: no example is left: {why}")


def test_of_triples_the_guard_refuses_all():
    given = TrainingSet(collection="c", queries="q.tsv", triples="t.tsv")
    told = nothing_left(given, "docs", {}, Short())
    assert told.endswith("the guard refuses every triple of t.tsv")


def test_of_unlabelled_lists_no_query_has_passages_enough():
    given = wanted(qrels=None, teacher="t.trec")
    told = nothing_left(given, "docs", {}, Short())
    assert told == (
        "train.docs: no example is left: no query that the guard allows has 5 passages with a "
        "score of t.trec in ranks 3 to 9 of first"
    )
