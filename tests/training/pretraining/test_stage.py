"""The stage that cuts word pieces into stretches."""

from dataclasses import replace

import pytest
from given_stores import Stores
from masked_texts import SEP, WORDS, make_pretrained, text_source, trainee_and_maker

from raypipe.errors import InputError
from raypipe.stages.scoring.token_rows import TokenRows
from raypipe.stages.stage import Sizing
from raypipe.training.comm import Comm
from raypipe.training.pretrain import TextSource, measured_losses, texts_of
from raypipe.training.stretches import StretchesStage, map_stretches


@pytest.fixture
def stores(tmp_path):
    return Stores(tmp_path)


def test_the_stretches_of_several_shards_are_those_of_the_whole_text(stores):
    import numpy as np

    texts = [[10, 11, 12], [], [20, 21, 22, 23], [30]]
    tokens = stores.tokens(texts[:2], texts[2:])
    stage = StretchesStage(tokens, limit=4, joined=True, least=2)
    stored = stores.finished(stage)
    (record,) = stored.manifest.records
    assert (record.facts["examples"], record.facts["pieces"]) == (3, 10)
    table = map_stretches(stored.path(record))
    source = TextSource(table, TokenRows(tokens), 0, 0)
    found = texts_of([source], np.arange(3), SEP)
    spans = zip(found.starts.tolist(), found.counts.tolist(), strict=True)
    assert [found.flat[start : start + count].tolist() for start, count in spans] == [
        [10, 11, 12, SEP], [20, 21, 22, 23], [SEP, 30],
    ]  # fmt: skip
    assert stage.estimated_bytes(4, 1) >= 3 * 16 and len(stage.shards(Sizing())) == 1


def test_every_setting_makes_another_store_and_no_text_is_refused(stores):
    tokens = stores.tokens([[10, 11, 12]])
    settings = {"limit": 4, "joined": True, "least": 2}
    first = StretchesStage(tokens, **settings).spec.fingerprint()
    for name, value in (("limit", 5), ("joined", False), ("least", 1)):
        other = StretchesStage(tokens, **{**settings, name: value})
        assert other.spec.fingerprint() != first
    empty = StretchesStage(stores.tokens([[], []]), **settings, name="docs")
    with pytest.raises(InputError, match="train.docs: the collection's text gives no input"):
        stores.finished(empty)


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
