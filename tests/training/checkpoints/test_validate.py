"""A dev set and its measure by hand: which candidates, whose scores, what is averaged."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
import torch
from course import Second
from dev_runs import RUN

from raypipe.config.training import Validate
from raypipe.errors import InputError
from raypipe.models.folder.settings import PRESETS
from raypipe.training import validate
from raypipe.training import validate as measuring
from raypipe.training.comm import Comm
from raypipe.training.validate import DocumentsOfRun, check_order_counts

EVALUATE = validate.evaluate


class Trainee:
    device = "cpu"

    def __init__(self, kind="mono"):
        self.conventions, self.measured = SimpleNamespace(kind=kind), 0

    def measuring(self):
        self.measured += 1
        return torch.no_grad()


def data(k, run=RUN, relevant=(("a", "d12"), ("b", "d10"))):
    qrels = pa.table({
        "query_id": [q for q, _ in relevant], "passage_id": [p for _, p in relevant],
        "relevance": pa.array([1] * len(relevant), pa.int32()),
    })  # fmt: skip
    ids = {10: "d10", 11: "d11", 12: "d12"}
    named = {"query_ids": {0: "a", 1: "b"}, "passage_ids": ids}
    return SimpleNamespace(run=run, k=k, qrels=qrels, documents=None, **named)


def measure(monkeypatch, scores, *sets, kind="mono", comm=None, warned=None, **options):
    asked = []

    def score(trainee, model, dev, keys, specials):
        assert (model, specials) == ("model", "specials")
        asked.append([tuple(map(int, key)) for key in zip(*keys, strict=True)])
        return np.array([scores[key] for key in asked[-1]], np.float32)

    monkeypatch.setattr(validate, "_scores", score)

    def evaluate(run, qrels, measures, *, warn):
        if warned is not None:
            warned.append(warn)
        return EVALUATE(run, qrels, measures, warn=False)

    monkeypatch.setattr(validate, "evaluate", evaluate)
    trainee = Trainee(kind)
    found = validate.measured(
        trainee, "model", sets, "RR@10", comm or Comm(), "specials", **options
    )
    assert trainee.measured == 1
    return found, asked


SCORES = {
    (0, 10, -1): 0.25,
    (0, 11, -1): 0.5,
    (0, 12, -1): 0.75,
    (1, 12, -1): -3.0,
    (1, 10, -1): -2,
}


@pytest.mark.parametrize(
    ("k", "expected"),
    [
        (1, (1 / 3 + 1 / 2) / 2),  # nothing moves
        (2, (1 / 3 + 1) / 2),  # a: 11, 10, 12; b: 10, 12
        (3, 1.0),
    ],
)
def test_the_first_k_candidates_are_reordered_and_the_others_stay_below(monkeypatch, k, expected):
    (found,), asked = measure(monkeypatch, SCORES, data(k))
    assert found == pytest.approx(expected)
    assert [len([key for key in asked[0] if key[0] == 0])] == [k]


def test_each_dev_set_has_its_own_measure_and_warnings_are_as_asked(monkeypatch):
    warned = []
    found, asked = measure(monkeypatch, SCORES, data(3), data(1), warned=warned)
    assert found == pytest.approx([1.0, 5 / 12]) and len(asked) == 2
    measure(monkeypatch, SCORES, data(1), warned=warned, warn=True)
    assert warned == [False, False, True]


class OneOfTwo(Comm):
    """The second of two workers; the first one's scores are added to its own."""

    rank, world = 1, 2

    def __init__(self, others):
        self.others = others

    def sum_(self, tensors):
        tensors[0].add_(torch.tensor(self.others))


def test_every_worker_scores_its_share_and_knows_all(monkeypatch):
    comm = OneOfTwo([0.25, 0.0, 0.75, 0.0, -3.0])
    found, asked = measure(monkeypatch, SCORES, data(3), comm=comm)
    assert asked == [[(0, 11, -1), (1, 10, -1)]] and found == [1.0]


