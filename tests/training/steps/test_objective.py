import math

import numpy as np
import pytest
import torch

from raypipe.training.losses import Objective

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


@pytest.mark.parametrize("label", [None, 1])
def test_mse_is_of_raw_scores_and_a_teachers_temperature_divides_its(label):
    """Raw scores log 3 and 0; the teacher's, halved, are 1.5 and 1."""
    units = UNITS if label else UNITS[:, 1:]
    teacher = np.array([[3.0, 2.0]], np.float32)
    found = Objective("mse", teacher_temperature=2.0).of_units(units, TARGETS, 2, teacher, label)
    expected = ((math.log(3) - 1.5) ** 2 + 1) / 2
    assert found.tolist() == pytest.approx([expected])
    alone = Objective("mse", judgements=0.5).of_units(
        UNITS, TARGETS, 2, np.full((1, 2), np.nan, np.float32), 1
    )
    assert alone.tolist() == pytest.approx([0.5 * CROSS])


def test_the_losses_of_a_batch_by_name():
    scores, positive = torch.tensor([[2.0, 1.5]]), torch.tensor([[True, False]])
    own = torch.tensor([0])
    margin = Objective("multi-label-margin").of_batch(scores, positive, own)
    assert margin.tolist() == [0.25]
    nce = Objective("info-nce", temperature=0.5).of_batch(scores, positive, own)
    assert nce.tolist() == pytest.approx([math.log(1 + math.exp(-1.0))])
    assert Objective("info-nce").temperature == 1.0


def test_judgements_are_added_to_a_teachers_loss_and_stand_alone_where_it_has_no_score():
    units = torch.tensor([[0.0, 2.0], [0.0, -1.0], [0.0, 0.0], [0.0, 0.0]], requires_grad=True)
    targets = np.array([1, 0, 1, 0], np.float32)
    teacher = np.array([[3.0, 1.0], [np.nan, np.nan]], np.float32)
    found = Objective("margin-mse", judgements=4.0).of_units(units, targets, 2, teacher, 1)
    # margins: (2 - -1) against (3 - 1): 1; cross-entropies: softplus(-2), softplus(-1); log 2 twice
    judged = (math.log1p(math.exp(-2)) + math.log1p(math.exp(-1))) / 2
    assert found.tolist() == pytest.approx([1.0 + 4 * judged, 4 * math.log(2)])
    found.sum().backward()
    assert units.grad.isfinite().all()
    alone = Objective("margin-mse").of_units(units, targets, 2, teacher, 1)
    assert alone.tolist() == pytest.approx([1.0, 0.0])


def test_margin_mse_of_a_duo_regresses_both_orders_on_the_teachers_margin():
    # Inputs of an example: (relevant, other), (other, relevant) of each of its two negatives.
    units = torch.tensor([[0.0, 2.0], [0.0, -1.5], [1.0, 0.0], [0.0, 0.5]])
    targets = np.array([1, 0, 1, 0], np.float32)
    teacher = np.array([[3.0, 1.0, 4.0]], np.float32)
    found = Objective("margin-mse").of_units(units, targets, 4, teacher, 1, duo=True)
    # margins 2 and -1: raw 2, -1.5 against 2, -2; raw -1, 0.5 against -1, 1
    assert found.tolist() == pytest.approx([(0 + 0.25 + 0 + 0.25) / 4])


def test_listwise_is_of_the_blend_and_a_teachers_kl_is_added_with_its_weight():
    """Log odds 1, 0 and 0, 0; the first stage turns the first list round."""
    units = torch.tensor([[0.0, 1.0], [2.0, 2.0], [0.0, 0.0], [1.0, 1.0]], requires_grad=True)
    targets = np.array([1, 0, 1, 0], np.float32)
    first_stage = np.array([[0.0, 1.0], [0.5, 0.25]], np.float32)
    teacher = np.array([[np.nan, np.nan], [0.0, math.log(3)]], np.float32)

    def found(*, judged=None, first_stage=first_stage, teacher=teacher, **weights):
        of = Objective("listwise", **weights).of_units
        each = of(units, targets, 2, teacher, 1, judged=judged, first_stage=first_stage)
        return each.tolist()

    def softplus(x):
        return math.log1p(math.exp(x))

    assert found() == pytest.approx([softplus(-1), math.log(2)])
    blended = [softplus(4 - 1), softplus(-1)]
    assert found(blend=4.0) == pytest.approx(blended)
    assert found(blend=4.0, first_stage=None) == pytest.approx([softplus(-1), math.log(2)])
    p = 1 / (1 + math.exp(-1))  # of the first passage of the second list, by s: 2 and 1
    kl = 0.25 * math.log(0.25 / p) + 0.75 * math.log(0.75 / (1 - p))
    both = found(blend=4.0, teacher_weight=0.5)
    assert both == pytest.approx([blended[0], blended[1] + 0.5 * kl])
    assert found(blend=4.0, teacher_weight=0.5, teacher=None) == pytest.approx(blended)
    unlabelled = found(blend=4.0, teacher_weight=0.5, judged=np.array([True, False]))
    assert unlabelled == pytest.approx([blended[0], 0.5 * kl])
    # The temperature is that of the kl alone: the softmax of log 3 / 2 and of 1 / 2.
    q, p = 1 / (math.sqrt(3) + 1), 1 / (1 + math.exp(-0.5))
    cool = found(blend=4.0, teacher_weight=1.0, temperature=2.0, judged=np.array([True, False]))
    assert cool[1] == pytest.approx(q * math.log(q / p) + (1 - q) * math.log((1 - q) / (1 - p)))


@pytest.mark.parametrize(
    ("name", "duo"), [("margin-mse", False), ("margin-mse", True), ("kl", False)]
)
def test_a_teachers_temperature_divides_its_scores_alone(name, duo):
    teacher = np.array([[1.0, 0.5, -2.0]], np.float32)
    scores = torch.tensor([[[0.3, 0.1], [0.0, 0.2]]]) if duo else torch.tensor([[0.3, 0.1, 0.0]])
    warm = Objective(name, teacher_temperature=4.0).of_lists(scores, teacher)
    assert warm.tolist() == Objective(name).of_lists(scores, teacher / 4).tolist()
    assert warm.tolist() != Objective(name).of_lists(scores, teacher).tolist()


def test_an_unlabelled_list_has_no_cross_entropy():
    teacher = np.array([[0.0, 0.0]], np.float32)
    of = Objective("kl", judgements=3.0).of_units
    found = of(torch.zeros(2, 2), TARGETS, 2, teacher, 1, judged=np.array([False]))
    assert found.tolist() == [0.0]
