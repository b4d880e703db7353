"""Texts A and B."""

import numpy as np
from masked_texts import SEP, text_source

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
