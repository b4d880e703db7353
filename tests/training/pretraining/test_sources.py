"""Held-out and trained stretches of several sets."""

from types import SimpleNamespace

import numpy as np
import pytest
from masked_texts import SEP, text_source

from raypipe.errors import InputError
from raypipe.training import pretrain as sources
from raypipe.training.pretrain import Chosen, rows_of, texts_of, trained


def two():
    first = text_source([30, 30, 30], held_out=2)
    second = text_source([50, 9], held_out=1, before=first.table.num_stretches)
    return [first, second]


def test_every_stretch_is_either_trained_or_held_out():
    sets = two()
    numbers = np.arange(sum(each.num_trained for each in sets))
    learnt = rows_of(sets, trained(sets, numbers))
    held = [Chosen(np.full(s.held_out, n), np.arange(s.held_out)) for n, s in enumerate(sets)]
    out = np.concatenate([rows_of(sets, each) for each in held])
    num_stretches = sum(each.table.num_stretches for each in sets)
    assert sorted([*learnt.tolist(), *out.tolist()]) == list(range(num_stretches))
    assert len(out) == 3 and not set(out.tolist()) & set(learnt.tolist())
    again = [text_source([30, 30, 30], held_out=2, seed=9)]
    assert rows_of(again, held[0]).tolist() != out[:2].tolist(), "drawn by the seed"


def test_rows_of_several_sets_have_their_own_texts():
    sets = two()
    first = sets[0].table.num_stretches
    rows = np.array([first, 0, first + 1, 1])
    found = texts_of(sets, rows, SEP)
    pieces = [
        found.flat[start : start + count].tolist()
        for start, count in zip(found.starts, found.counts, strict=True)
    ]
    assert pieces[0] == pieces[1] == list(range(5, 17)), "both sets begin with the same pieces"
    assert pieces[2] == list(range(17, 29)) == pieces[3]


def test_a_set_with_nothing_but_held_out_inputs_is_refused(monkeypatch):
    table = text_source([30]).table
    monkeypatch.setattr(sources, "map_stretches", lambda path: table)
    stored = SimpleNamespace(path=lambda record: None, manifest=SimpleNamespace(records=[None]))
    masking = SimpleNamespace(held_out=table.num_stretches)
    recipe = SimpleNamespace(masking=masking, train={"a": None}, seed=0)
    stores = SimpleNamespace(stretches=stored, tokens=stored)
    with pytest.raises(InputError, match="masking.held_out: 3 inputs of train.a, which has 3"):
        sources.text_sources(SimpleNamespace(recipe=recipe, texts=(stores,)))
