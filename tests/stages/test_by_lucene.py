"""Stages that search an index by Lucene: the lines of a block, the choice of k1 and b."""

import json
from dataclasses import replace

import numpy as np
import pytest
from lucene_here import built_here, packed
from zebra_texts import TEXTS

from raypipe import schema
from raypipe.engines.lucene.index import IMPACTS
from raypipe.engines.lucene.search import Feedback
from raypipe.stages.bm25 import Bm25Stage
from raypipe.stages.excluded import Excluded
from raypipe.stages.impacts import ImpactSearchStage
from raypipe.stages.stage import Site, Sizing
from raypipe.stages.tables import Sides
from raypipe.stages.tune import TuneStage, chosen
from raypipe.storage.records import Shard, hash_file

pytestmark = pytest.mark.jvm


def lines(stored):
    table = stored.whole_table(schema.RUN)
    assert set(table["scored_by"].to_pylist()) == {"own"}
    names = ("query_row", "passage_row", "rank")
    return list(zip(*(table[name].to_pylist() for name in names), strict=True))


def test_a_block_of_queries_has_its_own_rows_and_the_settings_of_the_search(stores, zebra_index):
    queries = stores.queries("horses", "unicorn", "crossing", "stripes")
    sides = Sides(queries, stores.passages(TEXTS))
    index = packed(stores, zebra_index, len(TEXTS))
    expected = [(0, 5, 1), (2, 0, 1), (2, 4, 2), (3, 2, 1)]
    scores = []
    plain, expanded = ((0.9, 0.0), (0.9, 1.0), (0.5, 0.0)), ((0.9, 0.0, Feedback()),)
    for k1, b, *rm3 in plain + expanded:
        stage = Bm25Stage("own", sides, index, k1, b, 2, *rm3)
        assert stage.needs.jvm
        found = stores.finished(stage, Sizing(shard_queries=3))
        assert [record.facts["rows"] for record in found.manifest.records] == [1, 3]
        assert lines(found) == expected
        scores.append(found.whole_table(schema.RUN)["score"].to_pylist())
    # `stripes` is once in a passage of 3 words, where 2 are usual: tf / (tf + k1 (1 - b + 1.5 b)).
    idf = np.log(1 + 4.5 / 1.5)
    for own, part in zip(scores[:3], (1 / 1.9, 1 / 2.35, 1 / 1.5), strict=True):
        assert own[-1] == pytest.approx(idf * part, rel=1e-5)
    assert scores[3] != scores[0]
    opened = stage.open(Site(stores.storage.scratch()))
    opened.close()
    with pytest.raises(Exception, match="closed"):
        opened.run(Shard(0, 0, 4), (), lambda rows: None)


def test_impacts_are_searched_by_the_queries_own_block(stores, tmp_path):
    folder, _ = built_here(tmp_path / "made", ["7|120", "19|4", "7|1 19|1"], language=IMPACTS)
    (folder / "raypipe-language.txt").write_text(IMPACTS)
    index, sides = packed(stores, folder, 3), stores.sides(3)
    asked = stores.tokens([[7 << 12 | 2], [], [7 << 12 | 1, 19 << 12 | 5]], dtype=np.uint32)
    stage = ImpactSearchStage("own", sides, index, asked, 2)
    found = stores.finished(stage, Sizing(shard_queries=2))
    assert lines(found) == [(0, 0, 1), (0, 2, 2), (2, 0, 1), (2, 1, 2)]
    assert found.whole_table(schema.RUN)["score"].to_pylist() == [240, 2, 120, 20]
    excluded = Excluded(stores.tables(schema.EXCLUDED, [[0, 2], [2, 0]], ranges=[(0, 3)]))
    without = stores.finished(replace(stage, excluded=excluded), Sizing(shard_queries=2))
    assert lines(without) == [(0, 0, 1), (2, 1, 1), (2, 2, 2)]
    assert stage.spec.params == {"depth": 2, "name": "own"} and stage.spec.produces == "run"
    assert stage.spec.inputs == {
        "index": index.identity, "impacts": asked.identity,
        **{side: stored.identity for side, stored in sides.stores().items()},
    }  # fmt: skip


def test_the_best_k1_and_b_are_chosen_of_equal_ones_the_smallest(
    stores, zebra_index, tmp_path, caplog
):
    """With a k1 of 0 how often a word is there does not count, so that the first passage wins."""
    qrels = tmp_path / "qrels.txt"
    qrels.write_text("q0 0 p2 1\nq2 0 p0 1\n")
    queries = stores.queries("zebra", "horses", "unicorn")
    collection, index = stores.passages(TEXTS), packed(stores, zebra_index, len(TEXTS))
    grid = {"k1": (1.2, 0.0, 0.9), "b": (1.0, 0.25)}
    stage = TuneStage(collection, index, queries, qrels, "RR@10", **grid, depth=2)
    assert stage.needs.jvm and stage.shards(Sizing()) == [Shard(0, 0, 3)]
    beats = []
    tuned = stores.finished(stage, beats=beats)
    (record,) = tuned.manifest.records
    assert len(beats) == 6 and record.facts["rows"] == 3
    assert len(caplog.messages) == len(set(caplog.messages)) > 0, "told of the first alone"
    rows = [(0.9, 0.25, 0.5), (0.9, 1.0, 0.5), (1.2, 0.25, 0.5), (1.2, 1.0, 0.5),
            (0.0, 0.25, 0.25), (0.0, 1.0, 0.25)]  # fmt: skip
    assert json.loads(tuned.path(record).read_text()) == {
        "measure": "RR@10",
        "grid": [{"k1": k1, "b": b, "value": value} for k1, b, value in rows],
    }
    assert chosen(tuned) == (0.9, 0.25)
    spec = tuned.spec
    assert (spec.stage, spec.produces) == ("tune", "parameters")
    assert spec.params == {
        "measure": "RR@10", "k1": [1.2, 0.0, 0.9], "b": [1.0, 0.25], "depth": 2,
    }  # fmt: skip
    assert spec.inputs == {
        "index": index.identity, "queries": queries.identity, "content:qrels": hash_file(qrels),
    }  # fmt: skip
    shallow = TuneStage(collection, index, queries, qrels, "RR@10", (0.0,), (0.25,), depth=1)
    of_shallow = stores.finished(shallow)
    assert '"value": 0.0' in of_shallow.path(of_shallow.manifest.records[0]).read_text()
    excluded = Excluded(stores.tables(schema.EXCLUDED, [[0], [0]], ranges=[(0, 3)]))
    without = stores.finished(replace(shallow, excluded=excluded))  # the first of q0 is another
    assert '"value": 0.5' in without.path(without.manifest.records[0]).read_text()
    assert {*without.spec.inputs} == {*spec.inputs, "excluded"}
