"""The held-out loss: without dropout, and of each set's own inputs."""

from dataclasses import replace

import pytest
from masked_texts import WORDS, make_pretrained, text_source, trainee_and_maker

from raypipe.training.comm import Comm
from raypipe.training.pretrain import measured_losses

COUNTS = [20, 35, 7, 50, 18, 90, 2, 40]


@pytest.fixture(scope="module")
def folder(tiny, tmp_path_factory):
    folder = tmp_path_factory.mktemp("measuring") / "model"
    make_pretrained(tiny, folder)
    return folder


def source(held_out, before=0):
    return text_source(COUNTS, limit=30, held_out=held_out, before=before, words=WORDS)


def test_a_measurement_draws_no_dropout_and_leaves_no_gradient(folder):
    values = []
    for dropout in (0.0, 0.5):
        trainee, maker = trainee_and_maker(folder, COUNTS, next_sentence=False, dropout=dropout)
        values.append(measured_losses(trainee, replace(maker, sources=[source(3)]), Comm()))
        assert all(weight.grad is None for weight in trainee.weights.values())
    assert values[0] == values[1] and values[0][0] > 0


def test_each_set_is_measured_on_its_own_held_out_inputs(folder):
    trainee, maker = trainee_and_maker(folder, COUNTS, next_sentence=False)
    first = source(2)
    second = source(4, before=first.table.num_stretches)
    both = measured_losses(trainee, replace(maker, sources=[first, second]), Comm())
    alone = [
        measured_losses(trainee, replace(maker, sources=[each]), Comm()) for each in (first, second)
    ]
    assert [both[:1], both[1:]] == alone and both[0] != both[1]
