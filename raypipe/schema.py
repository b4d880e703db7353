"""Column names and Arrow schemas: the words that tables, files and code share."""

import pyarrow as pa

PASSAGES = pa.schema([("passage_id", pa.string()), ("text", pa.string())])
"""A collection; a passage's row is its position over all shards, from 0."""

QUERIES = pa.schema([("query_id", pa.string()), ("text", pa.string())])
"""A query set; a query's row is its position in the queries file, from 0."""

RUN = pa.schema(
    [
        ("query_row", pa.int32()),
        ("passage_row", pa.int64()),
        ("rank", pa.int32()),
        ("score", pa.float32()),
        ("scored_by", pa.string()),
    ]
)
"""A run inside: by query_row, then rank from 1; ties by passage_row ascending."""

CANDIDATES = pa.schema(
    [("query_row", pa.int32()), ("passage_row", pa.int64()), ("other_row", pa.int64())]
)
"""What a reranker is to score, by (query_row, passage_row, other_row): passage i and, for a duo,
passage j; of a mono `other_row` is -1."""

SCORES = CANDIDATES.append(pa.field("score", pa.float32()))
"""Scored candidates in that order: a mono's score, or p(i, j), a duo's probability that passage i
is more relevant than passage j."""

RUN_FILE = pa.schema(
    [
        ("query_id", pa.string()),
        ("passage_id", pa.string()),
        ("rank", pa.int32()),
        ("score", pa.float32()),
    ]
)
"""A run at the border: original ids, best first within a query."""

QRELS = pa.schema(
    [("query_id", pa.string()), ("passage_id", pa.string()), ("relevance", pa.int32())]
)
"""Judgements; relevance is the grade as given."""
