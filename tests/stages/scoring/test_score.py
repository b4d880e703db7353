from types import SimpleNamespace

import numpy as np
import pytest
from stage_inputs import candidates_of, pieces, text

from raypipe import schema
from raypipe.models.folder.loading import resolve_model
from raypipe.models.scorer import load_scorer
from raypipe.stages.encode import EncodeStage
from raypipe.stages.scoring.score import ScoreStage, score_base
from raypipe.stages.stage import Site, Sizing
from raypipe.text.pairs import TextSlice as Texts


@pytest.fixture
def encoded(stores, tiny_model):
    """(model, its tokens in two shards: rows of 1, 2, ... pieces)."""
    model = resolve_model(str(tiny_model))
    rows = pieces(model, [text(n) for n in range(6)])
    return model, rows, stores.tokens(rows[:4], rows[4:])


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
def test_scores_are_those_of_each_candidate_alone(stores, tiny_mono, whole):
    model = resolve_model(str(tiny_mono))
    queries = pieces(model, ["zebra run", "rank"])
    passages = pieces(model, [text(n) for n in range(6)])
    lines = [(0, 1, -1), (0, 3, -1), (1, 1, -1), (1, 5, -1)]
    part = candidates_of(stores, *lines)
    held = passages if whole else [passages[row] for row in (1, 3, 5)]
    stage = ScoreStage(
        score_base(model, stores.passages([]), stores.queries()),
        part,
        model,
        stores.tokens(queries),
        stores.tokens(held),
        whole,
    )
    stored = stores.finished(stage, Sizing(shard_tokens=20))
    table = stored.whole_table(schema.SCORES)
    assert [tuple(line.values())[:3] for line in table.to_pylist()] == lines
    expected = direct(
        model, [queries[q] for q, _, _ in lines], [[passages[row]] for _, row, _ in lines]
    )
    assert table["score"].to_pylist() == expected
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
    stores, encoded, tiny_mono, tmp_path, monkeypatch, threads
):
    asked = []

    def opened(model, **settings):
        asked.append(settings)
        return SimpleNamespace(numerics="class")

    monkeypatch.setattr("raypipe.stages.encode.load_encoder", opened)
    monkeypatch.setattr("raypipe.stages.scoring.score.load_scorer", opened)
    model, _, tokens = encoded
    mono = resolve_model(str(tiny_mono))
    base = score_base(mono, stores.passages([]), stores.queries())
    pairs = candidates_of(stores, (0, 1, -1))
    site = Site(tmp_path, "cuda", threads)
    for stage in (
        EncodeStage(tokens, model, "passage", 77),
        ScoreStage(base, pairs, mono, tokens, tokens, True, 77),
    ):
        assert stage.open(site).facts["numerics"] == "class"
        assert stage.skips_rows
    assert asked == [{"device": "cuda", "threads": threads, "budget_tokens": 77}] * 2


def test_a_duo_scores_its_first_passage_against_its_second(stores, tiny_duo):
    model = resolve_model(str(tiny_duo))
    queries, passages = pieces(model, ["zebra run"]), pieces(model, [text(n) for n in range(4)])
    part = candidates_of(stores, (0, 1, 3), (0, 3, 1))
    stage = ScoreStage(
        score_base(model, stores.passages([]), stores.queries()),
        part,
        model,
        stores.tokens(queries),
        stores.tokens(passages),
        True,
    )
    found = stores.finished(stage).whole_table(schema.SCORES)["score"].to_pylist()
    first, second = passages[1], passages[3]
    assert found == direct(model, queries * 2, [[first, second], [second, first]])
    assert found[0] != found[1]


def test_shards_of_scores_hold_about_so_many_tokens(stores, tiny_mono, tiny_duo):
    lines = [(0, row, -1) for row in range(10)]
    part = candidates_of(stores, *lines)
    queries, passages = stores.tokens([[1] * 4]), stores.tokens([[1] * 3, [1] * 5])
    base = score_base(resolve_model(str(tiny_mono)), stores.passages([]), stores.queries())

    def counts(folder, tokens):
        stage = ScoreStage(base, part, resolve_model(str(folder)), queries, passages, True)
        return [shard.num_rows for shard in stage.shards(Sizing(shard_tokens=tokens))]

    # mono: [CLS] 4 [SEP] 4 [SEP] is 11 tokens; duo: 16.
    assert counts(tiny_mono, 55) == [5, 5] and counts(tiny_mono, 54) == [3, 3, 4]
    assert counts(tiny_mono, 1) == [1] * 10 and counts(tiny_mono, 110) == [10]
    assert counts(tiny_duo, 80) == [5, 5] and counts(tiny_duo, 79) == [3, 3, 4]
    long = ScoreStage(
        base, part, resolve_model(str(tiny_mono)), queries, stores.tokens([[1] * 90]), True
    )
    # No input has more than the model's 64 tokens.
    assert [s.num_rows for s in long.shards(Sizing(shard_tokens=320))] == [5, 5]


def test_what_names_a_score_is_its_model_collection_queries_and_candidates(
    stores, tiny_mono, tiny_duo
):
    mono, duo = resolve_model(str(tiny_mono)), resolve_model(str(tiny_duo))
    one, two = stores.passages(["a"]), stores.passages(["b"])
    asked, other = stores.queries("x"), stores.queries("y")
    bases = [score_base(mono, one, asked), score_base(duo, one, asked)]
    bases += [score_base(mono, two, asked), score_base(mono, one, other)]
    assert len({base.fingerprint() for base in bases}) == 4
    parts = [candidates_of(stores, (0, 1, -1)), candidates_of(stores, (0, 2, -1))]
    tokens = stores.tokens([[1]])
    stages = [
        ScoreStage(base, part, mono, tokens, tokens, True) for base in bases for part in parts
    ]
    assert len({stage.spec.fingerprint() for stage in stages}) == 8
    told = [change.field for change in stages[0].spec.diff(stages[4].spec)]
    assert told == ["params.base.inputs.collection"]
