"""Examples drawn from documents: passages of relevant ones with passages of irrelevant ones."""

import numpy as np
from rankings import ranking

from raypipe.config.training import Negatives
from raypipe.training.documents import (
    BestPassages,
    DocumentPassages,
    document_examples,
    known_pairs,
)
from raypipe.training.examples import NO_RUN, RelevantTexts
from raypipe.training.judgements import Judged
from raypipe.training.negatives import Short, Taught

RUN = ranking(*[(0, document, rank, 1 / rank) for rank, document in enumerate([5, 6, 7, 8], 1)])


class Map:
    """Document d has the passages 10 d, 10 d + 1 and 10 d + 2."""

    def passages(self, rows, at_most=None):
        width = min(3, at_most or 3)
        places = np.repeat(np.arange(len(rows)), width)
        return places, np.repeat(rows * 10, width) + np.tile(np.arange(width), len(rows))


def draw(relevant, known=None, best=None, seed=1, at_most=3, **window):
    short = Short()
    judged = Judged(relevant, known or {query: set(rows) for query, rows in relevant.items()})
    window = Negatives(
        **{"runs": ("run",), "first": 1, "last": 4, "per_example": 1, "examples": 1, **window}
    )
    texts = RelevantTexts.of(known_pairs(judged, Map()), None, None)
    passages = DocumentPassages(Map(), at_most)
    found, left_out = document_examples(
        judged, (RUN,), passages, texts, best, window, seed=seed, short=short
    )
    return found, left_out, short


def scores(*pairs):
    return Taught(ranking(*[(0, passage, 1, score) for passage, score in pairs]))


def test_every_passage_of_a_relevant_document_has_a_passage_of_an_irrelevant_one():
    others = set()
    for seed in range(40):
        found, left_out, _ = draw({0: [6]}, {0: {6, 8}}, first=2, seed=seed)
        assert found.query_rows.tolist() == [0, 0, 0] and left_out == 0
        assert found.passage_rows[:, 0].tolist() == [60, 61, 62]
        others |= set(found.passage_rows[:, 1].tolist())
    assert others == {70, 71, 72}  # ranks 2 to 4 are 6, which is relevant, 7, and 8, known


def test_a_negative_has_the_run_and_the_rank_of_its_document():
    found, _, _ = draw({0: [5]}, first=3, last=3)
    assert found.runs.tolist() == [[NO_RUN, 0]] * 3 and found.ranks.tolist() == [[0, 3]] * 3


def test_only_the_first_passages_of_a_document_are_used():
    found, _, _ = draw({0: [5]}, at_most=1, examples=2)
    assert found.passage_rows[:, 0].tolist() == [50, 50]
    assert set(found.passage_rows[:, 1].tolist()) < {60, 70, 80}


def test_the_best_passages_keep_the_negatives_that_they_have_without_the_others():
    every, _, _ = draw({0: [5, 6]})
    by = scores((50, 0.1), (51, 0.3), (52, 0.3), (60, 9.0), (61, -5.0))
    kept, left_out, _ = draw({0: [5, 6]}, best=BestPassages(2, by))
    pairs = every.passage_rows.tolist()
    assert kept.passage_rows.tolist() == [pairs[1], pairs[2], pairs[3], pairs[4]] and left_out == 2
    first, _, _ = draw({0: [5, 6]}, best=BestPassages(1, by))
    assert first.passage_rows[:, 0].tolist() == [51, 60]  # the first of equals; 62 has no score


def test_a_passage_without_enough_negatives_has_no_example():
    found, _, short = draw({0: [5]}, first=2, last=2, examples=2, per_example=2)
    assert found.num_examples == 0 and short.without_negatives == 3  # four wanted, of three


def test_documents_beyond_the_runs_are_left_out_and_counted():
    found, _, short = draw({0: [9, 5]}, relevant_last=1)
    assert found.passage_rows[:, 0].tolist() == [50, 51, 52] and short.beyond_runs == 1


def test_every_passage_of_a_known_document_is_known():
    judged = Judged({}, {1: {2}, 0: {5, 3}})
    keys = known_pairs(judged, Map())
    assert [(int(key >> 32), int(key & 0xFFFFFFFF)) for key in keys] == [
        (0, 30), (0, 31), (0, 32), (0, 50), (0, 51), (0, 52), (1, 20), (1, 21), (1, 22)
    ]  # fmt: skip
    assert len(known_pairs(Judged(), Map())) == 0
