import hashlib

import numpy as np
from training_texts import ONE, TWO

from raypipe.text.inputs import TextSlice
from raypipe.training import export


def test_passages_trained_on_are_known_by_their_pieces(monkeypatch):
    def hashed(*numbers):
        content = np.array(numbers, "<u4").tobytes()
        return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "little")

    part = TextSlice(np.array([7, 8, 9], np.uint16), np.array([1, 0, 3]), np.array([2, 1, 0]))
    assert export.passage_hashes(part).tolist() == [hashed(8, 9), hashed(7), hashed()]
    expected = sorted(
        [hashed(100, 101), hashed(110), hashed(), hashed(130, 131, 132, 133)]
        + [hashed(1100, 1101), hashed(1130, 1131, 1132, 1133)]
    )
    for at_once in (1, 2, 50_000):
        monkeypatch.setattr(export, "ROWS_AT_ONCE", at_once)
        assert export.trained_on([ONE, TWO]).tolist() == expected
