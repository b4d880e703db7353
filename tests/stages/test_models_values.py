"""Word pieces, embeddings and scores as stages: which rows, in which shards, without which."""

from types import SimpleNamespace

import numpy as np
import pytest

from raypipe import schema
from raypipe.errors import RowsFailed
from raypipe.models.encoder import load_encoder
from raypipe.models.folder.loading import open_tokenizer, resolve_model
from raypipe.models.scorer import load_scorer
from raypipe.stages.encode import EncodeStage
from raypipe.stages.scoring.candidates import Part
from raypipe.stages.scoring.score import ScoreStage, score_base
from raypipe.stages.scoring.token_rows import PassageTokensStage, TokenRows, passages_of
from raypipe.stages.search import MergeStage, PartsStage
from raypipe.stages.stage import Site, Sizing
from raypipe.stages.texts.tokenize import TokenizeStage
from raypipe.storage.records import Shard
from raypipe.text.pairs import TextSlice as Texts

WORDS = ["the", "a", "of", "lease", "shard", "rank", "query", "passage", "zebra", "run"]


def text(n):
    """n + 1 different words, a piece each."""
    return " ".join(WORDS[(n + i) % 10] for i in range(n + 1))


def shards_of(stored):
    return [(r.shard.start, r.shard.stop) for r in stored.manifest.records]


def pieces(model, texts):
    tokenizer = open_tokenizer(model)
    return [tokenizer.encode(one, add_special_tokens=False).ids for one in texts]


# Tokens


def test_each_row_is_tokenised_once_in_shards_that_leave_no_actor_idle(stores, tiny_model):
    model = resolve_model(str(tiny_model))
    texts = [text(n % 7) for n in range(5)]
    collection = stores.passages(texts[:2], texts[2:])
    stage = TokenizeStage(collection, schema.PASSAGES, model)
    beats = []
    stored = stores.finished(stage, Sizing(num_actors=2), beats=beats)
    assert shards_of(stored) == [(0, 2), (2, 5)] and beats == [[0, 1], [2, 3, 4]]
    assert shards_of(stores.finished(stage, Sizing(shard_rows=2))) == [(0, 1), (1, 3), (3, 5)]
    flat, offsets = stored.tokens(0, 5)
    assert [flat[a:b].tolist() for a, b in zip(offsets, offsets[1:], strict=False)] == pieces(
        model, texts
    )
    assert [r.facts["pieces"] for r in stored.manifest.records] == [3, 3 + 4 + 5]
    prefixed = TokenizeStage(collection, schema.PASSAGES, model, prefix="query ")
    assert prefixed.spec.fingerprint() != stage.spec.fingerprint()
    flat, offsets = stores.finished(prefixed).tokens(1, 2)
    assert flat.tolist() == pieces(model, ["query " + texts[1]])[0]


def test_no_rows_are_one_shard_without_pieces(stores, tiny_model):
    stage = TokenizeStage(stores.passages([]), schema.PASSAGES, resolve_model(str(tiny_model)))
    stored = stores.finished(stage)
    assert shards_of(stored) == [(0, 0)] and stored.manifest.records[0].facts["pieces"] == 0


def test_scattered_rows_of_mapped_shards_come_in_the_order_asked(stores):
    rows = [[1, 2, 3], [], [4], [5, 6], [7], [8, 9]]
    tokens = TokenRows(stores.tokens(rows[:2], rows[2:3], rows[3:]))
    asked = [5, 0, 3, 2, 1, 0]
    part = tokens.part(np.array(asked))
    found = [
        part.flat[start : start + count].tolist()
        for start, count in zip(part.starts, part.counts, strict=True)
    ]
    assert found == [rows[row] for row in asked]
    assert tokens.part(np.array([4])).counts.tolist() == [1]
    none = tokens.part(np.empty(0, np.int64))
    assert len(none.flat) == len(none.starts) == len(none.counts) == 0


def candidates_of(stores, *lines):
    columns = [[line[i] for line in lines] for i in range(3)]
    return Part(
        stores.tables(schema.CANDIDATES, columns, ranges=[(0, 1)], facts=[{"rows": len(lines)}]),
        None,
    )


