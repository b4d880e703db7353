import re
from collections.abc import Callable

import numpy as np
import pytest

from raypipe.data.python_docs.build import (
    PythonDocs,
)


@pytest.fixture(scope="module")
def docs(standard_docs: PythonDocs) -> PythonDocs:
    return standard_docs


@pytest.fixture(scope="module")
def small(small_docs: PythonDocs) -> PythonDocs:
    return small_docs


def terms(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def bm25(docs: PythonDocs, *, k1: float = 0.9, b: float = 0.4) -> Callable[[str], np.ndarray]:
    """Query -> a score for each passage; Robertson and Zaragoza 2009, equations 3.1 to 3.15."""
    rows: dict[str, list[int]] = {}
    lengths = np.zeros(len(docs.passages))
    for row, (_, text) in enumerate(docs.passages):
        found = terms(text)
        lengths[row] = len(found)
        for term in found:
            rows.setdefault(term, []).append(row)
    norms = k1 * (1 - b + b * lengths / lengths.mean())

    def score(query: str) -> np.ndarray:
        scores = np.zeros(len(lengths))
        for term in terms(query):
            held, counts = np.unique(rows.get(term, []), return_counts=True)
            held = held.astype(int)
            idf = np.log1p((len(lengths) - len(held) + 0.5) / (len(held) + 0.5))
            scores[held] += idf * counts / (counts + norms[held])
        return scores

    return score


def rr_at_10(docs: PythonDocs, split: str, score: Callable[[str], np.ndarray]) -> float:
    """Mean over the split's queries; ties by row; a passage without a score is not retrieved."""
    relevant: dict[str, set[str]] = {}
    for query_id, passage_id, _ in docs.qrels[split]:
        relevant.setdefault(query_id, set()).add(passage_id)
    total = 0.0
    for query_id, query in docs.queries[split]:
        scores = score(query)
        for rank, row in enumerate(np.argsort(-scores, kind="stable")[:10], start=1):
            if scores[row] > 0 and docs.passages[row][0] in relevant[query_id]:
                total += 1 / rank
                break
    return total / len(docs.queries[split])


def jaccard(left: frozenset[str], right: frozenset[str]) -> float:
    return len(left & right) / len(left | right)


def test_no_module_is_in_two_splits(docs: PythonDocs) -> None:
    modules = {
        split: {query_id.split(".")[0] for query_id, _ in rows}
        for split, rows in docs.queries.items()
    }
    judged = {split: {row[1] for row in rows} for split, rows in docs.qrels.items()}
    for groups in (modules, judged):
        assert not groups["train"] & groups["dev"]
        assert not groups["train"] & groups["test"]
        assert not groups["dev"] & groups["test"]


def test_no_query_has_a_near_duplicate_in_another_split(docs: PythonDocs) -> None:
    sets = {
        split: [frozenset(terms(text)) for _, text in rows] for split, rows in docs.queries.items()
    }
    for one, other in (("train", "test"), ("dev", "test"), ("train", "dev")):
        worst = max(jaccard(left, right) for left in sets[one][::3] for right in sets[other])
        assert worst < 0.6


def test_no_judged_passage_has_a_near_duplicate_in_another_split(docs: PythonDocs) -> None:
    texts = dict(docs.passages)
    sets = {
        split: [frozenset(terms(texts[each])) for each in sorted({row[1] for row in rows})]
        for split, rows in docs.qrels.items()
    }
    for one, other in (("train", "test"), ("dev", "test"), ("train", "dev")):
        worst = max(jaccard(left, right) for left in sets[one][::9] for right in sets[other])
        assert worst < 0.6


def test_every_query_has_two_words_and_is_asked_once(docs: PythonDocs) -> None:
    bags = [frozenset(text.split()) for rows in docs.queries.values() for _, text in rows]
    assert min(map(len, bags)) >= 2
    assert len(set(bags)) == len(bags)


def test_ranking_by_containment_of_the_query_fails(docs: PythonDocs) -> None:
    texts = [text.lower() for _, text in docs.passages]

    def score(query: str) -> np.ndarray:
        return np.array([query in text for text in texts], dtype=float)

    assert rr_at_10(docs, "test", score) < 0.1


def test_bm25_finds_some_but_not_all(docs: PythonDocs) -> None:
    assert 0.1 < rr_at_10(docs, "test", bm25(docs)) < 0.8


def test_bm25_finds_some_but_not_all_of_a_small_collection(small: PythonDocs) -> None:
    assert 0.1 < rr_at_10(small, "test", bm25(small)) < 0.8
