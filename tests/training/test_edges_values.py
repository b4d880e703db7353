"""Training's small parts at their bounds: draws, orders, near queries, losses, rates."""

import math

import numpy as np
import pytest
import torch

from raypipe.config.training.recipe import Validate
from raypipe.errors import InputError
from raypipe.storage.posix import PosixStorage
from raypipe.text.inputs import Layout, by_length, make_inputs
from raypipe.text.pairs import TextSlice
from raypipe.training.checkpoints.history import History, best_of
from raypipe.training.checkpoints.store import Checkpoints
from raypipe.training.examples import table as examples_module
from raypipe.training.examples.draw import Short, Window, drawn_examples
from raypipe.training.examples.guard import Dropped, Guard, normalised, refused_queries
from raypipe.training.examples.rankings import Ranking, Taught
from raypipe.training.examples.sampler import Sampler, _mixed, permuted
from raypipe.training.examples.table import Examples, distinct, pair_keys
from raypipe.training.examples.triples import triple_examples
from raypipe.training.model.lowrank import LowRank
from raypipe.training.steps import losses
from raypipe.training.steps.optimiser import Adam, clip_, decays, learning_rate


def ranking(*lines):
    columns = list(zip(*lines, strict=True)) if lines else [[], [], [], []]
    dtypes = (np.int32, np.int64, np.int32, np.float32)
    return Ranking(*(np.array(c, d) for c, d in zip(columns, dtypes, strict=True)))


RUN = ranking((0, 5, 1, 0.9), (0, 6, 2, 0.8), (0, 7, 3, 0.7), (2, 8, 1, 0.5), (2, 9, 2, 0.4))


def test_a_ranking_keeps_its_ranks_where_passages_are_left_out_or_cut():
    kept = RUN.without(np.array([6, 8]))
    assert kept.passage_rows.tolist() == [5, 7, 9] and kept.ranks.tolist() == [1, 3, 2]
    assert kept.query_rows.tolist() == [0, 0, 2]
    assert kept.scores.tolist() == pytest.approx([0.9, 0.7, 0.4])
    assert RUN.upto(2).passage_rows.tolist() == [5, 6, 8, 9]
    assert RUN.upto(1).ranks.tolist() == [1, 1] and len(RUN.upto(0).ranks) == 0


def test_a_teacher_tells_the_scores_of_pairs_and_nan_of_others():
    taught = Taught(ranking((2, 9, 1, 0.5), (0, 7, 1, 0.25), (0, 5, 2, 0.125)))
    assert taught.of(0, [5, 7]) == [0.125, 0.25] and taught.of(2, [9]) == [0.5]
    for query, passage in ((0, 9), (2, 5), (1, 7), (9, 9), (0, 0)):
        assert math.isnan(taught.of(query, [passage])[0])
    assert all(map(math.isnan, Taught(ranking()).of(0, [5, 6])))
    assert taught.of(0, []) == []


def test_pairs_have_keys_in_the_order_of_query_then_passage():
    assert pair_keys(np.array([1]), np.array([3])).tolist() == [(1 << 32) + 3]
    assert pair_keys(np.array([0, 2], np.int32), np.array([2**31 - 1, 0])).tolist() == [
        2**31 - 1,
        1 << 33,
    ]


def test_distinct_values_and_pairs_are_sorted_whatever_is_held_at_once(monkeypatch):
    rows, second = np.array([5, 1, 5, 3, 1]), np.array([1, 2, 1, 0, 9])
    for at_once in (1, 2, 100):
        monkeypatch.setattr(examples_module, "ROWS_AT_ONCE", at_once)
        assert distinct(rows).tolist() == [1, 3, 5]
        expected = [(1 << 32) + 2, (1 << 32) + 9, 3 << 32, (5 << 32) + 1]
        assert distinct(rows, second).tolist() == expected


