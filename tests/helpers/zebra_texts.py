"""Texts that BM25 ties."""

import pyarrow as pa

from raypipe import schema

TEXTS = [
    "zebra crossing",
    "",
    "zebra zebra stripes",
    " \t",
    "zebra crossing",
    "horses",
    "zebra crossing",
]


def table(texts):
    ids = [f"p{row}" for row in range(len(texts))]
    return pa.table([ids, texts], schema=schema.PASSAGES)
