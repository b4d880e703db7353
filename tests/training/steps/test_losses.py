"""Each loss by its equation on tensors small enough to compute by hand."""

import math

import pytest
import torch

from raypipe.training import losses


def test_cross_entropy_of_two_units_is_minus_log_softmax_of_the_target():
    units = torch.tensor([[0.0, math.log(3.0)], [math.log(4.0), 0.0]])
    found = losses.cross_entropy(units, torch.tensor([1.0, 1.0]), relevant_label=1)
    # softmax of unit 1: 3/4 and 1/5
    assert found.tolist() == pytest.approx([-math.log(3 / 4), -math.log(1 / 5)])
    other = losses.cross_entropy(units, torch.tensor([0.0, 0.0]), relevant_label=1)
    assert other.tolist() == pytest.approx([-math.log(1 / 4), -math.log(4 / 5)])


def test_cross_entropy_of_one_unit_is_that_of_its_sigmoid():
    found = losses.cross_entropy(
        torch.tensor([[math.log(3.0)], [math.log(3.0)]]),
        torch.tensor([1.0, 0.0]),
        relevant_label=None,
    )
    assert found.tolist() == pytest.approx([-math.log(3 / 4), -math.log(1 / 4)])


def test_cross_entropy_agrees_with_torch_for_either_label():
    units = torch.randn(7, 2, generator=torch.Generator().manual_seed(1))
    targets = torch.tensor([1.0, 0, 1, 0, 0, 1, 1])
    expected = torch.nn.functional.cross_entropy(units, targets.long(), reduction="none")
    found = losses.cross_entropy(units, targets, relevant_label=1)
    torch.testing.assert_close(found, expected)
    flipped = torch.nn.functional.cross_entropy(units, 1 - targets.long(), reduction="none")
    torch.testing.assert_close(losses.cross_entropy(units, targets, relevant_label=0), flipped)


def test_multi_label_margin_by_hand():
    # Query 0: positive 0 (2.0); others 1.5 and 0.0: max(0, 1-0.5) + max(0, 1-2) = 0.5; over 3
    # Query 1: positives 0 and 1 (1, 0), other 0.25: (1-0.75) + (1+0.25) = 0.25 + 1.25; over 3
    scores = torch.tensor([[2.0, 1.5, 0.0], [1.0, 0.0, 0.25]])
    positive = torch.tensor([[True, False, False], [True, True, False]])
    found = losses.multi_label_margin(scores, positive)
    assert found.tolist() == pytest.approx([0.5 / 3, 1.5 / 3])


def test_multi_label_margin_agrees_with_torch():
    generator = torch.Generator().manual_seed(2)
    scores = torch.randn(5, 9, generator=generator)
    positive = torch.zeros(5, 9, dtype=torch.bool)
    targets = torch.full((5, 9), -1)
    for row, chosen in enumerate([[0], [1, 4], [8], [2, 3, 7], [0, 8]]):
        positive[row, chosen] = True
        targets[row, : len(chosen)] = torch.tensor(chosen)
    expected = torch.nn.MultiLabelMarginLoss(reduction="none")(scores, targets)
    torch.testing.assert_close(losses.multi_label_margin(scores, positive), expected)


def test_info_nce_leaves_other_positives_out():
    scores = torch.tensor([[math.log(2.0), 0.0, math.log(5.0)]])
    positive = torch.tensor([[True, False, True]])
    own = torch.tensor([0])
    # Document 2 is relevant too: 2 / (2 + 1)
    found = losses.info_nce(scores, positive, own, temperature=1.0)
    assert found.tolist() == pytest.approx([-math.log(2 / 3)])
    halved = losses.info_nce(scores, positive, own, temperature=0.5)
    assert halved.tolist() == pytest.approx([-math.log(4 / 5)])


def test_pairwise_hinge_by_hand():
    scores = torch.tensor([[2.0, 1.5, 0.5], [0.0, 1.0, -2.0]])
    # (0.5 + 0) / 2 and (2 + 0) / 2
    found = losses.pairwise_hinge(scores, margin=1.0)
    assert found.tolist() == pytest.approx([0.25, 1.0])


def test_margin_mse_by_hand():
    found = losses.margin_mse(torch.tensor([[3.0, 1.0, 2.0]]), torch.tensor([[5.0, 4.0, 1.0]]))
    # margins 2 and 1 against 1 and 4: (1 + 9) / 2
    assert found.tolist() == pytest.approx([5.0])


def test_mse_by_hand():
    found = losses.mse(torch.tensor([[3.0, 1.0], [0.0, 0.0]]), torch.tensor([[5.0, 4.0], [0, 0]]))
    assert found.tolist() == pytest.approx([(4 + 9) / 2, 0.0])


def test_kl_by_hand_and_zero_for_equal_distributions():
    student = torch.tensor([[0.0, 0.0]])
    teacher = torch.tensor([[math.log(3.0), 0.0]])
    expected = 0.75 * math.log(0.75 / 0.5) + 0.25 * math.log(0.25 / 0.5)
    found = losses.kl_divergence(student, teacher, temperature=1.0)
    assert found.tolist() == pytest.approx([expected])
    shifted = losses.kl_divergence(teacher + 7, teacher, temperature=2.0)
    assert shifted.tolist() == pytest.approx([0.0], abs=1e-6)


def test_margins_of_every_positive_against_every_other_over_the_passages():
    scores = torch.tensor([[2.0, 1.5, 0.0, 3.0]])
    positive = torch.tensor([[True, False, False, True]])
    # 2 against 1.5 and 0: 0.5 + 0; 3 against both: 0 + 0; over 4 passages.
    assert losses.multi_label_margin(scores, positive).tolist() == [0.5 / 4]
    both = torch.tensor([[True, True, False, False]])
    # 2: against 0: 0, 3: 2; 1.5: against 0: 0, 3: 2.5
    assert losses.multi_label_margin(scores, both).tolist() == [4.5 / 4]


def test_other_relevant_passages_take_no_part_in_the_softmax():
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


def test_listwise_is_the_softmax_loss_of_the_first():
    scores = torch.log(torch.tensor([[1.0, 2.0, 5.0], [6.0, 1.0, 1.0]]))
    assert losses.listwise(scores).tolist() == pytest.approx([math.log(8), math.log(8 / 6)])
