"""Lucene's documents are the passages of their rows, however often its buffer is full."""

import numpy as np
import pyarrow as pa
import pytest

from raypipe import schema
from raypipe.errors import CorruptError, IncompleteError
from raypipe.search.lucene.check import check_index, compare_ids
from raypipe.search.lucene.index import ROWS_FILE, build_index
from raypipe.search.lucene.pack import pack_folder
from raypipe.search.lucene.search import LuceneSearcher
from raypipe.stages.bm25 import Bm25Stage, IndexStage, open_index
from raypipe.stages.stage import Site, Sizing
from raypipe.storage.ledger import Ledger
from raypipe.storage.payloads.tables import read_table, write_table
from raypipe.storage.posix import PosixStorage
from raypipe.storage.records import Shard
from raypipe.storage.spec import StageSpec
from raypipe.storage.stored import Stored

pytestmark = pytest.mark.jvm

NUM_PASSAGES = 8_000
EMPTY_EVERY = 997
TWIN_EVERY = 200
"""Rows whose texts are equal, so that BM25 ties them."""


def text_of(row):
    """Lengths grow and shrink; words of its own, shared words, now and then nothing at all."""
    if row % EMPTY_EVERY == 5:
        return ""
    if row % TWIN_EVERY == 0:
        return "zebra crossing"
    length = 1 + round(20 * (1 + np.sin(row / 600)))
    shared = [f"w{(row * 31 + n * n) % 900}" for n in range(length)]
    own = [f"own{row}", *(f"own{row}x{n}" for n in range(length))]
    return " ".join([*own, *shared])


def id_of(row):
    return f"p{row}-\N{ZEBRA FACE}é"


def passages(start, stop):
    rows = range(start, stop)
    columns = [[id_of(row) for row in rows], [text_of(row) for row in rows]]
    return pa.table(columns, schema=schema.PASSAGES)


def all_passages():
    return (passages(start, start + 2_000) for start in range(0, NUM_PASSAGES, 2_000))


FILLED = [row for row in range(NUM_PASSAGES) if text_of(row)]


def build_long_index(folder):
    """An index whose segments were written several times before they became one."""
    beats = []
    num_indexed = build_index(
        all_passages, folder, beat=lambda: beats.append(1), buffer_megabytes=1
    )
    assert num_indexed == len(FILLED)
    assert beats
    return folder


@pytest.fixture(scope="session")
def searcher(long_index):
    return LuceneSearcher(long_index)


def test_every_document_is_the_passage_of_its_row(searcher):
    assert searcher.num_segments == 1
    assert searcher.num_documents == len(FILLED)
    assert searcher.rows.tolist() == FILLED
    assert searcher.rows.dtype == np.int64
    assert searcher.stored_ids(range(len(FILLED))) == [id_of(row) for row in FILLED]


def test_a_word_of_one_passage_finds_its_row(searcher):
    for row in FILLED[:: len(FILLED) // 50]:
        if row % TWIN_EVERY:
            rows, _ = searcher.search(f"own{row}", k1=0.9, b=0.4, depth=10)
            assert rows.tolist() == [row]


@pytest.mark.parametrize("depth", [1, 7, 39, 1000])
def test_equal_texts_are_found_by_row_at_the_cut_too(searcher, depth):
    twins = [row for row in range(0, NUM_PASSAGES, TWIN_EVERY) if row % EMPTY_EVERY != 5]
    rows, scores = searcher.search("zebra", k1=0.9, b=0.4, depth=depth)
    assert rows.tolist() == twins[:depth]
    assert len(set(scores.tolist())) == 1


def test_bytes_know_neither_the_time_nor_how_often_the_buffer_was_full(long_index, tmp_path):
    again = tmp_path / "index"
    build_index(all_passages, again, buffer_megabytes=64)
    assert sorted(p.name for p in again.iterdir()) == sorted(p.name for p in long_index.iterdir())
    assert [
        p for p in long_index.iterdir() if p.read_bytes() != (again / p.name).read_bytes()
    ] == []
    assert list(tmp_path.iterdir()) == [again]


def test_a_document_that_is_not_the_passage_of_its_row_is_refused_by_the_build(tmp_path):
    names = iter(["ab", "cd"])

    def other_names_at_second_reading():
        return [pa.table([list(next(names)), ["horse", "zebra"]], schema=schema.PASSAGES)]

    with pytest.raises(IncompleteError, match=r"document 0: expected passage 'c' of row 0.*'a'"):
        build_index(other_names_at_second_reading, tmp_path / "index")
    assert not (tmp_path / "index" / ROWS_FILE).exists()


@pytest.mark.parametrize(
    ("stored", "problem"),
    [
        (["a", "c", "d"], None),
        (["a", "d", "c"], r"document 1: expected passage 'c' of row 2, found passage 'd'"),
        (["a", "c"], r"document 2: expected passage 'd' of row 3, found no document"),
        (["a", "c", "d", "e"], r"document 3: expected 3 documents in all, found also passage 'e'"),
    ],
)
def test_every_id_is_compared_with_its_row(tmp_path, stored, problem):
    ids = tmp_path / "ids"
    ids.write_text(f"{stored[:2]}\n{stored[2:]}\n".replace("'", '"'))
    halves = [
        pa.table([[*names], ["x"] * len(names)], schema=schema.PASSAGES) for names in ("ab", "cde")
    ]
    rows = np.array([0, 2, 3])
    if problem is None:
        compare_ids(ids, rows, halves)
    else:
        with pytest.raises(IncompleteError, match=problem):
            compare_ids(ids, rows, halves)


class Changed:
    """An opened index of which one fact is another."""

    def __init__(self, searcher, **changes):
        self.rows, self.num_documents = searcher.rows, searcher.num_documents
        self.num_segments, self.stored_ids = searcher.num_segments, searcher.stored_ids
        vars(self).update(changes)


def swapped(rows, first, second):
    rows = rows.copy()
    rows[[first, second]] = rows[[second, first]]
    return rows


def ids_of(rows):
    return [id_of(row) for row in rows]


def test_an_index_in_row_order_passes_the_check_on_opening(searcher):
    check_index(Changed(searcher), "stores/lucene/1", NUM_PASSAGES, ids_of)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda s: {"num_documents": 5}, f"expected {len(FILLED)} documents, found 5"),
        (lambda s: {"num_segments": 2}, "expected one segment, found 2"),
        (lambda s: {"rows": swapped(s.rows, 7, 8)}, "document 8: expected a row above 9, found 8"),
        (
            lambda s: {"rows": np.maximum.accumulate(s.rows // 2)},
            "document 1: expected a row above",
        ),
        (lambda s: {"rows": s.rows + 2}, f"expected rows of {NUM_PASSAGES} passages, found rows 2"),
        (lambda s: {"rows": s.rows - 1}, "found rows -1 to"),
        (
            lambda s: {"stored_ids": lambda d: [id_of(s.rows[n]) for n in d[:-1]] + ["x"]},
            "found 'x'",
        ),
        (
            lambda s: {"stored_ids": lambda d: ["x"] + [id_of(s.rows[n]) for n in d[1:]]},
            "document 0",
        ),
    ],
)
def test_an_index_out_of_order_is_refused_on_opening_with_the_remedy(searcher, change, problem):
    changed = Changed(searcher, **change(searcher))
    with pytest.raises(CorruptError, match=rf"^stores/lucene/1: .*{problem}.*delete this store"):
        check_index(changed, "stores/lucene/1", NUM_PASSAGES, ids_of)