def test_known_pairs_are_looked_up_elementwise():
    table = Examples(np.zeros(1, np.int32), np.zeros((1, 2), np.int32))
    assert (table.num_examples, table.num_passages) == (1, 2)
    asked = np.array([[0, 1], [1, 2]]), np.array([[3, 3], [4, 9]])
    assert not table.are_relevant(*asked).any()
    keys = np.sort(pair_keys(np.array([1, 0]), np.array([4, 3])))
    known = Examples(table.query_rows, table.passage_rows, relevant=keys)
    assert known.are_relevant(*asked).tolist() == [[True, False], [True, False]]


def draw(relevant, known, teacher=None, **window):
    short = Short()
    given = Window(**{"first": 1, "last": 3, "per_example": 1, "examples": 1, **window})
    return drawn_examples(relevant, known, (RUN,), teacher, given, seed=1, short=short), short


def test_counts_of_what_could_not_be_drawn():
    found, short = draw({0: [6], 1: [3], 2: [8]}, {0: {6}, 2: {8, 9}}, per_example=2)
    assert found.passage_rows[:, 0].tolist() == [6]
    assert sorted(found.passage_rows[0].tolist()[1:]) == [5, 7]
    assert found.ranks[0, 0] == 0 and sorted(found.ranks[0, 1:].tolist()) == [1, 3]
    assert short == Short(without_negatives=2)
    none, short = draw({0: [6]}, {0: {6}}, per_example=3)
    assert none.passage_rows.shape == (0, 4) and none.num_examples == 0
    assert short.without_negatives == 1


def test_a_negative_exactly_as_far_above_the_relevant_passage_as_allowed_stays():
    teacher = ranking((0, 6, 1, 1.0), (0, 5, 2, 1.5), (0, 7, 3, 1.75))
    found, short = draw({0: [6]}, {0: {6}}, teacher, above_teacher=0.5, examples=5)
    assert found.passage_rows[:, 1].tolist() == [5] and short.filtered == 1
    found, short = draw({0: [6]}, {0: {6}}, teacher, above_teacher=-1.0)
    assert found.num_examples == 0 and short.filtered == 2 and short.without_negatives == 1
    few = ranking((0, 6, 1, 1.0), (0, 5, 2, 0.5))
    found, short = draw({0: [6]}, {0: {6}}, few, examples=5)
    assert found.teacher.tolist() == [[1.0, 0.5]] and short.negatives_without_teacher == 1


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 16, 17, 100, 257])
def test_an_epoch_is_a_permutation_and_another_one_each_time(size):
    positions = np.arange(size)
    first = permuted(positions, size=size, seed=1, epoch=0)
    assert sorted(first.tolist()) == list(range(size))
    turned = permuted(positions[::-1].copy(), size=size, seed=1, epoch=0)
    assert turned.tolist() == first.tolist()[::-1]
    if size > 10:
        others = [permuted(positions, size=size, seed=s, epoch=e) for s, e in ((1, 1), (2, 0))]
        assert all(other.tolist() != first.tolist() for other in others)


def test_batches_run_on_across_epochs():
    sampler = Sampler(num_examples=5, batch_examples=3, seed=7)
    taken = [row for step in range(5) for row in sampler.batch(step).tolist()]
    for epoch in range(3):
        own = taken[5 * epoch : 5 * epoch + 5]
        assert own == permuted(np.arange(5), size=5, seed=7, epoch=epoch).tolist()
    large = Sampler(num_examples=2, batch_examples=7, seed=7).batch(0)
    assert len(large) == 7 and sorted(large[:2].tolist()) == sorted(large[2:4].tolist()) == [0, 1]


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("alpha beta gamma", False),  # the same
        ("Alpha, BETA gamma!", False),
        ("alpha beta gamma delta", False),  # 3 of 4
        ("alpha beta gamma delta epsilon", False),  # 3 of 5: exactly 0.6
        ("alpha beta gamma delta epsilon zeta", True),  # 3 of 6
        ("alpha beta", False),  # 2 of 3
        ("alpha", True),  # 1 of 3
        ("beta delta", True),
        ("other words entirely", True),
    ],
)
def test_queries_that_share_six_tenths_of_their_words_are_refused(text, kept):
    dropped = Dropped()
    found = refused_queries(["first of all", text], Guard(("alpha beta gamma", "x y z")), dropped)
    assert found == (set() if kept else {1})
    same = normalised(text) == "alpha beta gamma"
    assert (dropped.same_query, dropped.near_query) == (int(same), int(not kept and not same))