def test_only_passages_that_candidates_name_are_tokenised_in_row_order(stores, tiny_mono):
    model = resolve_model(str(tiny_mono))
    texts = [text(n) for n in range(6)]
    collection = stores.passages(texts[:3], texts[3:])
    part = candidates_of(stores, (0, 5, -1), (0, 1, -1), (1, 5, -1), (1, 3, -1))
    assert passages_of(part).tolist() == [1, 3, 5]
    assert passages_of(candidates_of(stores, (0, 4, 2), (0, 2, 4))).tolist() == [2, 4]
    beats = []
    stage = PassageTokensStage(collection, part, model)
    stored = stores.finished(stage, Sizing(num_actors=2), beats=beats)
    assert shards_of(stored) == [(0, 1), (1, 3)] and beats == [[0], [1, 2]]
    flat, offsets = stored.tokens(0, 3)
    assert [flat[a:b].tolist() for a, b in zip(offsets, offsets[1:], strict=False)] == pieces(
        model, [texts[1], texts[3], texts[5]]
    )
    other = PassageTokensStage(collection, candidates_of(stores, (0, 4, -1)), model)
    assert other.spec.fingerprint() != stage.spec.fingerprint()
    nothing = stores.finished(PassageTokensStage(collection, candidates_of(stores), model))
    assert shards_of(nothing) == [(0, 0)] and nothing.manifest.records[0].facts["pieces"] == 0


# Embeddings


@pytest.fixture
def encoded(stores, tiny_model):
    """(model, its tokens in two shards: rows of 1, 2, ... pieces)."""
    model = resolve_model(str(tiny_model))
    rows = pieces(model, [text(n) for n in range(6)])
    return model, rows, stores.tokens(rows[:4], rows[4:])


def alone(model, rows, side):
    encoder = load_encoder(model)
    found = []
    for row in rows:
        flat, offsets = np.array(row, np.uint16), np.array([0, len(row)])
        found.append(encoder.encode(flat, offsets, side=side)[0].astype(np.float16))
    return np.stack(found)


def vectors_of(stored):
    return np.concatenate([stored.vectors(record) for record in stored.manifest.records])


@pytest.mark.parametrize("side", ["passage", "query"])
def test_embeddings_are_those_of_each_row_alone_in_shards_by_tokens(stores, encoded, side):
    model, rows, tokens = encoded
    stage = EncodeStage(tokens, model, side)
    # 1 + 2 + ... + 6 pieces and 12 specials are 33 tokens: 3 shards of at most 11 or 2 rows.
    stored = stores.finished(stage, Sizing(shard_tokens=11))
    assert shards_of(stored) == [(0, 2), (2, 4), (4, 6)]
    for tokens_of_shard, num_shards in ((33, 1), (32, 2), (17, 2), (16, 3), (7, 3), (6, 6), (1, 6)):
        assert len(stage.shards(Sizing(shard_tokens=tokens_of_shard))) == num_shards
    assert vectors_of(stored).tobytes() == alone(model, rows, side).tobytes()
    assert [r.facts["rows"] for r in stored.manifest.records] == [2, 2, 2]


def test_sides_have_stores_of_their_own(stores, encoded):
    model, _, tokens = encoded
    names = {EncodeStage(tokens, model, side).spec.fingerprint() for side in ("passage", "query")}
    assert len(names) == 2


def test_rows_to_skip_are_zeros_and_the_others_stay_as_they_are(stores, encoded):
    model, rows, tokens = encoded
    beats = []
    stored = stores.finished(EncodeStage(tokens, model, "passage"), skip=[1, 4], beats=beats)
    expected = alone(model, rows, "passage")
    expected[[1, 4]] = 0
    assert vectors_of(stored).tobytes() == expected.tobytes()
    assert sorted(row for batch in beats for row in batch) == [0, 2, 3, 5]