def test_a_thousand_documents_are_asked_first_and_last_among_them(searcher):
    asked = []

    def stored_ids(documents):
        asked.extend(documents)
        return searcher.stored_ids(documents)

    check_index(Changed(searcher, stored_ids=stored_ids), "x", NUM_PASSAGES, ids_of)
    assert (len(asked), asked[0], asked[-1]) == (1000, 0, len(FILLED) - 1)
    assert set(np.diff(asked).tolist()) <= {7, 8, 9}


def commit(storage, name, payloads, spec=None):
    """A store with one shard a payload: (path, rows)."""
    edges = np.cumsum([0, *(rows for _, rows in payloads)]).tolist()
    shards = [Shard(n, edges[n], edges[n + 1]) for n in range(len(payloads))]
    ledger = Ledger(storage, name, spec or StageSpec(name, 1), shards)
    for shard, (path, rows) in zip(shards, payloads, strict=True):
        ledger.commit(shard, path, {"rows": rows})
    return Stored(storage, ledger.publish())


def stored_table(storage, name, table_schema, table):
    path = storage.scratch() / "payload"
    write_table(path, table_schema, [table])
    return commit(storage, name, [(path, table.num_rows)])


@pytest.fixture
def storage(tmp_path):
    return PosixStorage(tmp_path / "stores")


@pytest.fixture
def collection(storage):
    return stored_table(storage, "collection", schema.PASSAGES, passages(0, NUM_PASSAGES))


@pytest.fixture
def index(storage, long_index):
    packed = storage.scratch() / "packed"
    pack_folder(long_index, packed)
    return commit(storage, "lucene", [(packed, NUM_PASSAGES)])


def test_an_index_of_another_collection_is_refused_when_a_stage_opens_it(storage, index, tmp_path):
    others = pa.table(
        [[f"q{row}" for row in range(NUM_PASSAGES)], ["x"] * NUM_PASSAGES], schema=schema.PASSAGES
    )
    other = stored_table(storage, "other", schema.PASSAGES, others)
    with pytest.raises(CorruptError, match=r"stores/lucene/\w+: document 0: .*'q0' of row 0"):
        open_index(index, other, tmp_path / "index")


def test_many_shards_of_queries_find_what_one_shard_finds(storage, collection, index, tmp_path):
    texts = [f"w{n} w{n + 3} own{n * 90 + 1}" for n in range(29)] + ["zebra"]
    queries = pa.table([[f"q{n}" for n in range(30)], texts], schema=schema.QUERIES)
    queries = stored_table(storage, "queries", schema.QUERIES, queries)
    stage = Bm25Stage("bm25", collection, index, queries, 0.9, 0.4, 20)
    site = Site(tmp_path / "scratch")
    site.scratch.mkdir()
    stage.open(site)
    runs = []
    for size in (7, 30):
        parts = []
        for shard in stage.shards(Sizing(shard_queries=size)):
            payload = stage.run(shard, (), lambda rows: None)
            parts.append(read_table(payload.path, schema.RUN))
            assert payload.facts == {"rows": parts[-1].num_rows}
            assert set(parts[-1]["query_row"].to_pylist()) == set(range(shard.start, shard.stop))
        runs.append((len(parts), pa.concat_tables(parts)))
    assert [num for num, _ in runs] == [5, 1]
    assert runs[0][1].equals(runs[1][1])
    assert runs[1][1].num_rows == 30 * 20


def test_a_failure_of_lucene_is_told_with_its_last_words(tmp_path):
    one = [pa.table([["a"], ["horse"]], schema=schema.PASSAGES)]
    with pytest.raises(IncompleteError, match=r"(?s)Lucene: indexing ended with 1: .*no number"):
        build_index(lambda: one, tmp_path / "index", buffer_megabytes="no number")
    assert not (tmp_path / "index" / ROWS_FILE).exists()


def test_the_spec_of_an_index_says_in_row_order(collection):
    assert IndexStage(collection).spec.semantics == 2