def test_three_samples_of_dropped_queries_are_kept():
    dropped = Dropped()
    texts = [f"alpha beta gamma delta{n}" for n in range(5)]
    assert refused_queries(texts, Guard(("alpha beta gamma",)), dropped) == {0, 1, 2, 3, 4}
    assert len(dropped.samples) == 3 and dropped.near_query == 5
    exact = Dropped()
    assert refused_queries(["alpha beta"], Guard(("alpha beta",)), exact) == {0}
    assert exact.samples == [] and exact.same_query == 1
    assert refused_queries(["alpha"], Guard(), Dropped()) == set()


# Losses


def test_margins_of_every_positive_against_every_other_over_the_documents():
    scores = torch.tensor([[2.0, 1.5, 0.0, 3.0]])
    positive = torch.tensor([[True, False, False, True]])
    # 2 against 1.5 and 0: 0.5 + 0; 3 against both: 0 + 0; over 4 documents.
    assert losses.multi_label_margin(scores, positive).tolist() == [0.5 / 4]
    both = torch.tensor([[True, True, False, False]])
    # 2: against 0: 0, 3: 2; 1.5: against 0: 0, 3: 2.5
    assert losses.multi_label_margin(scores, both).tolist() == [4.5 / 4]


def test_other_relevant_documents_take_no_part_in_the_softmax():
    scores = torch.log(torch.tensor([[1.0, 2.0, 5.0]]))
    positive = torch.tensor([[True, False, True]])
    own = torch.tensor([0])
    found = losses.info_nce(scores, positive, own, temperature=1.0)
    assert found.item() == pytest.approx(math.log(3.0), rel=1e-6)
    half = losses.info_nce(scores, positive, own, temperature=0.5)
    assert half.item() == pytest.approx(math.log(5.0), rel=1e-6)  # 1 and 2 squared
    assert positive.tolist() == [[True, False, True]]


def test_hinge_and_margin_losses_are_means_over_negatives():
    scores = torch.tensor([[2.0, 1.5, 0.0]])
    assert losses.pairwise_hinge(scores, margin=1.0).tolist() == [0.25]
    assert losses.pairwise_hinge(scores, margin=3.0).tolist() == [(2.5 + 1.0) / 2]
    teacher = torch.tensor([[1.0, 0.0, 0.5]])
    assert losses.margin_mse(scores, teacher).tolist() == [(0.25 + 2.25) / 2]
    units = torch.tensor([[[1.0, 0.0], [0.5, 0.5]]])
    # margins 1 and 0.5: differences 0, 1 and 0, 1
    assert losses.pair_margin_mse(units, teacher).tolist() == [0.5]


def test_divergence_is_of_the_student_from_the_teacher():
    student = torch.log(torch.tensor([[1.0, 3.0]]))
    teacher = torch.log(torch.tensor([[1.0, 1.0]]))
    expected = 0.5 * math.log(0.5 / 0.25) + 0.5 * math.log(0.5 / 0.75)
    found = losses.kl_divergence(student, teacher, temperature=1.0)
    assert found.item() == pytest.approx(expected, rel=1e-5)
    cold = losses.kl_divergence(student, teacher, temperature=0.5)
    assert cold.item() == pytest.approx(0.5 * math.log(5) + 0.5 * math.log(5 / 9), rel=1e-5)


