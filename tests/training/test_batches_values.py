"""Batches, their losses and what a training starts from, by hand on a few numbers."""

import hashlib
import math
import os
import pickle
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from raypipe.config.training.recipe import TrainingSet
from raypipe.errors import InputError
from raypipe.models.folder.conventions import Conventions, PairConventions
from raypipe.text.inputs import Layout
from raypipe.text.pairs import TextSlice
from raypipe.training.checkpoints import trained_on
from raypipe.training.examples.draw import Short
from raypipe.training.examples.empty import nothing_left
from raypipe.training.examples.guard import Guard
from raypipe.training.examples.sampler import permuted
from raypipe.training.examples.stage import ExamplesStage, _first
from raypipe.training.examples.table import Examples, pair_keys
from raypipe.training.model.starting_tensors import starting_tensors
from raypipe.training.steps import comm, determinism
from raypipe.training.steps import update as loop
from raypipe.training.steps.batch import Source, pair_inputs_of, read_batch, text_counts
from raypipe.training.steps.comm import Solo
from raypipe.training.steps.gradient import _share
from raypipe.training.steps.objective import Objective
from raypipe.training.steps.texts import gathered


class Texts:
    """Row r has the pieces 10 r, 10 r + 1, ...; as many as `counts` says."""

    def __init__(self, base, counts):
        self.base, self.counts = base, counts

    def part(self, rows):
        counts = np.array([self.counts[row] for row in rows], np.int64)
        pieces = [self.base + 10 * row + n for row in rows for n in range(self.counts[row])]
        return TextSlice(np.array(pieces, np.uint16), np.cumsum(counts) - counts, counts)


def pieces(part):
    spans = zip(part.starts.tolist(), part.counts.tolist(), strict=True)
    return [part.flat[start : start + count].tolist() for start, count in spans]


def source(queries, passages, base, *, teacher=None, relevant=None):
    table = Examples(
        np.array(queries, np.int32),
        np.array(passages, np.int32),
        teacher=None if teacher is None else np.array(teacher, np.float32),
        relevant=relevant,
    )
    return Source(table, Texts(base, [1, 2, 3]), Texts(base + 100, [2, 1, 0, 4]))


def keys(*pairs):
    return np.sort([int(pair_keys(np.array(q), np.array(p))) for q, p in pairs])


ONE = source([0, 1, 2], [[0, 1], [1, 2], [3, 0]], 0, relevant=keys((0, 0), (1, 1), (1, 0), (2, 3)))
TWO = source([1, 0], [[2, 3], [0, 3]], 1000, teacher=[[0.5, 0.25], [2.0, -1.0]])


def test_a_batch_reads_examples_by_number_over_all_sources():
    batch = read_batch([ONE, TWO], np.array([4, 1, 2]))
    assert (batch.num_examples, batch.num_passages) == (3, 2)
    assert pieces(batch.query) == [[1000], [10, 11], [20, 21, 22]]
    assert pieces(batch.passage) == [
        [1100, 1101], [1130, 1131, 1132, 1133], [110], [], [130, 131, 132, 133], [100, 101],
    ]  # fmt: skip
    assert batch.teacher[0].tolist() == [2.0, -1.0] and np.isnan(batch.teacher[1:]).all()
    assert batch.positive.tolist() == [
        [True, False, False, False, False, False],
        [False, False, True, False, False, True],  # row 0 is known as relevant for query 1 too
        [False, False, False, False, True, False],
    ]
    alone = read_batch([ONE], np.array([0, 2, 0]))
    assert alone.teacher is None
    # The same example twice, and passage 0 again in example 2.
    assert alone.positive[0].tolist() == [True, False, False, True, True, False]


def test_texts_are_gathered_in_order_from_each_source():
    part = gathered(
        [Texts(0, [1, 2, 3]), Texts(500, [3, 1])], np.array([1, 0, 1]), np.array([1, 2, 0])
    )
    assert pieces(part) == [[510], [20, 21, 22], [500, 501, 502]]


def pair_conventions(kind="mono", **changed):
    given = {"query_limit": 2, "passage_limit": None, "total_limit": 8, "relevant_label": 1}
    given["score"] = "log-probability"
    return PairConventions(**{"kind": kind, **given, **changed})


