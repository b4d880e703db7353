"""How many bytes a stage's pending shards are expected to take, by hand."""

from types import SimpleNamespace

import pytest

from raypipe.driver.execute import check_space, estimated_bytes
from raypipe.driver.forecast.forecast import Forecast, Line, check_forecast
from raypipe.errors import StorageError
from raypipe.models.folder.model_folder import resolve_model
from raypipe.stages.ann.search import AnnSearchStage
from raypipe.stages.bm25 import Bm25Stage, IndexStage
from raypipe.stages.encode import EncodeStage
from raypipe.stages.fuse import fuse_stage
from raypipe.stages.ids import ids_stage
from raypipe.stages.impacts import ImpactIndexStage, ImpactSearchStage
from raypipe.stages.prepare import ConvertStage, CountStage
from raypipe.stages.scoring.candidates import Request
from raypipe.stages.scoring.rerank import aggregate_stage, pairs_stage, rerank_stage
from raypipe.stages.scoring.score import ScoreStage
from raypipe.stages.scoring.token_rows import PassageTokensStage
from raypipe.stages.search import PartsStage, merge_stage
from raypipe.stages.tables import Sides
from raypipe.stages.tokenize import TokenizeStage
from raypipe.storage.records import Manifest, Record, Shard
from raypipe.storage.spec import StageSpec
from raypipe.storage.store import Stored

SHARDS = [Shard(0, 0, 100), Shard(1, 100, 300), Shard(2, 300, 400)]


PENDING = SHARDS[1:]
"""300 of 400 rows."""


RECORDS = (Record(SHARDS[0], "aa", 1000), Record(SHARDS[1], "bb", 600))


STORED = Stored(None, Manifest("texts", "f", RECORDS, ()))
"""300 rows in 1,600 bytes."""


SIDES = Sides(STORED, STORED)


@pytest.fixture
def encode(tiny_model):
    return EncodeStage(STORED, resolve_model(str(tiny_model)), "passage")


def test_an_embedding_takes_two_bytes_a_number_of_each_row(encode):
    assert estimated_bytes(encode, SHARDS, PENDING) == 300 * 32 * 2
    assert estimated_bytes(encode, SHARDS, []) == 0


def test_embeddings_that_do_not_fit_by_a_byte_are_refused(encode):
    ledger = SimpleNamespace(shards=SHARDS, pending=lambda: PENDING, store="vectors")

    def with_free(free):
        return SimpleNamespace(free_bytes=lambda: free, uri="/disk")

    check_space(with_free(19_200), encode, ledger)
    with pytest.raises(StorageError, match=r"19,200 bytes\).*19,199 bytes"):
        check_space(with_free(19_199), encode, ledger)
    check_space(with_free(None), encode, ledger)


def facts(num_bytes, compressed):
    return SimpleNamespace(num_bytes=num_bytes, compressed=compressed)


