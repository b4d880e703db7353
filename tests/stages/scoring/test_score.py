"""Scores of candidates, each computed for its texts alone, and only once."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from given_scores import Given
from stage_inputs import pieces, text

from raypipe import schema
from raypipe.errors import RowsFailed
from raypipe.models.folder.model_folder import resolve_model
from raypipe.models.load import load_scorer
from raypipe.models.scorer import Scorer
from raypipe.stages.encode import EncodeStage
from raypipe.stages.scoring.score import score_base
from raypipe.stages.stage import Site, Sizing
from raypipe.storage.records import Shard
from raypipe.text.inputs import TextSlice as Texts


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

    monkeypatch.setattr("raypipe.models.load.load_encoder", opened)
    monkeypatch.setattr("raypipe.models.load.load_scorer", opened)
    model = resolve_model(str(tiny_model))
    site = Site(tmp_path, "cuda", threads)
    for stage in (
        EncodeStage(stores.tokens([[5]]), model, "passage", 77),
        scoring.stage(mono, ["rank"], ["a", "run"], [(0, 1, -1)], budget_tokens=77),
    ):
        assert stage.open(site).facts["numerics"] == "class"
        assert stage.skips_rows
    given = {"device": "cuda", "threads": threads, "budget_tokens": 77}
    assert asked == [{**given, "side": "passage"}, given]


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


def test_what_names_a_score_is_its_model_collection_queries_and_candidates(
    stores, scoring, mono, tiny_duo
):
    duo = resolve_model(str(tiny_duo))
    one, two = stores.passages(["a"]), stores.passages(["b"])
    asked, other = stores.queries("x"), stores.queries("y")
    bases = [score_base(mono, one, asked), score_base(duo, one, asked)]
    bases += [score_base(mono, two, asked), score_base(mono, one, other)]
    assert len({base.fingerprint() for base in bases}) == 4
    both = [Given((0, 1, -1)), Given((0, 2, -1))]
    stages = [
        replace(scoring.stage(mono, ["x"], ["a"], []), base=base, candidates=candidates)
        for base in bases
        for candidates in both
    ]
    specs = [stage.spec for stage in stages]
    assert len({spec.fingerprint() for spec in specs}) == 8
    told = [change.field for change in specs[0].diff(specs[4])]
    assert told == ["params.base.inputs.collection"]
    assert specs[0].origins.keys() == {"collection", "queries"}
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