@pytest.mark.parametrize(
    ("step", "settings", "expected"),
    [
        (0, {"warmup": 0}, 1.0),
        (50, {"warmup": 0}, 0.5),
        (1, {"warmup": 4}, 0.25),
        (3, {"warmup": 4}, 0.75),
        (4, {"warmup": 4}, 1.0),
        (52, {"warmup": 4}, 0.5),
        (120, {"warmup": 4}, 0.0),
        (100, {"warmup": 100}, 0.0),
        (4, {"warmup": 4, "decay": "linear-from-start"}, 0.96),
        (2, {"warmup": 4, "decay": "constant"}, 0.5),
    ],
)
def test_rates_at_the_joints(step, settings, expected):
    assert learning_rate(step, peak=1.0, total=100, **settings) == pytest.approx(expected)


def test_a_norm_exactly_at_the_limit_is_left_and_0_is_no_limit():
    gradients = [torch.tensor([3.0, 0.0]), torch.tensor([4.0])]
    assert clip_(gradients, 5.0) == 5.0
    assert gradients[0][0].item() == pytest.approx(3.0, rel=1e-6)
    assert clip_(gradients, 0.0) == pytest.approx(5.0)
    assert decays("a.weight") and not decays("a.bias") and not decays("x.LayerNorm.weight")


def test_two_steps_of_berts_optimiser_by_hand():
    weight = torch.tensor([1.0], dtype=torch.float64)
    adam = Adam({"w": weight}, betas=(0.5, 0.75), eps=0.5, weight_decay=0.5)
    first = second = 0.0
    expected = 1.0
    for number, gradient in ((1, 2.0), (2, -1.0)):
        adam.step([torch.tensor([gradient])], rate=0.25, number=number)
        first = 0.5 * first + 0.5 * gradient
        second = 0.75 * second + 0.25 * gradient**2
        expected = expected * (1 - 0.25 * 0.5) - 0.25 * first / (math.sqrt(second) + 0.5)
        assert weight.item() == pytest.approx(expected, rel=1e-6)
    assert adam.state()["first.w"].item() == first == 0.0
    assert adam.state()["second.w"].item() == pytest.approx(second)
    other = Adam({"w": torch.zeros(1)})
    other.load(adam.state())
    assert other.state()["second.w"].item() == pytest.approx(second)
    half = Adam({"w": torch.zeros(1, dtype=torch.bfloat16)}).state()
    assert {tensor.dtype for tensor in half.values()} == {torch.float32}
    default = Adam({"w": torch.zeros(1)})
    assert (default._betas, default._eps, default._decay) == ((0.9, 0.999), 1e-6, [0.01])


def test_only_the_newest_two_checkpoints_and_those_kept_stay(tmp_path):
    storage = PosixStorage(tmp_path)
    found = Checkpoints(storage, "train/f")
    assert found.newest() is None and not found.has(1)
    for step in (1, 2, 3, 10):
        saved = found.save(step, {"w": torch.full((2,), float(step))}, {"device": "cpu"})
        assert saved == found.at(step)
    assert found.newest().step == 10 and found.at(2).facts == {"device": "cpu"}
    assert found.load(found.at(3))["w"].tolist() == [3.0, 3.0]
    gone = found.at(1).sha256
    found.prune({2})
    assert [step for step in range(11) if found.has(step)] == [2, 3, 10]
    assert not storage.has(gone) and storage.has(found.at(2).sha256)
    found.clear()
    assert found.newest() is None
    assert [n for n in storage.names("") if n.startswith(("blobs/", "train/"))] == []


def test_measurements_end_by_patience_exactly(tmp_path):
    def history(**settings):
        return History(PosixStorage(tmp_path), "t/f", Validate(every=10, **settings), 40)

    for step, value in ((10, 0.25), (20, 0.5), (30, 0.5)):
        history().add(step, [value, value + 0.5])
    assert not history(patience=2).ended(30) and history(patience=1).ended(30)
    assert not history().ended(30) and history().missing(40) == [40]
    assert history(patience=1).missing(40) == [] and history(patience=1).kept(40) == {20}
    assert history().kept(40) == {20, 40} and best_of(history().counted(40))["step"] == 20
    assert best_of([]) is None
    assert history().due(40) == [10, 20, 30, 40] and history().due(39) == [10, 20, 30]


