"""Stretches against the whole text cut by hand."""

import numpy as np
import pytest
from masked_texts import SEP, Passages

from raypipe.training.stretches import cut, map_stretches, read, write_stretches


def texts(table, tokens, numbers=None):
    numbers = np.arange(table.num_stretches) if numbers is None else numbers
    found = read(table, tokens, SEP, numbers)
    spans = zip(found.starts.tolist(), found.counts.tolist(), strict=True)
    return [found.flat[start : start + count].tolist() for start, count in spans]


@pytest.mark.parametrize("limit", [1, 2, 3, 5, 7, 100])
@pytest.mark.parametrize("counts", [[3, 0, 4, 1, 0], [0, 0, 5, 5], [7], [1, 1, 1, 1, 1, 1]])
def test_joined_stretches_are_the_whole_text_with_separators_cut_at_the_limit(counts, limit):
    tokens = Passages(counts)
    whole = []
    for row in np.flatnonzero(counts):
        part = tokens.part(np.array([row]))
        whole += [*([SEP] if whole else []), *part.flat.tolist()]
    table = cut(np.array(counts), limit=limit, joined=True, least=1)
    expected = [whole[at : at + limit] for at in range(0, len(whole), limit)]
    assert texts(table, tokens) == expected
    order = np.arange(table.num_stretches)[::-1]
    assert texts(table, tokens, order) == expected[::-1]


@pytest.mark.parametrize("limit", [1, 2, 3, 100])
def test_apart_each_passage_begins_a_new_stretch(limit):
    counts = [3, 0, 4, 1]
    tokens = Passages(counts)
    expected = []
    for row in range(4):
        text = tokens.part(np.array([row])).flat.tolist()
        expected += [text[at : at + limit] for at in range(0, len(text), limit)]
    table = cut(np.array(counts), limit=limit, joined=False, least=1)
    assert texts(table, tokens) == expected


def test_short_stretches_are_left_out():
    counts = np.array([5, 1, 6])
    assert cut(counts, limit=4, joined=False, least=2).counts.tolist() == [4, 4, 2]
    assert cut(counts, limit=4, joined=True, least=3).counts.tolist() == [4, 4, 4]
    assert cut(counts, limit=4, joined=True, least=2).counts.tolist() == [4, 4, 4, 2]
    for joined in (True, False):
        for none in ([], [0, 0]):
            table = cut(np.array(none, np.int64), limit=4, joined=joined, least=1)
            assert table.num_stretches == 0


def test_a_table_comes_back_from_its_file(tmp_path):
    table = cut(np.array([5, 1, 6]), limit=4, joined=True, least=1)
    write_stretches(tmp_path / "t.safetensors", table)
    found = map_stretches(tmp_path / "t.safetensors")
    for name in ("first_rows", "last_rows", "starts", "counts"):
        assert np.array_equal(getattr(found, name), getattr(table, name))
