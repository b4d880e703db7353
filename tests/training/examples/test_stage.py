import pickle
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from training_texts import keys, wanted

from raypipe.config.training import TrainDocuments
from raypipe.training.examples import NO_RUN, Examples, RelevantTexts, permuted
from raypipe.training.examples_stage import ExamplesStage, OfDocuments, _first
from raypipe.training.guard import Guard


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
    alone = np.empty((2, 0), np.int64)
    texts = RelevantTexts.of(keys((1, 9), (0, 7), (1, 9)), alone, alone)
    found = ExamplesStage._with_relevant(stage, triples, texts)
    assert (found.relevant if expected is None else found.relevant.tolist()) == expected
    assert found.query_copies is None and found.passage_copies is None


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
        return OfDocuments(stored("map"), stored("i"), None if scores is None else stored(scores))

    best = TrainDocuments(best=5, scored_by="a")
    every = [
        spec(None, None), spec(TrainDocuments(), of(None)), spec(best, of("s")),
        spec(best, of("t")), spec(TrainDocuments(best=4, scored_by="a"), of("s")),
        spec(TrainDocuments(passages=9), of(None)),
    ]  # fmt: skip
    assert len(set(every)) == len(every)
    renamed = TrainDocuments(best=5, scored_by="b")
    assert spec(renamed, of("s")) == spec(best, of("s"))  # the scores' own identity says it


def test_the_first_stages_of_a_blend_name_the_examples_and_not_their_files_names():
    def stored(name):
        return SimpleNamespace(identity=name, origin=f"store/{name}")

    def spec(blend, *runs):
        stage = ExamplesStage(
            wanted=wanted(qrels=None, blend=blend), collection=stored("d"), ids=stored("i"),
            queries=stored("q"), runs=(), teacher=None, teacher_last=None, guard=Guard(), seed=0,
            first_stages=tuple(map(stored, runs)),
        )  # fmt: skip
        return stage.spec

    blend = {"runs": ["a"], "last": 9}
    every = [
        spec(None), spec(blend, "r"), spec(blend, "s"), spec({**blend, "last": 8}, "r"),
        spec({**blend, "none": False}, "r"), spec({"runs": ["a", "b"], "last": 9}, "r", "s"),
    ]  # fmt: skip
    assert len({each.fingerprint() for each in every}) == len(every)
    renamed = spec({"runs": ["z"], "last": 9}, "r")
    assert renamed.fingerprint() == every[1].fingerprint()  # the run's own identity says it
    assert "blend" not in every[0].params


def test_an_example_is_judged_unless_its_first_passage_came_from_a_run():
    rows, passages = np.array([0, 0], np.int32), np.array([[5, 6], [7, 8]], np.int32)
    table = Examples(rows, passages)
    from_runs = np.zeros((2, 2), np.uint8)
    drawn = from_runs.copy()
    drawn[:, 0] = NO_RUN
    assert table.is_judged and replace(table, runs=drawn).is_judged
    assert not replace(table, runs=from_runs).is_judged
    assert replace(table, runs=from_runs, labels=np.ones((2, 1), np.float32)).is_judged


def test_of_a_part_of_the_examples_the_first_stages_scores_are_kept():
    z = np.arange(18, dtype=np.float32).reshape(9, 2)
    table = Examples(np.arange(9, dtype=np.int32), z.astype(np.int32), first_stage=z)
    found = _first(table, 4, 5)
    assert found.first_stage.tolist() == found.passage_rows.tolist()
