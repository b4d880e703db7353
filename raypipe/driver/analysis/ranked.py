"""The passages or documents of a finished workspace's collection: by row, by id, and judged."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from raypipe import schema
from raypipe.stages.texts.ids import all_ids, column_of_rows, id_index, ids_of_rows
from raypipe.storage.store import Stored
from raypipe.vocabulary import Unit


class Judged(NamedTuple):
    """Judged passages, sorted by query row, then passage row; int64 [N] each."""

    query_rows: NDArray[np.int64]
    passage_rows: NDArray[np.int64]
    grades: NDArray[np.int64]


@dataclass(frozen=True)
class Ranked:
    """What the runs rank: passages or documents."""

    unit: Unit
    stored: Stored
    index: Stored | None
    """Ids -> rows; None if the last invocation made none, as no file of its recipe had ids."""

    def texts(self, rows: NDArray[np.int64]) -> list[str]:
        """The texts of passages, or titles, headings and bodies of documents, in the order given.

        A document's text is empty where the collection's files hold the passages.
        """
        if self.unit == "passages":
            return column_of_rows(self.stored, rows, "text")
        parts = ("title", "headings", "body")
        columns = [column_of_rows(self.stored, rows, part, schema.DOCUMENTS) for part in parts]
        return ["\n".join(filter(None, texts)) for texts in zip(*columns, strict=True)]

    def ids(self, rows: NDArray[np.int64]) -> list[str]:
        """The ids, in the order of their rows."""
        return ids_of_rows(self.stored, rows)

    def rows_of(self, ids: Sequence[str]) -> NDArray[np.int64]:
        """The rows of these ids, int64 [ids]; -1 for those that the collection does not have."""
        assert self.index is not None
        return id_index(self.stored, self.index).rows_of(ids)

    def have(self, ids: Sequence[str]) -> bool:
        """Whether every one of these ids is in the collection."""
        if self.index is not None:
            return bool((self.rows_of(ids) >= 0).all())
        absent = set(ids)
        for batch in all_ids(self.stored):
            absent.difference_update(batch)
        return not absent

    def judged(self, judgements: pa.Table, query_ids: pa.ChunkedArray) -> Judged:
        """The judgements (schema.QRELS) of queries and passages that are here.

        `query_ids` are those of the query set, in its order.
        """
        of_query = pc.index_in(judgements["query_id"], query_ids)
        queries = of_query.fill_null(-1).to_numpy().astype(np.int64)
        passages = self.rows_of(judgements["passage_id"].to_pylist())
        known = (queries >= 0) & (passages >= 0)
        order = np.lexsort((passages[known], queries[known]))
        grades = judgements["relevance"].to_numpy().astype(np.int64)
        return Judged(*(each[known][order] for each in (queries, passages, grades)))
