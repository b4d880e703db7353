"""Scores of older stores, copied for candidates of equal texts; the others are computed."""

import pytest
from stage_inputs import pieces

from raypipe.models.folder.model_folder import resolve_model
from raypipe.models.load import load_scorer
from raypipe.stages.stage import Sizing

BEFORE = ["rank", "query"], ["zebra run", "lease", "a shard", "of"]
AFTER = ["query", "rank", "run"], ["new", "zebra run", "of", "a shard", "zebra run"]
LINES = [(0, 0, -1), (0, 1, -1), (0, 2, -1), (0, 3, -1), (1, 0, -1), (1, 3, -1)]
"""Of rank with every passage, of query with `zebra run` and `of`."""
WANTED = [(0, 0, -1), (0, 1, -1), (0, 2, -1), (0, 3, -1), (1, 1, -1), (1, 3, -1), (2, 1, -1)]
"""Of these, BEFORE has (0, 1), (0, 2), (1, 1) and (1, 3)."""


def computed(model, seen):
    """The texts of what was scored: the first word of the query and the passage."""
    words = {tuple(found): word for word in AFTER[1] for found in pieces(model, [word])}
    firsts = {pieces(model, [word])[0][0]: word for word in AFTER[0]}
    return sorted((firsts[query], words[passage]) for query, passage in seen)


@pytest.mark.parametrize(("shard_tokens", "whole"), [(1, True), (20, False), (1000, True)])
def test_scores_of_equal_texts_are_copied_and_the_others_computed(
    stores, scoring, mono, seen, shard_tokens, whole
):
    sizing = Sizing(shard_tokens=shard_tokens)
    older = stores.finished(scoring.stage(mono, *BEFORE, LINES), Sizing(shard_tokens=20))
    stage = scoring.stage(mono, *AFTER, WANTED, whole=whole)
    expected = stores.finished(stage, sizing)
    seen.clear()
    beats = []
    made = stores.finished(stage.reusing([older]), sizing, beats=beats)
    assert computed(mono, seen) == [("query", "a shard"), ("query", "new"), ("run", "zebra run")]
    assert stores.num_copied == 4
    assert sorted(row for batch in beats for row in batch) == [0, 3, 6]
    assert [r.sha256 for r in made.manifest.records] == [
        r.sha256 for r in expected.manifest.records
    ]


def test_every_older_part_is_copied_from(stores, scoring, mono, seen):
    parts = [stores.finished(scoring.stage(mono, *BEFORE, some)) for some in (LINES[:1], LINES[4:])]
    stage = scoring.stage(mono, *AFTER, WANTED)
    expected = stores.finished(stage).manifest.records[0].sha256
    seen.clear()
    made = stores.finished(stage.reusing(parts))
    assert stores.num_copied == 3 and len(seen) == 4
    assert made.manifest.records[0].sha256 == expected


def test_pairs_are_copied_in_their_order(stores, scoring, tiny_duo, seen):
    model = resolve_model(str(tiny_duo))
    older = stores.finished(scoring.stage(model, *BEFORE, [(0, 0, 3), (0, 3, 2)]))
    stage = scoring.stage(model, *AFTER, [(1, 1, 2), (1, 2, 1), (1, 2, 3), (1, 4, 2)])
    expected = stores.finished(stage).manifest.records[0].sha256
    seen.clear()
    made = stores.finished(stage.reusing([older]))
    assert stores.num_copied == 3 and len(seen) == 1
    assert made.manifest.records[0].sha256 == expected


def test_a_part_whose_stores_are_gone_is_not_copied_from(stores, scoring, mono):
    stage = scoring.stage(mono, *BEFORE, LINES)
    older = stores.finished(stage)
    assert len(stage.reusing([older, older]).older) == 2
    assert stage.reusing([]).older == ()
    hashes = stage.hashes.manifest
    stores.storage.delete(f"{hashes.store}/{hashes.fingerprint}/manifest.json")
    assert stage.reusing([older]).older == ()


@pytest.mark.parametrize("side", ["collection", "queries"])
def test_neither_side_of_an_older_part_may_be_gone(stores, scoring, mono, side):
    stage = scoring.stage(mono, *BEFORE, LINES)
    older = stores.finished(stage)
    gone = getattr(stage.sides, side).manifest
    stores.storage.delete(f"{gone.store}/{gone.fingerprint}/manifest.json")
    assert stage.reusing([older]).older == ()


def test_skipped_candidates_are_not_copied(stores, scoring, mono, seen):
    older = stores.finished(scoring.stage(mono, *BEFORE, LINES), skip=[0])
    stage = scoring.stage(mono, *AFTER, WANTED)
    expected = stores.finished(stage, skip=[5]).manifest.records[0].sha256
    seen.clear()
    made = stores.finished(stage.reusing([older]), skip=[5])
    # Of the four, BEFORE now lacks (rank, zebra run), and (rank, a shard) is skipped now.
    assert stores.num_copied == 2 and ("rank", "zebra run") in computed(mono, seen)
    assert made.manifest.records[0].sha256 == expected


def test_scores_of_another_numerics_class_are_computed(stores, scoring, mono, monkeypatch):
    older = stores.finished(scoring.stage(mono, *BEFORE, LINES))

    def elsewhere(*given, **settings):
        scorer = load_scorer(*given, **settings)
        scorer.numerics = "elsewhere"
        return scorer

    monkeypatch.setattr("raypipe.models.load.load_scorer", elsewhere)
    made = stores.finished(scoring.stage(mono, *AFTER, WANTED).reusing([older]))
    assert stores.num_copied == 0 and made.manifest.numerics == ("elsewhere",)
