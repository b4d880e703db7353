import itertools

import numpy as np
import pyarrow as pa
import pytest
from ranked_tables import qrels_of, table

from raypipe import schema
from raypipe.evaluation.measures import evaluate, grades_of
from raypipe.report.ties import left_open

MEASURES = ["nDCG@3", "AP", "RR(rel=2)@2", "R@2", "P@2", "AP(rel=2)"]


def run_of(lists):
    """Query row -> [(passage, score, stage)] in rank order, as schema.RUN and RUN_FILE."""
    lines = [(q, p, n, s, by) for q, own in lists.items() for n, (p, s, by) in enumerate(own, 1)]
    queries, passages, ranks, scores, stages = zip(*lines, strict=True)
    rows = [ord(passage) for passage in passages]
    run = pa.table([list(c) for c in (queries, rows, ranks, scores, stages)], schema=schema.RUN)
    ids = [[str(q) for q in queries], list(passages), list(ranks), list(scores)]
    return run, pa.table(ids, schema=schema.RUN_FILE)


def orders(own):
    """Every order of neighbours with the same score of the same stage."""
    blocks = [[*group] for _, group in itertools.groupby(own, key=lambda line: line[1:])]
    for order in itertools.product(*map(itertools.permutations, blocks)):
        yield [passage for block in order for passage, *_ in block]


def found(lists, judged, measures=MEASURES):
    run, named = run_of(lists)
    qrels = qrels_of(judged)
    grades = grades_of(qrels)
    lines = zip(named["query_id"].to_pylist(), named["passage_id"].to_pylist(), strict=True)
    of_lines = np.array([grades.get(query, {}).get(passage, 0) for query, passage in lines])

    def measured(run, names):
        rows = run.to_pylist()
        ids = [[str(r["query_row"]) for r in rows], [chr(r["passage_row"]) for r in rows]]
        more = [[r[name] for r in rows] for name in ("rank", "score")]
        table = pa.table([*ids, *more], schema=schema.RUN_FILE)
        return evaluate(table, qrels, names, warn=False)

    return left_open(run, of_lines, evaluate(named, qrels, measures, warn=False), measured)


def test_the_range_is_that_of_every_order_of_the_ties():
    rng = np.random.default_rng(7)
    for _ in range(4):
        lists, judged = {}, []
        for query in range(3):
            scores = np.sort(rng.integers(0, 3, 5))[::-1]
            stages = ["mono"] * 3 + ["bm25"] * 2  # a tail that may go on with the same score
            passages = rng.permutation([*"abcdefgh"])[:5]
            lists[query] = [
                (str(p), float(s), b) for p, s, b in zip(passages, scores, stages, strict=True)
            ]
            judged += [(str(query), p, int(rng.integers(-1, 3))) for p in "abcdgx"]
        told = found(lists, judged)
        values = {
            query: [
                evaluate(table({str(query): order}), qrels_of(judged), MEASURES, warn=False)
                for order in orders(own)
            ]
            for query, own in lists.items()
        }
        for measure in MEASURES:
            of_query = {
                q: [each.per_query[measure][str(q)] for each in own] for q, own in values.items()
            }
            least, greatest, num = told.ranges[measure]
            assert least == pytest.approx(sum(map(min, of_query.values())) / 3)
            assert greatest == pytest.approx(sum(map(max, of_query.values())) / 3)
            assert num == sum(min(own) < max(own) for own in of_query.values())
        tied = [own for own in lists.values() if len({line[1:] for line in own}) < len(own)]
        assert told.num_queries == len(tied)


def test_by_hand_a_tie_of_three_with_one_relevant():
    lists = {0: [("a", 2.0, "x"), ("b", 2.0, "x"), ("c", 2.0, "x"), ("d", 1.0, "x")]}
    told = found(lists, [("0", "b", 1), ("1", "a", 1)], ["RR@10", "R@3", "P@1"])
    # the relevant passage is at 1, 2 or 3; the second query has no line and counts 0
    assert told.ranges == {
        "RR@10": (pytest.approx(1 / 6), 0.5, 1), "R@3": (0.5, 0.5, 0), "P@1": (0.0, 0.5, 1),
    }  # fmt: skip
    assert (told.num_queries, told.num_mixed) == (1, 1)


def test_equal_scores_of_two_stages_or_queries_or_grades_leave_nothing_open():
    judged = [("0", "b", 1), ("1", "a", 1)]
    stages = found({0: [("a", 2.0, "mono"), ("b", 2.0, "bm25")]}, judged)
    assert (stages.num_queries, stages.num_mixed) == (0, 0)
    queries = found({0: [("a", 2.0, "x")], 1: [("b", 2.0, "x")]}, judged)
    assert (queries.num_queries, queries.num_mixed) == (0, 0)
    grades = found({0: [("c", 2.0, "x"), ("d", 2.0, "x"), ("b", 1.0, "x")]}, judged)
    assert (grades.num_queries, grades.num_mixed) == (1, 0)
    for told in (stages, queries, grades):
        assert all(each.least == each.greatest and not each.num_queries
                   for each in told.ranges.values())  # fmt: skip


def test_ties_of_queries_without_judgements_leave_nothing_open():
    told = found({0: [("a", 2.0, "x"), ("b", 2.0, "x")], 1: [("a", 1.0, "x")]}, [("1", "a", 1)])
    assert (told.num_queries, told.num_mixed) == (1, 0)


def test_a_measure_for_which_no_order_is_known_to_be_best_has_no_range():
    lists = {0: [("a", 2.0, "x"), ("b", 2.0, "x")]}
    told = found(lists, [("0", "b", 1)], ["NumRet", "Bpref", "RR@10"])
    assert told.ranges["NumRet"] is None and told.ranges["Bpref"] is None
    assert told.ranges["RR@10"] == (0.5, 1.0, 1)
