"""Tables of scores: what of a request is found, in quarantine or missing, over several parts."""

import numpy as np
import pyarrow as pa
import pytest

from raypipe import schema
from raypipe.errors import IncompleteError
from raypipe.stages.run_tables import run_table
from raypipe.stages.scoring.candidates import CandidatesStage, Part, find_scores, keys_of
from raypipe.stages.scoring.requests import Request
from raypipe.stages.stage import Site
from raypipe.storage.ledger import Ledger
from raypipe.storage.payloads import read_table, write_table
from raypipe.storage.posix import PosixStorage
from raypipe.storage.records import Shard
from raypipe.storage.spec import StageSpec
from raypipe.storage.store import Stored

BASE = StageSpec("scores", 1)


def published(tmp_path, store, columns, *tables, facts=()):
    """A store with these tables as shards."""
    edges = np.cumsum([0, *map(len, tables)]).tolist()
    shards = [Shard(i, edges[i], edges[i + 1]) for i in range(len(tables))]
    ledger = Ledger(PosixStorage(tmp_path), store, StageSpec("toy", 1), shards)
    for shard, table, told in zip(shards, tables, facts or [{}] * len(tables), strict=True):
        path = ledger.storage.scratch() / "payload"
        write_table(path, columns, [table])
        ledger.commit(shard, path, {"rows": len(table), **told})
    return Stored(ledger.storage, ledger.publish(max_failed_rows=99))


def part_of(tmp_path, number, keys, scores, cut, skipped=()):
    """A part of mono candidates (query, passage), its scores in two shards cut at a candidate;
    those of `skipped` are in quarantine."""
    lone = [-1] * len(keys)
    queries, passages = ([key[side] for key in keys] for side in (0, 1))
    candidates = pa.table([queries, passages, lone], schema=schema.CANDIDATES)
    tables, facts = [], []
    for start, stop in ((0, cut), (cut, len(keys))):
        kept = [place for place in range(start, stop) if place not in skipped]
        rows = [queries[place] for place in kept]
        columns = [rows, [passages[place] for place in kept], [-1] * len(kept)]
        tables.append(pa.table([*columns, [scores[p] for p in kept]], schema=schema.SCORES))
        failed = [place for place in range(start, stop) if place in skipped]
        facts.append({"first_query": rows[0], "last_query": rows[-1], "skipped_rows": failed})
    return Part(
        published(tmp_path, f"candidates.{number}", schema.CANDIDATES, candidates),
        published(tmp_path, f"scores.{number}", schema.SCORES, *tables, facts=facts),
    )


@pytest.fixture
def parts(tmp_path):
    first = [(0, 5), (0, 9), (1, 5), (2, 7)]
    second = [(0, 6), (3, 5), (3, 6)]
    return (
        part_of(tmp_path, 1, first, [0.5, 0.25, 0.75, 1.0], cut=2, skipped=(1,)),
        part_of(tmp_path, 2, second, [-1.0, -2.0, -3.0], cut=1),
    )


def keys(*pairs):
    queries, passages = (np.array([pair[side] for pair in pairs], np.int64) for side in (0, 1))
    return queries, passages, np.full(len(pairs), -1, np.int64)


def test_scores_come_from_whichever_part_has_them_and_quarantine_is_told(parts):
    wanted = keys((0, 6), (0, 9), (0, 5), (3, 6), (2, 7), (1, 5), (3, 5))
    scores, failed = find_scores(parts, wanted, (0, 4), what="mono")
    np.testing.assert_array_equal(scores, np.array([-1, np.nan, 0.5, -3, 1, 0.75, -2], "f4"))
    assert failed.tolist() == [False, True, False, False, False, False, False]


@pytest.mark.parametrize("block", [(0, 1), (1, 2), (2, 3), (3, 4), (1, 4)])
def test_a_block_of_queries_finds_all_of_its_own(parts, block):
    own = [k for k in ((0, 5), (0, 6), (1, 5), (2, 7), (3, 5), (3, 6)) if k[0] in range(*block)]
    scores, failed = find_scores(parts, keys(*own), block, what="mono")
    assert np.isfinite(scores).all() and not failed.any()


def test_candidates_without_a_score_are_counted_and_never_made_up(parts):
    wanted = keys((0, 5), (0, 9), (0, 7), (5, 5))
    with pytest.raises(IncompleteError, match="mono: 2 of 4 candidates have no score"):
        find_scores(parts, wanted, (0, 6), what="mono")
    with pytest.raises(IncompleteError, match="1 of 1"):
        find_scores((), keys((0, 5)), (0, 1), what="mono")


def run_store(tmp_path):
    queries = np.array([0, 0, 0, 1, 1, 3, 3, 3], np.int32)
    rows = np.array([9, 5, 6, 5, 8, 6, 5, 4])
    table = run_table(queries, rows, np.zeros(8, np.float32), scored_by="x")
    return published(tmp_path, "run", schema.RUN, table)


@pytest.mark.parametrize("num_parts", [0, 1, 2])
def test_a_new_part_has_what_no_earlier_one_has_scored_or_given_up(parts, tmp_path, num_parts):
    run = run_store(tmp_path)
    held = parts[:num_parts]
    stage = CandidatesStage(BASE, 1 + num_parts, run, Request(k0=2), held)
    opened = stage.open(Site(PosixStorage(tmp_path).scratch()))
    payload = opened.run(Shard(0, 0, 1), (), lambda rows: None)
    found = keys_of(read_table(payload.path, schema.CANDIDATES))
    done = [set(), {(0, 5), (0, 9), (1, 5)}, {(0, 5), (0, 9), (1, 5), (3, 5), (3, 6)}]
    wanted = {(0, 5), (0, 9), (1, 5), (1, 8), (3, 5), (3, 6)}  # the first two of each query
    expected = sorted(wanted - done[num_parts])
    assert list(zip(found[0].tolist(), found[1].tolist(), strict=True)) == expected
    assert payload.facts["wanted"] == 6 and payload.facts["rows"] == len(expected)


def test_a_request_is_named_by_its_numbers_and_by_a_seed_only_where_it_draws(tmp_path):
    run = run_store(tmp_path)
    asked = [
        Request(k0=2),
        Request(k0=3),
        Request(k1=3),
        Request(k1=3, sample=1),
        Request(k1=3, sample=2),
        Request(k1=3, sample=1, seed=1),
    ]
    assert len({request.digest(run) for request in asked}) == 6
    assert Request(k0=2, seed=7).digest(run) == Request(k0=2).digest(run)


def test_a_score_of_a_later_part_ends_a_quarantine(parts, tmp_path):
    later = part_of(tmp_path, 3, [(0, 9), (1, 9)], [4.0, 5.0], cut=1)
    scores, failed = find_scores((*parts, later), keys((0, 9), (0, 5)), (0, 1), what="mono")
    assert scores.tolist() == [4.0, 0.5] and failed.tolist() == [False, False]