WIDE = source([0, 2], [[0, 1, 3], [3, 2, 0]], 0)


def test_a_mono_reads_each_passage_and_the_first_is_relevant():
    batch = read_batch([WIDE], np.array([0, 1]))
    found = pair_inputs_of(batch, pair_conventions(), Layout(1, (2,), 2, (0, 1)))
    assert found.per_example == 3 and found.targets.tolist() == [1, 0, 0, 1, 0, 0]
    assert pieces(found.query) == [[0]] * 3 + [[20, 21]] * 3
    # Room for 8 - 3 pieces: 4 beside a query of one, 3 beside a query cut to two.
    assert [pieces(p) for p in found.passages] == [
        [[100, 101], [110], [130, 131, 132, 133], [130, 131, 132], [], [100, 101]]
    ]
    assert found.lengths.tolist() == [6, 5, 8, 8, 5, 7]


def test_a_duo_reads_the_relevant_one_against_each_other_in_both_orders():
    batch = read_batch([WIDE], np.array([0]))
    layout = Layout(1, (2,), 2, (0, 1, 2))
    found = pair_inputs_of(batch, pair_conventions("duo", total_limit=9), layout)
    assert found.per_example == 4 and found.targets.tolist() == [1, 0, 1, 0]
    first, second = (pieces(p) for p in found.passages)
    # 9 - 4 - 1 pieces of the query: 2 of each passage.
    assert first == [[100, 101], [110], [100, 101], [130, 131]]
    assert second == [[110], [100, 101], [130, 131], [100, 101]]
    assert found.lengths.tolist() == [8, 8, 9, 9]


def test_an_encoder_keeps_so_many_pieces_of_each_side():
    batch = read_batch([WIDE], np.array([1]))
    conventions = Conventions(
        pooling="mean", normalise=False, query_segment=0, passage_segment=1,
        query_limit=2, passage_limit=3,
    )  # fmt: skip
    query, passage = text_counts(batch, conventions)
    assert query.tolist() == [2] and passage.tolist() == [3, 0, 2]


@pytest.mark.parametrize(("rank", "share"), [(0, [1, 0]), (1, [2, 3])])
def test_examples_are_dealt_out_by_length(rank, share):
    own = SimpleNamespace(rank=rank, world=2)
    assert _share(np.array([5, 1, 2, 9]), own).tolist() == share
    assert (
        _share(np.array([5, 1, 2, 9]), SimpleNamespace(rank=1 - rank, world=2), rank).tolist()
        == share
    )


def test_one_worker_is_alone():
    rows = torch.ones(2, 3)
    solo = Solo()
    solo.sum_([rows])
    solo.barrier()
    assert (solo.rank, solo.world) == (0, 1) and rows.sum() == 6
    (own,) = solo.gathered(rows)
    assert own is rows


class Other:
    """torch.distributed for the second of three workers; the others' tensors are added."""

    def __init__(self, *others):
        self.others, self.waited = list(others), 0

    def get_rank(self):
        return 1

    def get_world_size(self):
        return 3

    def all_reduce(self, tensor):
        tensor += torch.tensor(self.others.pop(0), dtype=tensor.dtype).view_as(tensor)

    def barrier(self):
        self.waited += 1


def test_a_group_sums_and_gathers_rows_by_rank_and_gradients_come_back(monkeypatch):
    monkeypatch.setattr(comm, "dist", Other([1.0, 2.0, 3.0, 4.0, 5.0]))
    group = comm.Group()
    assert (group.rank, group.world) == (1, 3)
    one, two = torch.tensor([[10.0, 20.0], [30.0, 40.0]]), torch.tensor([50.0])
    group.sum_([one, two])
    assert one.tolist() == [[11.0, 22.0], [33.0, 44.0]] and two.tolist() == [55.0]
    group.barrier()
    assert comm.dist.waited == 1
    # The first has one row, the third two; this one has two.
    theirs = [[1.0], [0.0], [0.0], [7.0], [8.0]]
    back = [[0.0], [0.25], [0.5], [0.0], [0.0]]
    monkeypatch.setattr(comm, "dist", Other([1, 0, 2], theirs, back))
    own = torch.tensor([[4.0], [5.0]], requires_grad=True)
    first, second, third = group.gathered(own)
    assert [part.tolist() for part in (first, second, third)] == [
        [[1.0]], [[4.0], [5.0]], [[7.0], [8.0]]]  # fmt: skip
    (10 * second.sum() + first.sum()).backward()
    assert own.grad.tolist() == [[10.25], [10.5]]