def test_vectors_beyond_fp16_or_not_finite_are_told_by_their_rows(stores, encoded):
    model, _, tokens = encoded
    stage = EncodeStage(tokens, model, "passage")
    site = Site(stores.scratch)
    stage.open(site)
    shard = stage.shards(Sizing(shard_tokens=11))[1]
    real = stage._encoder

    class Bad:
        def encode(self, flat, offsets, **settings):
            vectors = real.encode(flat, offsets, **settings)
            vectors[1, 0] = self.value
            if not np.isfinite(self.value):
                raise RowsFailed([1], "not finite")
            return vectors

    bad = stage._encoder = Bad()
    for bad.value, said in ((70_000.0, "fp16"), (np.inf, "not finite")):
        with pytest.raises(RowsFailed, match=said) as failed:
            stage.run(shard, (), lambda rows: None)
        assert list(failed.value.rows) == [3]
        with pytest.raises(RowsFailed, match=said) as failed:
            stage.run(Shard(0, 1, 5), (1,), lambda rows: None)
        assert list(failed.value.rows) == [3]


# Search


def dot(queries, vectors):
    return np.asarray(queries, np.float64) @ np.asarray(vectors, np.float64).T


@pytest.mark.parametrize("actors", [1, 2, 9])
@pytest.mark.parametrize("block", [1, 2, 9])
def test_spans_and_query_blocks_do_not_show_in_the_run(stores, actors, block):
    rng = np.random.default_rng(1)
    arrays = [rng.integers(-3, 4, (n, 4)) for n in (3, 1, 4, 2)]
    asked = [rng.integers(-3, 4, (n, 4)) for n in (2, 3)]
    without = {2, 5}
    embeddings = stores.vectors(*arrays, skipped=sorted(without))
    queries = stores.vectors(*asked, skipped=[1])
    sizing = Sizing(num_actors=actors, shard_queries=block)
    parts = stores.finished(PartsStage("dense", embeddings, queries, 3), sizing)
    run = stores.finished(MergeStage("dense", parts, 5, 3), sizing).whole_table(schema.RUN)
    products = dot(np.concatenate(asked), np.concatenate(arrays))
    expected = []
    for query in (0, 2, 3, 4):
        order = sorted(set(range(10)) - without, key=lambda row: (-products[query, row], row))[:3]
        expected += [(query, row, rank, products[query, row]) for rank, row in enumerate(order, 1)]
    found = [tuple(line.values())[:4] for line in run.to_pylist()]
    assert found == expected and set(run["scored_by"].to_pylist()) == {"dense"}


def test_a_search_has_a_shard_for_each_span_and_block(stores):
    embeddings = stores.vectors(*[np.ones((1, 2))] * 5)
    queries = stores.vectors(np.ones((4, 2)))
    stage = PartsStage("dense", embeddings, queries, 3)
    assert stage.shards(Sizing(num_actors=1, shard_queries=2)) == [
        Shard(0, 0, 2, 0, 3), Shard(1, 2, 4, 0, 3), Shard(2, 0, 2, 3, 5), Shard(3, 2, 4, 3, 5),
    ]  # fmt: skip
    names = {
        stage.spec.fingerprint(),
        PartsStage("dense", embeddings, queries, 4).spec.fingerprint(),
        PartsStage("other", embeddings, queries, 3).spec.fingerprint(),
        PartsStage("dense", queries, queries, 3).spec.fingerprint(),
    }
    assert len(names) == 4
    merged = {MergeStage("dense", queries, 4, depth).spec.fingerprint() for depth in (3, 4)}
    assert len(merged) == 2


# Scores


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
        assert stage.open(site)["numerics"] == "class"
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


def test_passages_that_candidates_name_get_the_passages_prefix(stores, tiny, tmp_path):
    folder = tiny.make_tiny_reranker(tmp_path / "m", passage_prefix="zebra ", query_prefix="run ")
    model = resolve_model(str(folder))
    stage = PassageTokensStage(
        stores.passages(["a", "rank"]), candidates_of(stores, (0, 1, -1)), model
    )
    flat, _ = stores.finished(stage).tokens(0, 1)
    assert flat.tolist() == pieces(model, ["zebra rank"])[0]
