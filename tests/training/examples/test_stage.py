import pickle
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from training_texts import keys, wanted

from raypipe.config.training.documents import TrainDocuments
from raypipe.training.examples.guarding.guard import Guard
from raypipe.training.examples.sampler import permuted
from raypipe.training.examples.sources import OfDocuments
from raypipe.training.examples.stage import ExamplesStage, _first
from raypipe.training.examples.table import Examples


def test_so_many_examples_are_those_of_a_seeded_order_in_their_own_order():
    table = Examples(
        np.arange(9, dtype=np.int32), np.arange(18, dtype=np.int32).reshape(9, 2),
        ranks=np.arange(18, dtype=np.int32).reshape(9, 2), relevant=keys((0, 0)),
    )  # fmt: skip
    assert _first(table, None, 5) is table and _first(table, 9, 5) is table
    found = _first(table, 8, 5)
    expected = sorted(permuted(np.arange(8), size=9, seed=5, epoch=0).tolist())
    assert found.query_rows.tolist() == expected
    assert found.passage_rows[:, 0].tolist() == [2 * row for row in expected]
    assert found.ranks[:, 1].tolist() == [2 * row + 1 for row in expected]
    assert found.runs is None and found.relevant.tolist() == table.relevant.tolist()
    less = set(_first(table, 3, 5).query_rows.tolist())
    assert less < set(expected)


@pytest.mark.parametrize(("in_batch", "expected"), [(True, [7, (1 << 32) + 9]), (False, None)])
def test_of_triples_alone_the_relevant_passages_of_a_batch_are_known(in_batch, expected):
    """Where passages are each other's negatives; a triple is query, relevant, irrelevant."""
    stage = SimpleNamespace(wanted=wanted(qrels=None), in_batch=in_batch)
    triples = Examples(np.array([1, 0, 1]), np.array([[9, 2], [7, 3], [9, 4]]), None)
    found = ExamplesStage._pairs(stage, None, triples)
    assert found is None if expected is None else found.tolist() == expected


@pytest.mark.parametrize("given", ["qrels", "triples"])
def test_examples_are_named_by_the_judgements_that_are_there_now(tmp_path, given):
    """A worker asks again: a file that changed since, or differs on its node, is found so."""
    file = tmp_path / "file.txt"
    file.write_text("1 0 2 1\n")
    store = SimpleNamespace(identity="d", origin="store/fingerprint")
    stage = ExamplesStage(
        wanted=wanted(**{"qrels": None, given: str(file)}), collection=store, ids=store,
        queries=store, runs=(), teacher=None, teacher_last=None, guard=Guard(), seed=0,
    )  # fmt: skip
    before = stage.spec
    assert before == stage.spec
    file.write_text("1 0 3 1\n")
    (change,) = before.diff(pickle.loads(pickle.dumps(stage)).spec)
    assert f"content:{given}" in str(change)
    near = replace(stage, guard=Guard(near_copy=0.7)).spec
    (change,) = replace(stage, guard=Guard(near_copy=0.6)).spec.diff(near)
    assert str(change) == "params.near_copy 0.6 -> 0.7"


def test_what_is_said_of_documents_and_who_scored_them_names_the_examples():
    def stored(name):
        return SimpleNamespace(identity=name, origin=f"store/{name}")

    def spec(documents, of):
        stage = ExamplesStage(
            wanted=wanted(qrels=None, documents=documents), collection=stored("d"),
            ids=stored("i"), queries=stored("q"), runs=(), teacher=None, teacher_last=None,
            guard=Guard(), seed=0, documents=of,
        )  # fmt: skip
        return stage.spec.fingerprint()

    def of(scores):
        return OfDocuments(stored("map"), None if scores is None else stored(scores))

    best = TrainDocuments(best=5, scored_by="a")
    every = [
        spec(None, None), spec(TrainDocuments(), of(None)), spec(best, of("s")),
        spec(best, of("t")), spec(TrainDocuments(best=4, scored_by="a"), of("s")),
        spec(TrainDocuments(passages=9), of(None)),
    ]  # fmt: skip
    assert len(set(every)) == len(every)
    renamed = TrainDocuments(best=5, scored_by="b")
    assert spec(renamed, of("s")) == spec(best, of("s"))  # the scores' own identity says it