# Objectives

UNITS = torch.log(torch.tensor([[1.0, 3.0], [1.0, 1.0]]))  # P(unit 1): 0.75 and 0.5
TARGETS = np.array([1.0, 0.0], np.float32)
CROSS = -(math.log(0.75) + math.log(0.5)) / 2


def test_cross_entropy_is_the_mean_over_an_examples_inputs_whatever_its_weight():
    found = Objective("cross-entropy", judgements=9.0).of_units(UNITS, TARGETS, 2, None, 1)
    assert found.tolist() == pytest.approx([CROSS])
    each = Objective("cross-entropy").of_units(UNITS, TARGETS, 1, None, 1)
    assert each.tolist() == pytest.approx([-math.log(0.75), -math.log(0.5)])


def test_a_teachers_loss_takes_the_difference_of_two_units_and_judgements_are_added():
    """Raw scores log 3 and 0; the teacher's margin is 1."""
    teacher = np.array([[3.0, 2.0]], np.float32)
    margin = (math.log(3) - 1) ** 2
    assert Objective("margin-mse").of_units(
        UNITS, TARGETS, 2, teacher, 1
    ).tolist() == pytest.approx([margin])
    other = Objective("margin-mse").of_units(UNITS, TARGETS, 2, teacher, 0)
    assert other.tolist() == pytest.approx([(-math.log(3) - 1) ** 2])
    both = Objective("margin-mse", judgements=0.5).of_units(UNITS, TARGETS, 2, teacher, 1)
    assert both.tolist() == pytest.approx([margin + 0.5 * CROSS])
    one = Objective("margin-mse").of_units(UNITS[:, 1:], TARGETS, 2, teacher, None)
    assert one.tolist() == pytest.approx([margin])  # log 3 - log 1
    duo = Objective("margin-mse").of_units(UNITS, TARGETS, 2, teacher, 1, duo=True)
    pair = Objective("margin-mse").of_lists(torch.tensor([[[math.log(3), 0.0]]]), teacher)
    assert duo.tolist() == pytest.approx(pair.tolist())


def test_examples_without_every_score_of_the_teacher_teach_nothing_and_give_no_gradient():
    scores = torch.tensor([[2.0, 0.0], [2.0, 0.0]], requires_grad=True)
    teacher = np.array([[1.0, 0.0], [1.0, np.nan]], np.float32)
    found = Objective("margin-mse").of_lists(scores, teacher)
    assert found.tolist() == [1.0, 0.0]
    found.sum().backward()
    assert scores.grad.tolist() == [[2.0, -2.0], [0.0, 0.0]]
    kl = Objective("kl").of_lists(torch.tensor([[0.0, 0.0]]), np.array([[1.0, 1.0]], np.float32))
    assert kl.tolist() == pytest.approx([0.0])
    hinge = Objective("pairwise-hinge", margin=3.0).of_lists(scores.detach(), None)
    assert hinge.tolist() == [1.0, 1.0]
    assert Objective("pairwise-hinge").of_lists(torch.tensor([[0.5, 0.0]]), None).tolist() == [0.5]


def test_the_losses_of_a_batch_by_name():
    scores, positive = torch.tensor([[2.0, 1.5]]), torch.tensor([[True, False]])
    own = torch.tensor([0])
    margin = Objective("multi-label-margin").of_batch(scores, positive, own)
    assert margin.tolist() == [0.25]
    nce = Objective("info-nce", temperature=0.5).of_batch(scores, positive, own)
    assert nce.tolist() == pytest.approx([math.log(1 + math.exp(-1.0))])
    assert Objective("info-nce").temperature == 1.0


# Start weights

