"""The stages of approximate search, over stores cut in different places."""

import json
import time

import faiss
import numpy as np
import pytest

from raypipe import schema
from raypipe.engines.ann import train_ivf_pq, write_index
from raypipe.stages.ann import build as module
from raypipe.stages.ann.build import CodesStage, beating, hnsw_stage, train_stage
from raypipe.stages.ann.recall import measured, recall_stage
from raypipe.stages.ann.search import AnnSearchStage, opened_graph, opened_lists
from raypipe.stages.search import PartsStage, merge_stage
from raypipe.stages.stage import Site, Sizing
from raypipe.storage.spec import StageSpec

SKIPPED = [5, 130, 399]


@pytest.fixture(scope="module")
def arrays():
    rng = np.random.default_rng(1)
    return rng.standard_normal((400, 16)).astype("f2"), rng.standard_normal((11, 16)).astype("f2")


@pytest.fixture
def place(stores, arrays):
    rows, asked = arrays
    embeddings = stores.vectors(rows[:150], rows[150:160], rows[160:], skipped=SKIPPED)
    return embeddings, stores.vectors(asked[:4], asked[4:], skipped=[2])


def training(embeddings, **settings):
    return train_stage(
        embeddings, **{"lists": 8, "code_bytes": 4, "train_rows": 300, "seed": 7, **settings}
    )


def built(stores, embeddings, kind):
    """(index, centres)"""
    if kind == "graph":
        return stores.finished(hnsw_stage(embeddings, 8, 40)), None
    centres = stores.finished(training(embeddings))
    return stores.finished(CodesStage(embeddings, centres)), centres


def search(stores, place, kind, depth=9, refine=2, blocks=5, **effort):
    embeddings, queries = place
    index, centres = built(stores, embeddings, kind)
    effort = effort or ({"ef_search": 18} if kind == "graph" else {"probes": 2})
    sides = stores.sides(11)
    stage = AnnSearchStage(
        "near", index, centres, embeddings, queries, sides, depth, refine, **effort
    )
    return stores.finished(stage, Sizing(shard_queries=blocks))


def exact(stores, place, depth):
    parts = stores.finished(PartsStage("near", *place, depth))
    return stores.finished(merge_stage("near", parts, stores.sides(11), depth))


def lines(run):
    return run.whole_table(schema.RUN).to_pylist()


@pytest.mark.parametrize("kind", ["graph", "lists"])
def test_refined_over_all_rows_it_is_exact_search(stores, place, kind):
    assert lines(search(stores, place, kind, refine=60)) == lines(exact(stores, place, 9))


@pytest.mark.parametrize("kind", ["graph", "lists"])
def test_where_stores_are_cut_and_who_computes_does_not_show(stores, arrays, place, kind):
    rows, asked = arrays
    expected = search(stores, place, kind)
    found = lines(expected)
    assert {line["query_row"] for line in found} == set(range(11)) - {2}
    assert not {line["passage_row"] for line in found} & set(SKIPPED)
    assert expected.manifest.records[0].facts["numerics"].startswith("faiss ")
    other = stores.vectors(rows[:3], rows[3:390], rows[390:], skipped=SKIPPED)
    again = other, stores.vectors(asked, skipped=[2])
    assert lines(search(stores, again, kind, blocks=2)) == found
    indexes = [built(stores, one, kind) for one in (place[0], other)]
    opened = [
        opened_graph(index) if centres is None else opened_lists(index, centres, embeddings)
        for (index, centres), embeddings in zip(indexes, (place[0], other), strict=True)
    ]
    assert np.array_equal(*(faiss.serialize_index(index) for index in opened))
    assert opened[0].ntotal == 397


def test_threads_do_not_show_in_any_payload(stores, place):
    embeddings, queries = place
    centres = stores.finished(training(embeddings))
    codes = stores.finished(CodesStage(embeddings, centres))
    sides = stores.sides(11)
    stages = [
        hnsw_stage(embeddings, 8, 40),
        training(embeddings),
        CodesStage(embeddings, centres),
        AnnSearchStage("near", codes, centres, embeddings, queries, sides, 9, 2, probes=2),
    ]
    for stage in stages:
        made = []
        for threads in (1, 3):
            faiss.omp_set_num_threads(threads)
            opened = stage.open(Site(stores.scratch, threads=threads))
            payload = opened.run(stage.shards(Sizing())[0], (), lambda rows: None)
            made.append(payload.path.read_bytes())
        assert made[0] == made[1]


def test_centres_are_trained_on_the_rows_that_the_seed_draws(stores, place, arrays, tmp_path):
    rows = np.delete(arrays[0], SKIPPED, axis=0).astype(np.float32)
    drawn = np.sort(np.random.default_rng(7).permutation(len(rows))[:300])
    centres = stores.finished(training(place[0]))
    (record,) = centres.manifest.records
    by_hand = tmp_path / "centres.faiss"
    write_index(train_ivf_pq(rows[drawn], lists=8, code_bytes=4, seed=7), by_hand)
    assert centres.path(record).read_bytes() == by_hand.read_bytes()


