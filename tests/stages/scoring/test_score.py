"""Scores of candidates, each computed for its texts alone, and only once."""

from types import SimpleNamespace

import numpy as np
import pytest
from stage_inputs import candidates_of, pieces, text

from raypipe import schema
from raypipe.errors import RowsFailed
from raypipe.models.folder.loading import resolve_model
from raypipe.models.scorer import Scorer, load_scorer
from raypipe.stages.encode import EncodeStage
from raypipe.stages.query_blocks import Sides
from raypipe.stages.scoring.score import ScoreStage, score_base, score_spec
from raypipe.stages.stage import Site, Sizing
from raypipe.storage.records import Shard
from raypipe.text.pairs import TextSlice as Texts


class Scoring:
    """Stages over given texts and candidates (query, passage, other passage or -1)."""

    def __init__(self, stores):
        self.stores = stores

    def stage(self, model, queries, passages, lines, *, whole=True, **settings):
        """whole: all passages have word pieces, not only those of the candidates."""
        collection, asked = self.stores.passages(passages), self.stores.queries(*queries)
        named = sorted({row for line in lines for row in line[1:] if row >= 0})
        held = passages if whole else [passages[row] for row in named]
        return ScoreStage(
            score_base(model, collection, asked),
            candidates_of(self.stores, *lines),
            model,
            self.stores.tokens(pieces(model, queries)),
            self.stores.tokens(pieces(model, held)),
            whole,
            Sides(asked, collection),
            self.stores.hashes(collection),
            **settings,
        )

    def scores(self, *given, sizing=None, **settings):
        stored = self.stores.finished(self.stage(*given, **settings), sizing)
        return stored.whole_table(schema.SCORES)["score"].to_pylist()


@pytest.fixture
def scoring(stores):
    return Scoring(stores)


@pytest.fixture
def mono(tiny_mono):
    return resolve_model(str(tiny_mono))


@pytest.fixture
def seen(monkeypatch):
    """The first word piece of each scored query with all pieces of its passages."""
    found, score = [], Scorer.score

    def scored(scorer, queries, passages, **settings):
        for number in range(len(queries.starts)):
            sides = [of_input(side, number) for side in (queries, *passages)]
            found.append((sides[0][0], *map(tuple, sides[1:])))
        return score(scorer, queries, passages, **settings)

    monkeypatch.setattr(Scorer, "score", scored)
    return found


def of_input(side, number):
    start = side.starts[number]
    return side.flat[start : start + side.counts[number]].tolist()


def direct(model, query_rows, passage_rows):
    """Scores of inputs one by one, from lists of pieces."""

    def texts(rows):
        counts = np.array([len(row) for row in rows])
        flat = np.array([piece for row in rows for piece in row], np.uint16)
        return Texts(flat, np.cumsum(counts) - counts, counts)

    scorer = load_scorer(model)
    return [
        scorer.score(texts([query]), [texts([passage]) for passage in passages])[0]
        for query, passages in zip(query_rows, passage_rows, strict=True)
    ]


@pytest.mark.parametrize("whole", [True, False])
def test_scores_are_those_of_each_candidate_alone(stores, scoring, mono, whole):
    asked, texts = ["zebra run", "rank"], [text(n) for n in range(6)]
    queries, passages = pieces(mono, asked), pieces(mono, texts)
    lines = [(0, 1, -1), (0, 3, -1), (1, 1, -1), (1, 5, -1)]
    stage = scoring.stage(mono, asked, texts, lines, whole=whole)
    stored = stores.finished(stage, Sizing(shard_tokens=20))
    table = stored.whole_table(schema.SCORES)
    assert [tuple(line.values())[:3] for line in table.to_pylist()] == lines
    expected = direct(
        mono, [queries[q] for q, _, _ in lines], [[passages[row]] for _, row, _ in lines]
    )
    assert table["score"].to_pylist() == expected and stores.num_copied == 0
    beats = []
    some = stores.finished(stage, skip=[2], beats=beats)
    assert some.whole_table(schema.SCORES)["score"].to_pylist() == [*expected[:2], expected[3]]
    facts = some.manifest.records[0].facts
    assert (facts["rows"], facts["first_query"], facts["last_query"]) == (3, 0, 1)
    assert sorted(row for batch in beats for row in batch) == [0, 1, 3]
    none = stores.finished(stage, skip=[0, 1, 2, 3]).manifest.records[0].facts
    assert (none["rows"], none["first_query"], none["last_query"]) == (0, -1, -1)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_model_is_opened_on_the_threads_and_device_of_its_place(
    stores, scoring, mono, tiny_model, tmp_path, monkeypatch, threads
):
    asked = []

    def opened(model, **settings):
        asked.append(settings)
        return SimpleNamespace(numerics="class")

    monkeypatch.setattr("raypipe.stages.encode.load_encoder", opened)
    monkeypatch.setattr("raypipe.stages.scoring.score.load_scorer", opened)
    model = resolve_model(str(tiny_model))
    site = Site(tmp_path, "cuda", threads)
    for stage in (
        EncodeStage(stores.tokens([[5]]), model, "passage", 77),
        scoring.stage(mono, ["rank"], ["a", "run"], [(0, 1, -1)], budget_tokens=77),
    ):
        assert stage.open(site).facts["numerics"] == "class"
        assert stage.skips_rows
    assert asked == [{"device": "cuda", "threads": threads, "budget_tokens": 77}] * 2


