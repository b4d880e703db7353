"""Texts as UTF-8 in the place of word pieces, for models that read texts themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from raypipe.text.inputs import TextSlice

if TYPE_CHECKING:  # models are opened where there is no pyarrow
    import pyarrow as pa

UTF8 = "utf-8"
"""In the place of a tokenizer's hash."""
BYTES_A_PIECE = 4
"""UTF-8 of a word piece, where only the model's own library counts pieces."""


class Utf8:
    """The bytes of texts, by the method of `WordPieces`."""

    def of(
        self, texts: pa.StringArray | pa.ChunkedArray, *, max_pieces: int
    ) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """(the bytes of all texts, uint8, and offsets int64 [N + 1]); no text is cut."""
        import pyarrow as pa

        return bytes_of(texts.combine_chunks() if isinstance(texts, pa.ChunkedArray) else texts)


def bytes_of(texts: pa.StringArray) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """(UTF-8 of all texts, offsets int64 [N + 1]): views of the array's own buffers."""
    assert texts.null_count == 0
    _, ends, data = texts.buffers()
    if data is None or not len(texts):  # an array without texts may have no offsets either
        return np.empty(0, np.uint8), np.zeros(len(texts) + 1, np.int64)
    offsets = np.frombuffer(ends, np.int32)[texts.offset : texts.offset + len(texts) + 1]
    first, last = int(offsets[0]), int(offsets[-1])
    return np.frombuffer(data, np.uint8)[first:last], offsets.astype(np.int64) - first


def strings_of(text: TextSlice) -> list[str]:
    """The texts of a slice of UTF-8."""
    parts = zip(text.starts.tolist(), (text.starts + text.counts).tolist(), strict=True)
    return [text.flat[start:stop].tobytes().decode() for start, stop in parts]