def test_every_setting_and_faiss_are_in_the_fingerprint(stores, place, monkeypatch):
    embeddings, queries = place
    index, sides = stores.finished(hnsw_stage(embeddings, 8, 40)), stores.sides(11)

    def searching(name="near", depth=9, refine=2, **effort):
        found = (name, index, None, embeddings, queries, sides, depth, refine)
        return AnnSearchStage(*found, **effort)

    stages = [
        hnsw_stage(embeddings, 8, 40),
        hnsw_stage(embeddings, 9, 40),
        hnsw_stage(embeddings, 8, 41),
        hnsw_stage(queries, 8, 40),
        training(embeddings),
        training(embeddings, lists=9),
        training(embeddings, code_bytes=2),
        training(embeddings, train_rows=299),
        training(embeddings, seed=8),
        CodesStage(embeddings, index),
        CodesStage(embeddings, queries),
        searching(ef_search=18),
        searching(ef_search=19),
        searching(probes=18),
        searching("other", ef_search=18),
        searching(depth=8, ef_search=18),
        searching(refine=3, ef_search=18),
        recall_stage(index, embeddings, queries, 9, 4),
        recall_stage(index, embeddings, queries, 9, 5),
        recall_stage(index, embeddings, queries, 8, 4),
    ]
    before = [stage.spec.fingerprint() for stage in stages]
    assert len(set(before)) == len(stages)
    for name in ("build", "search"):
        monkeypatch.setattr(f"raypipe.stages.ann.{name}.faiss_version", lambda: "0.0")
    after = [stage.spec.fingerprint() for stage in stages]
    assert [a == b for a, b in zip(before, after, strict=True)] == [False] * 17 + [True] * 3
    assert all(isinstance(stage.spec, StageSpec) for stage in stages)


@pytest.mark.parametrize("depth", [3, 20])
def test_recall_is_the_figure_counted_by_hand(stores, place, arrays, depth):
    rows, asked = arrays
    run = search(stores, place, "lists", depth=depth, probes=1)
    stage = recall_stage(run, *place, depth, 4)
    found = measured(stores.finished(stage))
    left = np.setdiff1d(np.arange(400), SKIPPED)
    products = (asked.astype("f8") @ rows.astype("f8").T).astype("f4")
    expected = {}
    for cutoff in {min(10, depth), depth}:
        shares = []
        for query in (0, 3, 6, 8):  # of 0 1 3 4 5 6 7 8 9 10, each 2.5th
            best = sorted(left, key=lambda row: (-products[query, row], row))[:cutoff]
            own = [line["passage_row"] for line in lines(run) if line["query_row"] == query]
            shares.append(len(set(best) & set(own[:cutoff])) / cutoff)
        expected[cutoff] = sum(shares) / 4
    assert found.queries == 4
    assert found.by_cutoff == pytest.approx(expected)
    assert list(found.by_cutoff) == sorted(expected) and min(expected.values()) < 1


def test_recall_of_exact_search_is_1_and_more_queries_than_there_are_are_all(stores, place):
    stage = recall_stage(exact(stores, place, 9), *place, 9, 1000)
    found = measured(stores.finished(stage))
    assert (found.queries, found.by_cutoff) == (10, {9: 1.0})
    assert json.loads(json.dumps(found.to_json())) == {"queries": 10, "recall": {"9": 1.0}}


@pytest.mark.parametrize("kind", ["graph", "lists"])
@pytest.mark.parametrize("num", [0, 1, 3])
def test_tiny_collections_have_an_index_too(stores, kind, num):
    rows = np.eye(4, 16)[:num]
    place = stores.vectors(rows), stores.vectors(np.eye(11, 16))
    run = search(stores, place, kind)
    found = lines(run)
    assert [line["passage_row"] for line in found if line["query_row"] == 1] == sorted(
        range(num), key=lambda row: (row != 1, row)
    )
    recall = measured(stores.finished(recall_stage(run, *place, 9, 5)))
    assert recall.by_cutoff == ({9: 1.0} if num else {})


def test_heartbeats_go_on_while_a_library_computes(monkeypatch):
    monkeypatch.setattr(module, "BEAT_SECONDS", 0.02)
    beats = []
    assert beating(beats.append, lambda: time.sleep(0.5) or "made") == "made"
    assert 2 <= len(beats) and set(beats) == {()}


def test_an_error_of_the_work_is_the_callers():
    def work():
        raise OSError("full")

    with pytest.raises(OSError, match="full"):
        beating(lambda rows: None, work)
