"""Texts A and B."""

import numpy as np
import pytest
from masked_texts import CLS, SEP, make_pretrained, text_source, trainee_and_maker

from raypipe.training.pretrain import FOLLOWS, OTHER, Chosen, pairs, rows_of, texts_of


def pieces(part):
    spans = zip(part.starts.tolist(), part.counts.tolist(), strict=True)
    return [part.flat[start : start + count].tolist() for start, count in spans]


def within(part, whole):
    """Whether a stretch of at most 12 pieces has these, one after the other."""
    return any(whole[at : at + len(part)] == part for at in range(12))


def made(source, places, step=1, seed=2, limit=12):
    chosen = Chosen(np.zeros(len(places), np.int64), np.array(places))
    rows = rows_of([source], chosen)
    first, second, follows = pairs(
        [source], chosen, rows, separator=SEP, limit=limit, seed=seed, step=step
    )
    whole = pieces(texts_of([source], rows, SEP))
    return pieces(first), pieces(second), follows, whole


def test_b_is_the_rest_of_a_stretch_or_a_part_of_another_one():
    source = text_source([40, 25, 60, 33, 70, 9], held_out=3)
    size = source.table.num_stretches
    every = pieces(texts_of([source], np.arange(size), SEP))
    of_place = {place: every[int(source.numbers(np.array([place]))[0])] for place in range(size)}
    others, starts = 0, set()
    for step in range(1, 40):
        first, second, follows, whole = made(source, range(3, size), step)
        for place, a, b, label, text in zip(
            range(3, size), first, second, follows, whole, strict=True
        ):
            assert a and b and a == text[: len(a)] and len(a) + len(b) <= 12
            if label == FOLLOWS:
                assert a + b == text
                continue
            assert label == OTHER
            others += 1
            starts.add(len(a))
            homes = [
                p for p, t in of_place.items() if any(t[i : i + len(b)] == b for i in range(12))
            ]
            assert any(home >= 3 and home != place for home in homes)
    total = 39 * (size - 3)
    assert 0.4 < others / total < 0.6 and len(starts) > 6


def test_held_out_stretches_are_paired_among_themselves_and_a_single_one_with_its_own_rest():
    source = text_source([40, 25, 60], held_out=2)
    held = pieces(texts_of([source], source.numbers(np.arange(2)), SEP))
    seen = set()
    for step in range(12):
        _, second, follows, _ = made(source, [0, 1], step)
        for place, (b, label) in enumerate(zip(second, follows, strict=True)):
            seen.add(int(label))
            home = held[1 - place] if label == OTHER else held[place]
            assert within(b, home)
    assert seen == {FOLLOWS, OTHER} == {0, 1} and FOLLOWS == 0, "as transformers reads labels"
    alone = text_source([12])
    assert all(made(alone, [0], step)[2].tolist() == [FOLLOWS] for step in range(1, 9))


def test_a_pair_depends_on_seed_step_and_row_alone():
    source = text_source([40, 25, 60, 33])
    first = made(source, [1, 2, 3])
    assert made(source, [3])[0] == first[0][2:] and made(source, [3])[1] == first[1][2:]
    assert made(source, [1, 2, 3], step=2)[0] != first[0]
    assert made(source, [1, 2, 3], seed=3)[0] != first[0]


@pytest.fixture(scope="module")
def folder(tiny, tmp_path_factory):
    folder = tmp_path_factory.mktemp("batch") / "model"
    make_pretrained(tiny, folder)
    return folder


@pytest.mark.parametrize("next_sentence", [True, False])
def test_a_batch_has_berts_layout_and_a_part_of_it_its_own_inputs(folder, next_sentence):
    counts = [20, 35, 7, 50, 18]
    _, maker = trainee_and_maker(folder, counts, next_sentence=next_sentence, joined=False)
    places = np.array([3, 0, 2, 5])
    batch = maker.batch(Chosen(np.zeros(4, np.int64), places), 4)
    ends = np.cumsum(batch.inputs.lengths)
    for number, (end, length) in enumerate(zip(ends, batch.inputs.lengths, strict=True)):
        own = slice(end - length, end)
        ids, segments = batch.inputs.ids[own], batch.inputs.segments[own]
        assert ids[0] == CLS and ids[-1] == SEP and length <= 32
        assert batch.inputs.positions[own].tolist() == list(range(length))
        assert (segments == 1).any() == next_sentence and (np.diff(segments) >= 0).all()
        if next_sentence:
            assert ids[np.flatnonzero(segments == 0)[-1]] == SEP
        part = batch.part(np.array([number]))
        assert np.array_equal(part.inputs.ids, ids)
        assert np.array_equal(part.inputs.segments, segments)
        assert np.array_equal(part.targets, batch.targets[own])
        alone = maker.batch(Chosen(np.zeros(1, np.int64), places[number : number + 1]), 4)
        assert np.array_equal(alone.inputs.ids, ids) and np.array_equal(alone.targets, part.targets)
        if next_sentence:
            assert part.follows.tolist() == [batch.follows[number]] == alone.follows.tolist()
        else:
            assert part.follows is None
    assert batch.num_words == sum(batch.part(np.array([n])).num_words for n in range(4))
    both = batch.part(np.array([2, 0]))
    assert both.inputs.lengths.tolist() == batch.inputs.lengths[[2, 0]].tolist()
