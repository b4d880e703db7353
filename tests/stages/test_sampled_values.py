"""How many texts are compared with the tokenizer's own inputs, and which."""

from types import SimpleNamespace

import pytest

from raypipe.errors import InputError
from raypipe.stages.stage import Sizing
from raypipe.stages.texts import tokenize
from raypipe.stages.texts.tokenize import TokenizeStage
from raypipe.text.inputs import Layout


def stage(num_rows):
    read = []

    def table(schema, start, stop):
        assert schema == "schema"
        read.append((start, stop))
        texts = SimpleNamespace(to_pylist=lambda: list(range(start, stop)))
        return {"text": texts}

    found = TokenizeStage(SimpleNamespace(num_rows=num_rows, table=table), "schema", "model")
    found._tokenizer = "tokenizer"
    return found, read


@pytest.mark.parametrize(
    ("num_rows", "expected", "reads"),
    [
        (0, [], []),
        (5, [0, 1, 2, 3, 4], [(0, 5)]),
        (250, list(range(250)), [(0, 100), (100, 200), (200, 250)]),
        (1000, list(range(1000)), [(n, n + 100) for n in range(0, 1000, 100)]),
        (1001, list(range(0, 1001, 2)), [(n, min(n + 200, 1001)) for n in range(0, 1001, 200)]),
        (2500, list(range(0, 2500, 3)), [(n, min(n + 300, 2500)) for n in range(0, 2500, 300)]),
    ],
)
def test_at_most_a_thousand_texts_at_equal_distances_are_compared(
    monkeypatch, num_rows, expected, reads
):
    compared = []

    def refuse(tokenizer, texts, model):
        assert (tokenizer, model) == ("tokenizer", "model")
        compared.extend(texts)

    monkeypatch.setattr(tokenize, "refuse_other_inputs", refuse)
    found, read = stage(num_rows)
    found._check_slicing()
    assert compared == expected and read == reads
    assert len(compared) <= 1000 == tokenize.SAMPLED_TEXTS


@pytest.mark.parametrize(("kind", "pairs"), [("mono", True), ("duo", False), ("encoder", False)])
def test_a_mono_is_compared_on_pairs_and_what_differs_is_named(monkeypatch, kind, pairs):
    family = SimpleNamespace(layout=lambda tokenizer, segments: Layout(0, (1,), 1, segments))
    conventions = SimpleNamespace(kind=kind)
    model = SimpleNamespace(conventions=conventions, folder="folder", family=family)
    tokenizer = SimpleNamespace(id_to_token=["[CLS]", "[SEP]"].__getitem__)
    asked, answer = [], [None]

    def first_difference(tokenizer, texts, single, pair):
        assert single.segments == (0,)
        asked.append((texts, pair is not None and pair.segments == (0, 1)))
        return answer[0]

    monkeypatch.setattr(tokenize, "first_difference", first_difference)
    tokenize.refuse_other_inputs(tokenizer, ["a"], model)
    assert asked == [(["a"], pairs)]
    answer[0] = "x" * 70
    with pytest.raises(
        InputError, match=r"folder: the tokenizer's own input for 'x{60}' is not \[CLS\] p"
    ):
        tokenize.refuse_other_inputs(tokenizer, ["a"], model)


@pytest.mark.parametrize(
    ("num_rows", "actors", "rows", "sizes"),
    [
        (10, 1, 100, [10]),
        (10, 4, 100, [3, 3, 2, 2]),
        (10, 4, 2, [2] * 5),
        (0, 4, 2, [0]),
    ],
)
def test_no_actor_idles_for_want_of_shards(num_rows, actors, rows, sizes):
    found, _ = stage(num_rows)
    shards = found.shards(Sizing(num_actors=actors, shard_rows=rows))
    assert sorted((s.num_rows for s in shards), reverse=True) == sizes
    assert (tokenize.MAX_PIECES, tokenize.BATCH_ROWS) == (512, 2048)