SEGMENTS = "bert.embeddings.token_type_embeddings.weight"


def start(conventions, tensors, units=2, seed=3):
    config = {"hidden_size": 4, "initializer_range": 0.5}
    return starting_tensors(tensors, config, conventions, num_units=units, seed=seed)


def held(*names, rows=2):
    return {name: torch.full((rows, 4), float(n)) for n, name in enumerate(names)}


def test_names_get_their_prefix_and_what_no_model_reads_is_left_out():
    encoder = Conventions(
        pooling="cls", normalise=True, query_segment=0, passage_segment=0, query_limit=1,
        passage_limit=1,
    )  # fmt: skip
    names = ("embeddings.x", "encoder.y", "embeddings.position_ids", "pooler.dense.weight",
             "cls.predictions", "classifier.weight")  # fmt: skip
    given = held("embeddings.x")
    plain = start(encoder, held(*names))
    assert sorted(plain) == ["bert.embeddings.x", "bert.encoder.y"]
    whole = start(encoder, held(*(f"bert.{name}" for name in names[:4]), "cls.predictions"))
    assert sorted(whole) == sorted(plain) and whole["bert.encoder.y"].tolist() == [[1.0] * 4] * 2
    mixed = {"bert.embeddings.x": torch.zeros(1), SEGMENTS: torch.zeros(2, 4)}
    mono = start(pair_conventions(), {**mixed, "cls.predictions.bias": torch.zeros(1)})
    assert "bert.embeddings.x" in mono and not [name for name in mono if "predictions" in name]
    half = {"embeddings.x": given["embeddings.x"].half()}
    assert start(encoder, half)["bert.embeddings.x"].dtype == torch.float32
    start(encoder, given)["bert.embeddings.x"].fill_(7.0)
    assert given["embeddings.x"].max() == 0.0, "the checkpoint's own tensors stay"


def test_a_missing_head_is_drawn_by_the_seed_and_one_that_is_there_is_kept():
    mono = pair_conventions()
    base = {SEGMENTS: torch.zeros(2, 4)}
    drawn = start(mono, base)
    generator = torch.Generator().manual_seed(3)
    pooler = torch.randn(4, 4, generator=generator) * 0.5
    head = torch.randn(2, 4, generator=generator) * 0.5
    assert torch.equal(drawn["bert.pooler.dense.weight"], pooler)
    assert torch.equal(drawn["classifier.weight"], head)
    assert drawn["bert.pooler.dense.bias"].tolist() == [0.0] * 4
    assert drawn["classifier.bias"].tolist() == [0.0] * 2
    own = {**base, "bert.pooler.dense.weight": torch.ones(4, 4),
           "bert.pooler.dense.bias": torch.ones(4), "classifier.weight": torch.ones(2, 4),
           "classifier.bias": torch.ones(2)}  # fmt: skip
    kept = start(mono, own)
    assert all(torch.equal(kept[name], own[name]) for name in own)
    one = start(mono, own, units=1)
    assert one["classifier.weight"].shape == (1, 4) and one["classifier.bias"].tolist() == [0.0]
    assert torch.equal(one["bert.pooler.dense.weight"], torch.ones(4, 4))


@pytest.mark.parametrize(("row", "expected"), [("zero", [0.0] * 4), ("copy", [1.0] * 4)])
def test_a_duo_gets_its_third_segment_row_once(row, expected):
    duo = pair_conventions("duo", segment_row=row)
    two = {f"bert.{SEGMENTS.removeprefix('bert.')}": torch.tensor([[0.5] * 4, [1.0] * 4])}
    assert start(duo, two)[SEGMENTS][2].tolist() == expected
    assert start(pair_conventions(), two)[SEGMENTS].shape == (2, 4)
    three = {SEGMENTS: torch.arange(12.0).view(3, 4)}
    assert torch.equal(start(duo, three)[SEGMENTS], three[SEGMENTS])


# Small rules


@pytest.mark.parametrize(("loss", "norm"), [(math.nan, 1.0), (1.0, math.inf), (-math.inf, 1.0)])
def test_a_loss_or_norm_that_is_not_finite_ends_the_training(loss, norm):
    loop._check(0, 1.0, 1.0, 0.1)
    with pytest.raises(InputError, match=r"^step 8: the loss is .*\(it is 0\.1\)"):
        loop._check(7, loss, norm, 0.1)


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