def test_a_duo_orders_by_the_sums_over_its_pairs(monkeypatch):
    """The sum of what each is preferred by, over the others."""
    pairs = {(0, 10, 11): 0.9, (0, 11, 10): 0.1, (0, 10, 12): 0.2, (0, 12, 10): 0.8,
             (0, 11, 12): 0.3, (0, 12, 11): 0.7, (1, 12, 10): 0.4, (1, 10, 12): 0.6}  # fmt: skip
    # 10: 0.9 + 0.2; 11: 0.1 + 0.3; 12: 0.8 + 0.7.
    (found,), asked = measure(monkeypatch, pairs, data(3), kind="duo")
    assert sorted(asked[0]) == sorted(pairs) and found == 1.0
    (found,), _ = measure(monkeypatch, pairs, data(2), kind="duo")
    assert found == pytest.approx((1 / 3 + 1) / 2)


class Halves:
    """Passages 10 d to 10 d + 9 are those of document d."""

    documents = staticmethod(lambda rows: rows // 10)
    windows = staticmethod(lambda rows: rows % 10)


@pytest.mark.parametrize(
    ("method", "expected"), [("maxp", [4.0, -1.5]), ("k-max-avgp", [-2.0, -1.5])]
)
@pytest.mark.parametrize("label", [None, 1])
def test_a_document_has_the_raw_scores_of_its_passages(label, method, expected):
    """Of two units the difference: of log-probabilities their log-odds, the mean of which is lower
    for one high passage among low ones."""
    raw = np.array([4.0, -4.0, -4.0, -4.0, -1.5, -1.5, -1.5, -1.5], np.float32)
    rows = np.array([10, 11, 12, 13, 20, 21, 22, 23])
    keys = (np.zeros(8, np.int64), rows, np.full(8, -1))
    conventions = validate._raw(replace(PRESETS["monobert"], relevant_label=label))
    assert conventions.score == ("raw" if label is None else "log-probability")
    scores = raw if label is None else -np.logaddexp(0, -raw)
    documents = DocumentsOfRun(None, Halves(), method, 4)
    dev = SimpleNamespace(documents=documents)
    found, values = validate._of_lines(conventions, dev, keys, scores.astype(np.float32))
    assert [part.tolist() for part in found] == [[0, 0], [1, 2], [-1, -1]]
    assert values.tolist() == pytest.approx(expected, abs=1e-5)


def test_a_blend_orders_by_the_first_stage_and_the_log_odds_together():
    """The first stage of RUN is 1, 0.5 and 0 for passages 10, 11 and 12 of query 0."""
    conventions = validate._raw(replace(PRESETS["monobert"], blend=4.0))
    keys = (np.zeros(3, np.int64), np.array([10, 11, 12]), np.full(3, -1))
    f = np.array([-1.0, 0.5, 2.0], np.float32)
    scores = -np.logaddexp(0, -f)
    dev = data(3, RUN.slice(0, 3))
    first = [2.0, 1.5, 1.0]
    dev.run = dev.run.set_column(3, "score", pa.array(first, pa.float32()))
    found, values = validate._of_lines(conventions, dev, keys, scores.astype(np.float32))
    assert found is keys and values.tolist() == pytest.approx([3.0, 2.5, 2.0], abs=1e-5)
    dev.k = 2
    _, values = validate._of_lines(conventions, dev, keys, scores.astype(np.float32))
    assert values[:2].tolist() == pytest.approx([3.0, 0.5], abs=1e-5)
    of_documents = SimpleNamespace(
        run=dev.run, documents=DocumentsOfRun(dev.run, Halves(), "maxp", 4)
    )
    _, values = validate._of_lines(conventions, of_documents, keys, scores.astype(np.float32))
    assert values.tolist() == pytest.approx([3.0], abs=1e-5)


def test_a_dev_set_names_its_queries_and_the_passages_of_its_run(dev):
    found, asked = dev("a 0 docs-12 1", "b 0 docs-12 0", "b 0 docs-10 2", "other 0 x 3")
    assert asked == [("run", 0, 2)] and found.run.num_rows == 5
    assert found.query_ids == {0: "a", 1: "b"}
    assert found.passage_ids == {10: "docs-10", 11: "docs-11", 12: "docs-12"}
    assert found.qrels["query_id"].to_pylist() == ["a", "b", "b"]
    assert (found.queries, found.passages, found.k) == ("texts of q", "texts of p", 2)


def test_a_dev_set_of_fewer_queries_judges_those_alone(dev):
    found, asked = dev("a 0 docs-12 1", "b 0 docs-10 2", at_most=1)
    assert asked == [("run", 0, 1)] and found.run.num_rows == 3
    assert found.query_ids == {0: "a"} and found.qrels.num_rows == 1
    with pytest.raises(InputError, match="no relevant passage for the queries that are measured"):
        dev("a 0 docs-12 0", "b 0 docs-10 2", at_most=1)
    assert dev("a 0 docs-12 0", "b 0 docs-10 2")[0].qrels.num_rows == 2


def test_a_measurement_is_told_by_dev_set():
    recipe = SimpleNamespace(
        masking=None, dev={"a": 1, "b": 2}, validate_=Validate(every=3, measure="RR@10")
    )
    told = measuring.progress_of(
        SimpleNamespace(recipe=recipe), {"step": 3, "mean": 0.5, "values": [0.25, 0.75]}
    )
    assert told == {"step": 3, "measure": "RR@10", "mean": 0.5, "of": {"a": 0.25, "b": 0.75}}


def test_queries_without_candidates_are_told_once_by_the_first_worker(monkeypatch):
    warned = []
    monkeypatch.setattr(measuring, "dev_of", lambda job: [])
    monkeypatch.setattr(measuring, "layouts_for", lambda job: None)
    monkeypatch.setattr(measuring, "measured", lambda *given, warn: warned.append(warn) or [0.5])
    recipe = SimpleNamespace(validate_=Validate(every=3))
    job = SimpleNamespace(recipe=recipe, start=None, dev=(), is_pretraining=False)
    own = measuring.DevMeasures(job)
    assert [own.values(None, Comm()) for _ in range(2)] == [[0.5], [0.5]]
    measuring.DevMeasures(job).values(None, Second())
    assert warned == [True, False, False]


@pytest.mark.parametrize(
    ("k", "relevant", "measure", "value"),
    [
        (1, (("a", "d12"), ("b", "d10")), "RR@10", None),  # nothing to reorder
        (3, (("a", "gone"),), "nDCG@10", 0.0),
        (3, (("a", "d10"), ("a", "d11"), ("a", "d12")), "AP", None),
        (2, (("a", "d12"), ("b", "d10")), "R@3", None),  # the first 2 are among 3 in any order
    ],
)
def test_a_dev_set_that_tells_no_checkpoint_apart_is_refused(k, relevant, measure, value):
    given = data(k, relevant=relevant)
    told = f"qrels.txt: {measure} is {'' if value is None else f'{value:.4f}'}.* worst order of the"
    with pytest.raises(InputError, match=f"{told} first {k} candidates, so no checkpoint"):
        check_order_counts("qrels.txt", given, measure)


def test_a_dev_set_of_which_one_query_can_be_reordered_serves():
    check_order_counts("qrels.txt", data(3, relevant=(("a", "d12"), ("b", "gone"))), "RR@10")


def test_a_model_that_gives_every_candidate_one_score_is_told(monkeypatch, caplog):
    keys = [(q, p, -1) for q, p in ((0, 10), (0, 11), (0, 12), (1, 12), (1, 10))]
    measure(monkeypatch, dict.fromkeys(keys, -1.4931), data(3))
    (record,) = caplog.records
    assert "a dev set's 5 candidates all have the score -1.4931" in record.message
    measure(monkeypatch, {**dict.fromkeys(keys, -1.4931), keys[0]: 2.0}, data(3))
    assert len(caplog.records) == 1
