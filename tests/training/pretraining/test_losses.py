"""Loss and gradients of a whole batch against transformers' own."""

import numpy as np
import pytest
import torch
from masked_texts import make_pretrained, trainee_and_maker
from transformers import BertForMaskedLM, BertForPreTraining

from raypipe.training.comm import Comm
from raypipe.training.pretrain import NOT_PREDICTED, Chosen, backward

COUNTS = [20, 35, 7, 50, 18, 90, 2, 40]


@pytest.mark.parametrize(
    ("opened", "next_sentence"), [(BertForPreTraining, True), (BertForMaskedLM, False)]
)
def test_loss_and_gradients_are_those_of_transformers(tiny, tmp_path, opened, next_sentence):
    folder = tmp_path / "model"
    make_pretrained(tiny, folder)
    trainee, maker = trainee_and_maker(folder, COUNTS, next_sentence=next_sentence, joined=False)
    places = np.arange(maker.sources[0].table.num_stretches)
    batch = maker.batch(Chosen(np.zeros(len(places), np.int64), places), 3)
    assert len(set(batch.inputs.lengths.tolist())) > 3
    worked = backward(trainee, batch, Comm(), budget_tokens=70, draw=(0, 0))
    assert worked.num_tokens == batch.inputs.lengths.sum()

    theirs = opened.from_pretrained(folder).eval()
    ids, segments, labels, mask = padded(batch)
    given = {"input_ids": ids, "token_type_ids": segments, "attention_mask": mask}
    if next_sentence:
        given["next_sentence_label"] = torch.from_numpy(batch.follows)
    loss = theirs(**given, labels=labels).loss
    loss.backward()
    assert float(worked.loss) == pytest.approx(float(loss), abs=1e-5)
    own = {name: weight.grad for name, weight in trainee.weights.items()}
    expected = {n: p.grad for n, p in theirs.named_parameters() if p.requires_grad}
    assert set(own) == set(expected)
    for name, gradient in expected.items():
        assert (own[name] - gradient).abs().max() < 1e-5, name
    moved = [name for name, gradient in expected.items() if gradient.abs().max() > 1e-4]
    assert len(moved) > 0.8 * len(expected)


def padded(batch):
    """ids, segments, labels and attention mask, [B, longest] each."""
    size = (len(batch.inputs.lengths), int(batch.inputs.lengths.max()))
    ids, segments, mask = (torch.zeros(size, dtype=torch.int64) for _ in range(3))
    labels = torch.full(size, -100)
    ends = np.cumsum(batch.inputs.lengths)
    for row, (end, length) in enumerate(zip(ends, batch.inputs.lengths, strict=True)):
        own = slice(end - length, end)
        ids[row, :length] = torch.from_numpy(batch.inputs.ids[own])
        segments[row, :length] = torch.from_numpy(batch.inputs.segments[own])
        mask[row, :length] = 1
        targets = batch.targets[own]
        labels[row, :length] = torch.from_numpy(np.where(targets == NOT_PREDICTED, -100, targets))
    return ids, segments, labels, mask
