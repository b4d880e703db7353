import math

import pytest
import torch

from raypipe.training.steps import losses


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