def test_passages_trained_on_are_known_by_their_pieces(monkeypatch):
    def hashed(*numbers):
        content = np.array(numbers, "<u4").tobytes()
        return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "little")

    part = TextSlice(np.array([7, 8, 9], np.uint16), np.array([1, 0, 3]), np.array([2, 1, 0]))
    assert trained_on.passage_hashes(part).tolist() == [hashed(8, 9), hashed(7), hashed()]
    expected = sorted(
        [hashed(100, 101), hashed(110), hashed(), hashed(130, 131, 132, 133)]
        + [hashed(1100, 1101), hashed(1130, 1131, 1132, 1133)]
    )
    for at_once in (1, 2, 50_000):
        monkeypatch.setattr(trained_on, "ROWS_AT_ONCE", at_once)
        assert trained_on.trained_on([ONE, TWO]).tolist() == expected


def test_a_process_computes_on_its_threads_and_a_cpu_needs_no_more(monkeypatch):
    before = torch.get_num_threads()
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    try:
        determinism.make_deterministic("cpu", 1)
        assert torch.get_num_threads() == 1
        assert not torch.are_deterministic_algorithms_enabled()
        assert "CUBLAS_WORKSPACE_CONFIG" not in os.environ
    finally:
        torch.set_num_threads(before)


def test_on_a_gpu_products_are_fp32_and_kernels_add_in_order(monkeypatch):
    """The settings alone: they can be made where there is no GPU."""
    threads, precision = torch.get_num_threads(), torch.get_float32_matmul_precision()
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    torch.set_float32_matmul_precision("high")
    try:
        determinism.make_deterministic("cuda", 1)
        assert torch.get_float32_matmul_precision() == "highest"
        assert torch.are_deterministic_algorithms_enabled()
        assert not torch.is_deterministic_algorithms_warn_only_enabled()
        assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"
    finally:
        os.environ.pop("CUBLAS_WORKSPACE_CONFIG", None)
        torch.use_deterministic_algorithms(False)
        torch.set_float32_matmul_precision(precision)
        torch.set_num_threads(threads)


@pytest.mark.parametrize(("in_batch", "expected"), [(True, [7, (1 << 32) + 9]), (False, None)])
def test_of_triples_alone_the_relevant_passages_of_a_batch_are_known(in_batch, expected):
    """Where passages are each other's negatives; a triple is query, relevant, irrelevant."""
    stage = SimpleNamespace(wanted=wanted(qrels=None), in_batch=in_batch)
    triples = Examples(np.array([1, 0, 1]), np.array([[9, 2], [7, 3], [9, 4]]), None)
    found = ExamplesStage._pairs(stage, None, triples)
    assert found is None if expected is None else found.tolist() == expected


# Why nothing is left


@pytest.mark.parametrize("given", ["qrels", "triples"])
def test_examples_are_named_by_the_judgements_that_are_there_now(tmp_path, given):
    """A worker asks again: a file that changed since, or differs on its node, is found so."""
    file = tmp_path / "file.txt"
    file.write_text("1 0 2 1\n")
    store = SimpleNamespace(digest="d")
    stage = ExamplesStage(
        wanted=wanted(**{"qrels": None, given: str(file)}), collection=store, ids=store,
        queries=store, runs=(), teacher=None, teacher_last=None, guard=Guard(), seed=0,
    )  # fmt: skip
    before = stage.spec
    assert before == stage.spec
    file.write_text("1 0 3 1\n")
    (change,) = before.diff(pickle.loads(pickle.dumps(stage)).spec)
    assert f"content:{given}" in str(change)


def wanted(**changed):
    negatives = {"runs": ["first"], "first": 3, "last": 9, "per_example": 4,
                 **changed.pop("negatives", {})}  # fmt: skip
    given = {"collection": "c", "queries": "q.tsv", "qrels": "q.txt", "negatives": negatives}
    return TrainingSet(**{**given, **changed})


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
