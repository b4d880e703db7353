"""Lucene's index of impacts: rows and scores of the exact product, bit for bit, ties by row."""

import numpy as np
import pytest

from raypipe import schema
from raypipe.engines.lucene.index import IMPACTS, ROWS_FILE, build_index
from raypipe.stages.impacts import ImpactIndexStage, ImpactSearchStage
from raypipe.stages.search import merge_stage
from raypipe.stages.sparse import LARGEST, SparsePartsStage
from raypipe.stages.stage import Sizing
from raypipe.stages.tables import Sides

NUM_WORDS, NUM_PASSAGES, NUM_QUERIES = 3000, 2000, 40
TWINS = range(0, NUM_PASSAGES, 7)
"""Rows whose impacts are equal."""
EMPTY = range(5, NUM_PASSAGES, 100)
"""Rows without an impact, as those in quarantine are stored."""


def lucene(test):
    return pytest.mark.jvm(pytest.mark.slow(test))


def stored_as(impacts):
    """Word piece -> impact, as one row of a store."""
    return [word << 12 | impact for word, impact in sorted(impacts.items())]


def drawn(rng, number, largest):
    words = rng.zipf(1.2, number) % (NUM_WORDS - 1)
    return {int(word): int(rng.integers(1, largest + 1)) for word in words}


def rows_of_passages(rng):
    """Few different impacts, so that many scores are equal; some rows with the largest."""
    for row in range(NUM_PASSAGES):
        if row in EMPTY:
            yield {}
        elif row in TWINS:
            yield {11: 3, 2999: 7}
        else:
            yield drawn(rng, 30, LARGEST if row % 3 == 0 else 4)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The stores: passages, their impacts, queries and theirs, and Lucene's index."""
    from given_stores import Stores

    stores, rng = Stores(tmp_path_factory.mktemp("impacts")), np.random.default_rng(3)
    rows = [stored_as(impacts) for impacts in rows_of_passages(rng)]
    queries = [{2999: 2}, {11: 1, 2999: 1}, {}, {word: LARGEST for word in range(1500)}]
    queries += [drawn(rng, 20, 4) for _ in range(NUM_QUERIES - 4)]
    passages = stores.passages(["text"] * 900, ["text"] * (NUM_PASSAGES - 900))
    impacts = stores.tokens(rows[:700], rows[700:], dtype=np.uint32)
    asked = stores.tokens([stored_as(query) for query in queries], dtype=np.uint32)
    sides = Sides(stores.queries(*"x" * NUM_QUERIES), passages)
    index = stores.finished(ImpactIndexStage(passages, impacts=impacts))
    return stores, sides, impacts, asked, index


def lines(stored):
    """A run's lines, scores as their bits."""
    table = stored.whole_table(schema.RUN)
    names = ("query_row", "passage_row", "rank")
    columns = [table[name].to_pylist() for name in names]
    scores = table["score"].to_numpy().astype(np.float32).view(np.uint32).tolist()
    return list(zip(*columns, scores, strict=True))


def test_the_text_of_a_passage_is_its_word_pieces_with_their_impacts(stores, monkeypatch):
    monkeypatch.setattr("raypipe.storage.store.ROW_GROUP_ROWS", 2)
    rows = [{7: 120, 19: 4}, {}, {0: 1}, {29_999: LARGEST}, {7: 5}]
    impacts = stores.tokens(*([stored_as(row)] for row in rows), dtype=np.uint32)
    passages = stores.passages(["a"] * 3, ["a"] * 2)
    tables = list(ImpactIndexStage(passages, impacts=impacts).passages())
    assert [table.num_rows for table in tables] == [2, 2, 1]
    assert all(table.schema == schema.PASSAGES for table in tables)
    found = [tuple(row.values()) for table in tables for row in table.to_pylist()]
    assert found == [("p0", "7|120 19|4"), ("p1", ""), ("p2", "0|1"), ("p3", "29999|4095"),
                     ("p4", "7|5")]  # fmt: skip


