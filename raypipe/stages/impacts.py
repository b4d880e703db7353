"""The stages of Lucene's index of impacts, which finds what the product of the impacts finds."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

import pyarrow as pa
import pyarrow.compute as pc

from raypipe.engines.lucene.index import IMPACTS, index_settings
from raypipe.engines.lucene.search import Lines, LuceneSearcher, lines_of
from raypipe.stages.bm25 import (
    INDEX_BYTES,
    INDEX_SECONDS,
    LUCENE_BYTES,
    IndexStage,
    LuceneSearchStage,
)
from raypipe.stages.excluded import NOTHING, Excluded
from raypipe.stages.sparse import unpacked
from raypipe.stages.stage import Expectations, Expected
from raypipe.stages.tables import Sides
from raypipe.storage.payloads import Flat, Offsets
from raypipe.storage.records import Shard
from raypipe.storage.spec import StageSpec
from raypipe.storage.store import Stored, spec_over

IMPACT_BYTES, IMPACT_SECONDS = 0.6, 1.7e-7
"""Of a packed index: for a stored byte of impacts, its bytes and CPU time."""


@dataclass(frozen=True)
class ImpactIndexStage(IndexStage):
    """A Lucene index of the passages' impacts, in which a word piece is a word, by its id.

    A passage without an impact is not in it: an empty one, or one in quarantine.
    """

    language: str = IMPACTS
    impacts: Stored = field(kw_only=True)

    @property
    def spec(self) -> StageSpec:
        """The impacts, the collection, whose ids are stored too, and Anserini's version."""
        stores = {"collection": self.collection, "impacts": self.impacts}
        settings = index_settings(self.language)
        return spec_over("impact-index", 1, settings, stores, produces="impact-index")

    def estimated_bytes(self, num_rows: int, num_planned: int) -> int:
        """Bytes of the index: an impact takes 4 bytes where it is stored, and 10 as text."""
        return LUCENE_BYTES * self.impacts.num_bytes * num_rows // max(1, num_planned)

    def expected(self, expectations: Expectations) -> Expected:
        """The packed index, by the number of its impacts."""
        num_bytes = self.impacts.num_bytes
        return Expected(
            shards=self.shards(expectations.sizing),
            num_bytes=INDEX_BYTES + IMPACT_BYTES * num_bytes,
            seconds=INDEX_SECONDS + IMPACT_SECONDS * num_bytes,
        )

    def passages(self) -> Iterator[pa.Table]:
        """Texts such as `7|120 19|4` in place of a passage's: word pieces with their impacts."""
        start = 0
        for table in super().passages():
            flat, offsets = self.impacts.tokens(start, start + table.num_rows)
            numbers = (pa.array(each).cast(pa.string()) for each in unpacked(flat))
            words = pa.ListArray.from_arrays(
                pa.array(offsets, pa.int32()), pc.binary_join_element_wise(*numbers, "|")
            )
            yield table.set_column(1, "text", pc.binary_join(words, " "))
            start += table.num_rows


@dataclass(frozen=True)
class ImpactSearchStage(LuceneSearchStage):
    """The best `depth` passages of each query by an index of impacts, as SparsePartsStage's."""

    name: str
    sides: Sides
    index: Stored
    impacts: Stored
    """Of the queries."""
    depth: int
    excluded: Excluded = NOTHING

    @property
    def spec(self) -> StageSpec:
        """The index, the queries with their impacts, what they exclude, and the depth."""
        params = {"depth": self.depth, "name": self.name}
        stores = {"index": self.index, "impacts": self.impacts} | self.sides.stores()
        stores |= self.excluded.stores()
        return spec_over("impact-search", 1, params, stores, produces="run")

    def lines(self, searcher: LuceneSearcher, shard: Shard, depth: int) -> Lines:
        """The lines of a block's queries; see LuceneSearchStage."""
        return search_impacts(searcher, *self.impacts.tokens(shard.start, shard.stop), depth)


def search_impacts(searcher: LuceneSearcher, flat: Flat, offsets: Offsets, depth: int) -> Lines:
    """The lines of queries, given by their impacts; see `packed` in sparse.py."""
    words, impacts = (each.tolist() for each in unpacked(flat))
    return lines_of(
        [
            searcher.search_impacts(words[first:last], impacts[first:last], depth=depth)
            for first, last in pairwise(offsets.tolist())
        ]
    )