def test_singles_stand_by_length_with_their_segments():
    queries = TextSlice(np.array([7, 8, 9], np.uint16), np.array([1, 0]), np.array([2, 1]))
    passages = TextSlice(np.array([4, 5, 6], np.uint16), np.array([0, 2]), np.array([3, 0]))
    layouts = [Layout(1, (2,), 2, (segment,)) for segment in (0, 1)]
    made = [
        make_inputs([text], own) for text, own in zip([queries, passages], layouts, strict=True)
    ]
    packed, order = by_length(made)
    assert order.tolist() == [3, 1, 0, 2] and packed.lengths.tolist() == [2, 3, 4, 5]
    assert packed.ids.tolist() == [1, 2, 1, 7, 2, 1, 8, 9, 2, 1, 4, 5, 6, 2]
    assert packed.positions.tolist() == [0, 1, 0, 1, 2, 0, 1, 2, 3, 0, 1, 2, 3, 4]
    assert packed.segments.tolist() == [1, 1, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1]


def test_an_update_of_low_rank_is_scaled_by_alpha_over_rank():
    assert LowRank(rank=8, alpha=16).scale == 2.0 and LowRank(rank=16, alpha=4).scale == 0.25


def test_triples_keep_their_order_and_lose_what_the_guard_refuses(tmp_path):
    path = tmp_path / "triples.tsv"
    path.write_text("q1\ta\tb\nq0\tb\tc\nq1\tc\ta\nq2\ta\tb\nq1\tb\td\n")
    rows = {"a": 0, "b": 1, "c": 2, "d": 3}

    def rows_of(ids):
        return np.array([rows.get(each, -1) for each in ids], np.int64)

    def read(text=None, *, refused=(), guard=None):
        if text is not None:
            path.write_text(text)
        dropped, beats = Dropped(), []
        queries = {"q0": 0, "q1": 1, "q2": 2}
        guard = guard or Guard()
        scratch = tmp_path / f"s{len(list(tmp_path.iterdir()))}"
        scratch.mkdir()
        found = triple_examples(
            path, queries, rows_of, set(refused), guard, dropped, scratch, lambda: beats.append(1)
        )
        pairs = zip(found.query_rows.tolist(), found.passage_rows.tolist(), strict=True)
        return [(query, *passages) for query, passages in pairs], dropped

    whole = [(1, 0, 1), (0, 1, 2), (1, 2, 0), (2, 0, 1), (1, 1, 3)]
    assert read()[0] == whole
    found, dropped = read(refused=[1])
    assert found == [whole[1], whole[3]] and dropped.triples == 3
    found, dropped = read(guard=Guard(left_out=frozenset("c"), shared=frozenset("b")))
    assert found == [whole[0], whole[3], whole[4]]
    assert (dropped.left_out_positive, dropped.left_out_negative) == (1, 1)
    assert dropped.shared_passages == 1
    for bad in ("q1\ta\n", "q9\ta\tb\n", "q1\tx\tb\n", "q1\ta\tx\n", ""):
        with pytest.raises(InputError):
            read(bad)
    path.write_bytes(b"q1\ta\tb\nq1\ta\t\xff\n")
    with pytest.raises(InputError, match="after line 0: not UTF-8: invalid start byte"):
        read()


def test_bits_are_mixed_as_splitmix64_does():
    """Its first two outputs from the state 0: the state is a multiple of the golden gamma."""
    gamma = 0x9E3779B97F4A7C15
    states = np.array([gamma, 2 * gamma % 2**64], np.uint64)
    assert _mixed(states).tolist() == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4]
