"""The stage that cuts word pieces into stretches."""

import pytest
from given_stores import Stores
from masked_texts import SEP

from raypipe.errors import InputError
from raypipe.stages.scoring.token_rows import TokenRows
from raypipe.stages.stage import Sizing
from raypipe.training.pretrain import TextSource, texts_of
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