def test_a_duo_scores_its_first_passage_against_its_second(scoring, tiny_duo):
    model = resolve_model(str(tiny_duo))
    texts = [text(n) for n in range(4)]
    found = scoring.scores(model, ["zebra run"], texts, [(0, 1, 3), (0, 3, 1)])
    first, second = pieces(model, [texts[1], texts[3]])
    queries = pieces(model, ["zebra run"])
    assert found == direct(model, queries * 2, [[first, second], [second, first]])
    assert found[0] != found[1]


def test_shards_of_scores_hold_about_so_many_tokens(scoring, mono, tiny_duo):
    lines = [(0, row, -1) for row in range(10)]
    texts = [text(2), text(4)] * 5
    duo = resolve_model(str(tiny_duo))

    def counts(model, tokens, texts=texts):
        stage = scoring.stage(model, [text(3)], texts, lines)
        return [shard.num_rows for shard in stage.shards(Sizing(shard_tokens=tokens))]

    # mono: [CLS] 4 [SEP] 4 [SEP] is 11 tokens; duo: 16.
    assert counts(mono, 55) == [5, 5] and counts(mono, 54) == [3, 3, 4]
    assert counts(mono, 1) == [1] * 10 and counts(mono, 110) == [10]
    assert counts(duo, 80) == [5, 5] and counts(duo, 79) == [3, 3, 4]
    # No input has more than the model's 64 tokens.
    assert counts(mono, 320, [text(89)] * 10) == [5, 5]


def test_what_names_a_score_is_its_model_collection_queries_and_candidates(stores, mono, tiny_duo):
    duo = resolve_model(str(tiny_duo))
    one, two = stores.passages(["a"]), stores.passages(["b"])
    asked, other = stores.queries("x"), stores.queries("y")
    bases = [score_base(mono, one, asked), score_base(duo, one, asked)]
    bases += [score_base(mono, two, asked), score_base(mono, one, other)]
    assert len({base.fingerprint() for base in bases}) == 4
    parts = [candidates_of(stores, (0, 1, -1)), candidates_of(stores, (0, 2, -1))]
    specs = [score_spec(base, part) for base in bases for part in parts]
    assert len({spec.fingerprint() for spec in specs}) == 8
    told = [change.field for change in specs[0].diff(specs[4])]
    assert told == ["params.base.inputs.collection"]
    assert specs[0].inputs["candidates.rows"] == parts[0].sha256
    assert specs[0].origins.keys() == {"candidates", "collection", "queries"}
    # Only another model is another setting.
    assert [spec.reuse_key == specs[0].reuse_key for spec in specs[::2]] == [
        True,
        False,
        True,
        True,
    ]


def test_candidates_of_equal_texts_are_scored_once_for_each_query(scoring, mono, seen):
    texts, asked = ["zebra run", "lease", "zebra run", "a"], ["rank", "rank", "query"]
    lines = [(0, 0, -1), (0, 1, -1), (0, 2, -1), (1, 2, -1), (2, 0, -1), (2, 2, -1)]
    found = scoring.scores(mono, asked, texts, lines)
    assert len(seen) == 4  # (0, 0), (0, 1), (1, 2), (2, 0)
    assert found[0] == found[2] == found[3] and found[4] == found[5]
    queries, passages = pieces(mono, asked), pieces(mono, texts)
    assert found == direct(
        mono, [queries[q] for q, _, _ in lines], [[passages[row]] for _, row, _ in lines]
    )


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

    monkeypatch.setattr("raypipe.stages.scoring.score.load_scorer", elsewhere)
    made = stores.finished(scoring.stage(mono, *AFTER, WANTED).reusing([older]))
    assert stores.num_copied == 0 and made.manifest.numerics == ("elsewhere",)


def test_scores_that_are_not_finite_are_told_by_all_candidates_of_their_texts(
    stores, scoring, mono, monkeypatch
):
    texts = ["zebra run", "lease", "zebra run"]
    stage = scoring.stage(mono, ["rank"], texts, [(0, 1, -1), (0, 0, -1), (0, 1, -1), (0, 2, -1)])
    score = Scorer.score

    def bad(*given, **settings):
        scores = score(*given, **settings)
        scores[1] = np.inf
        return scores

    monkeypatch.setattr(Scorer, "score", bad)
    opened = stage.open(Site(stores.scratch))
    for shard, skip, rows in ((Shard(0, 0, 4), (), [1, 3]), (Shard(0, 0, 4), (1,), [3])):
        with pytest.raises(RowsFailed, match="not finite") as failed:
            opened.run(shard, skip, lambda rows: None)
        assert list(failed.value.rows) == rows
    with pytest.raises(RowsFailed) as failed:
        opened.run(Shard(0, 1, 4), (), lambda rows: None)  # zebra run, lease, zebra run
    assert list(failed.value.rows) == [2]
