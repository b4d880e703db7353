"""Texts, word pieces and candidates as stages take them, and vectors as they make them."""

import numpy as np
import pyarrow as pa

from raypipe.models.folder.model_folder import open_tokenizer
from raypipe.models.load import load_encoder
from raypipe.text.inputs import TextSlice
from raypipe.text.word_pieces import word_pieces_of

WORDS = ["the", "a", "of", "lease", "shard", "rank", "query", "passage", "zebra", "run"]


def text(n):
    """n + 1 different words, a piece each."""
    return " ".join(WORDS[(n + i) % 10] for i in range(n + 1))


def shards_of(stored):
    return [(r.shard.start, r.shard.stop) for r in stored.manifest.records]


def pieces(model, texts):
    tokenizer = open_tokenizer(model)
    return [tokenizer.encode(one, add_special_tokens=False).ids for one in texts]


def alone(model, rows, side):
    """The vectors of rows of pieces, each encoded by itself."""
    encoder = load_encoder(model)
    found = []
    for row in rows:
        flat, offsets = np.array(row, np.uint16), np.array([0, len(row)])
        found.append(encoder.encode(flat, offsets, side=side)[0].astype(np.float16))
    return np.stack(found)


def vectors_of(stored):
    return np.concatenate([stored.vectors(record) for record in stored.manifest.records])


def parts_of(model, *columns):
    """Each column's texts as the part of an input."""
    parts = []
    for column in columns:
        word_pieces = word_pieces_of(open_tokenizer(model))
        flat, offsets = word_pieces.of(pa.array(column, pa.string()), max_pieces=512)
        parts.append(TextSlice(flat, offsets[:-1], np.diff(offsets)))
    return parts