@lucene
@pytest.mark.parametrize(("depth", "block"), [(1, 40), (10, 7), (100, 40), (1500, 3), (5000, 40)])
def test_a_run_is_the_products_bit_for_bit_at_any_depth_and_block(made, depth, block):
    stores, sides, impacts, asked, index = made
    searched = ImpactSearchStage("s", sides, index, asked, depth)
    parts = stores.finished(SparsePartsStage("s", impacts, asked, depth, NUM_WORDS))
    product = stores.finished(merge_stage("s", parts, sides, depth))
    found = lines(stores.finished(searched, Sizing(shard_queries=block)))
    assert found == lines(product) and len(found) > NUM_QUERIES / 2
    assert not {row for _, row, _, _ in found} & {*EMPTY}


@lucene
def test_equal_scores_are_by_row_at_the_cut_and_words_alone_that_are_asked_for_find(made):
    stores, sides, _, asked, index = made
    found = lines(stores.finished(ImpactSearchStage("s", sides, index, asked, 50)))
    twins = [row for row in TWINS if row not in EMPTY]
    assert len(twins) > 50
    of_first = [(row, score) for query, row, _, score in found if query == 0]
    score = np.float32(14).view(np.uint32)
    assert of_first == [(row, score) for row in twins[:50]]
    assert not any(query == 2 for query, *_ in found)


@lucene
def test_scores_beyond_float32s_whole_numbers_are_rounded_as_the_products_are(made):
    """The query of 1,500 words, more than Lucene's own limit, each with the largest impact."""
    stores, sides, _, asked, index = made
    found = lines(stores.finished(ImpactSearchStage("s", sides, index, asked, 5000)))
    scores = np.array([s for query, _, _, s in found if query == 3], np.uint32).view(np.float32)
    assert scores.max() > 2**25 and len(scores) > 1000


@lucene
def test_bytes_do_not_depend_on_how_often_the_buffer_or_the_heap_was_full(
    made, tmp_path, monkeypatch
):
    """Eight times the passages fill a buffer of a megabyte more than once. Java's garbage is
    collected often, at which a reference that was overwritten ends it; with one compiler alone,
    as other tests have it, it does not."""
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-Xmn40m")
    _, sides, impacts, _, _ = made
    stage = ImpactIndexStage(sides.collection, impacts=impacts)

    def eightfold():
        return (table for _ in range(8) for table in stage.passages())

    for name, megabytes in (("a", 1), ("b", 64)):
        args = {"language": IMPACTS, "buffer_megabytes": megabytes}
        assert build_index(eightfold, tmp_path / name, **args) == 8 * (NUM_PASSAGES - len(EMPTY))
    first, second = ({p.name: p.read_bytes() for p in (tmp_path / n).iterdir()} for n in "ab")
    assert first == second and ROWS_FILE in first
    assert not [name for name in first if name.endswith((".pos", ".tvd"))]  # positions, vectors
    assert len(first["_0.nvd"]) < 100, "lengths of passages, which count for nothing, are kept"


@lucene
def test_the_specs_name_what_the_index_and_the_run_depend_on(made):
    _, sides, impacts, asked, index = made
    spec = index.spec
    assert (spec.stage, spec.produces) == ("impact-index", "impact-index")
    assert spec.inputs == {"collection": sides.collection.identity, "impacts": impacts.identity}
    assert list(spec.params) == ["anserini"]
    run = ImpactSearchStage("s", sides, index, asked, 5).spec
    assert run.params == {"depth": 5, "name": "s"} and run.produces == "run"
    assert ImpactSearchStage("s", sides, index, asked, 5).needs.jvm
    assert run.inputs == {
        "index": index.identity, "impacts": asked.identity,
        **{side: stored.identity for side, stored in sides.stores().items()},
    }  # fmt: skip