@pytest.mark.parametrize(
    ("stage", "expected"),
    [
        # 5 bytes of text a compressed one; three quarters of the rows are missing.
        (ConvertStage([], [facts(800, False), facts(400, True)], "msmarco-v1"), 2800 * 3 // 4),
        (TokenizeStage(STORED, None, None), (1600 + 8 * 300) * 3 // 4),
        (ids_stage(STORED), 26 * 300),
        (Bm25Stage("b", SIDES, STORED, 0.9, 0.4, 50), 11 * 50 * 300),
        (ImpactSearchStage("i", SIDES, STORED, STORED, 50), 11 * 50 * 300),
        (PartsStage("p", STORED, STORED, 50), 11 * 50 * 300),
        (AnnSearchStage("a", STORED, None, STORED, STORED, SIDES, 50, 2), 11 * 50 * 300),
        (merge_stage("m", STORED, SIDES, 50), 11 * 50 * 300 * 3 // 4),
    ],
    ids=lambda value: type(value).__name__,
)
def test_other_stages_by_hand(stage, expected):
    assert estimated_bytes(stage, SHARDS, PENDING) == expected


def stored(*records):
    return Stored(None, Manifest("x", "f", tuple(records), ()))


COLLECTION = stored(Record(Shard(0, 0, 100), "aa", 1000), Record(Shard(1, 100, 300), "bb", 600))


RUN = stored(
    Record(Shard(0, 0, 4), "aa", 9, {"rows": 50}), Record(Shard(1, 4, 10), "bb", 9, {"rows": 70})
)
"""10 queries with 120 lines."""


BASE = StageSpec("scores", 1)
ALL, FIRST, SAMPLE = Request(k0=5), Request(k1=7), Request(k1=7, sample=2)


TEN = stored(Record(Shard(0, 0, 10), "aa", 9, {"rows": 100}))
FEW = Sides(stored(Record(Shard(0, 0, 10), "aa", 9)), STORED)
"""10 queries."""


@pytest.mark.parametrize(
    ("stage", "expected"),
    [
        (IndexStage(COLLECTION), 3 * 1600 * 3 // 4),
        (ImpactIndexStage(stored(), impacts=COLLECTION), 3 * 1600 * 3 // 4),
        (fuse_stage("f", {"r": RUN}, SIDES, method="rrf", depth=50), 11 * 120 * 3 // 4),
        (fuse_stage("f", {"r": TEN, "s": TEN}, FEW, method="rrf", depth=3), 11 * 30 * 3 // 4),
        # 7 of each of 10 queries, each with the 6 others, or with 2 of them.
        (pairs_stage("p", RUN, BASE, FIRST, SIDES, None), 24 * 70 * 6 * 3 // 4),
        (pairs_stage("p", RUN, BASE, SAMPLE, SIDES, None), 24 * 70 * 2 * 3 // 4),
        (PassageTokensStage(COLLECTION, None, None), 1600 + 8 * 300),
        (PassageTokensStage(stored(Record(Shard(0, 0, 1), "aa", 5)), None, None), 1500 + 8 * 300),
        (PassageTokensStage(stored(), None, None), 8 * 300),
        (ScoreStage(None, None, None, None, False, SIDES, STORED), 24 * 300),
        (rerank_stage("r", RUN, BASE, ALL, "keep", SIDES, None), 11 * 120 * 3 // 4),
        (aggregate_stage("a", RUN, RUN, FIRST, "sum", "keep", SIDES), 11 * 120 * 3 // 4),
        (CountStage([], "msmarco-v1"), 0),
    ],
    ids=lambda value: type(value).__name__,
)
def test_bytes_of_further_stages_by_hand(stage, expected):
    assert estimated_bytes(stage, SHARDS, PENDING) == expected


DEEP = 10**9
EVERY = 11 * 300 * 300
"""A line for each of 300 queries and 300 passages."""


@pytest.mark.parametrize(
    ("stage", "expected"),
    [
        (Bm25Stage("b", SIDES, STORED, 0.9, 0.4, DEEP), EVERY),
        (ImpactSearchStage("i", SIDES, STORED, STORED, DEEP), EVERY),
        (PartsStage("p", STORED, STORED, DEEP), EVERY * 3 // 4),
        (AnnSearchStage("a", STORED, None, STORED, STORED, SIDES, DEEP, 2), EVERY),
        (merge_stage("m", STORED, SIDES, DEEP), EVERY * 3 // 4),
        (fuse_stage("f", {"r": RUN}, SIDES, method="rrf", depth=DEEP), 11 * 120 * 3 // 4),
        (pairs_stage("p", RUN, BASE, Request(k1=DEEP), SIDES, None), 24 * 120 * 119 * 3 // 4),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_depth_beyond_the_collection_needs_no_more_than_the_whole_of_it(stage, expected):
    assert estimated_bytes(stage, SHARDS, PENDING) == expected


def test_a_plan_without_rows_needs_nothing_and_one_row_all():
    assert estimated_bytes(IndexStage(COLLECTION), [], []) == 0
    assert estimated_bytes(IndexStage(COLLECTION), [Shard(0, 0, 1)], [Shard(0, 0, 1)]) == 4800


def test_the_check_before_work_counts_the_folders_and_records_of_each_store():
    lines = [Line("a", 300, 5, False, bytes=1000), Line("b", 300, 9, True, bytes=1 << 30)]
    lines.append(Line("older", 300, 9, False, bytes=1 << 30))
    found = Forecast(lines)
    needed = 1000 + 4096 * (32 + 8 + 3 * 5)

    def with_free(free, *older):
        stores = SimpleNamespace(free_bytes=lambda: free, uri="/disk")
        return SimpleNamespace(stores=stores, refs=lambda: {name: "" for name in older})

    check_forecast(found, with_free(needed, "older"))
    check_forecast(found, with_free(0, "older", "a"))
    with pytest.raises(StorageError, match=f"{needed:,} bytes.*{needed - 1:,} bytes"):
        check_forecast(found, with_free(needed - 1, "older"))
