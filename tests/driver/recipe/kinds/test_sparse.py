"""Learned sparse retrieval in a recipe: exact, the same however it is divided, reused, exported."""

import json
import os
import shutil
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from plain_stores import PlainStores
from sparse_models import make_routed, make_splade, save_table
from stage_inputs import parts_of

import raypipe
from raypipe.cli.main import run as command
from raypipe.config.load import load_recipe
from raypipe.driver.execute import Watcher
from raypipe.driver.forecast.plan import make_plan
from raypipe.driver.pipeline import Options, run_pipeline
from raypipe.driver.recipe.graph import Graph
from raypipe.driver.upkeep.export import export
from raypipe.driver.upkeep.status import open_workspace
from raypipe.driver.upkeep.verify import verify
from raypipe.errors import InputError, RowsFailed
from raypipe.models.folder.model_folder import open_tokenizer, resolve_model
from raypipe.models.load import load_encoder
from raypipe.stages import sparse
from raypipe.stages.sparse import matrix, packed, unpacked
from raypipe.storage.records import Shard

RECIPE = """
format: 1
name: words
collection: {{format: msmarco-v1, input: {files}/passages.tsv}}
queries: {{test: {{file: {files}/queries.tsv, qrels: {files}/qrels.txt}}}}
models: {{splade: {{path: {model}{more}}}}}
stages:
  weights: {{do: encode, model: splade}}
  splade: {{do: search, index: weights, depth: 20}}
evaluate: {{measures: ["nDCG@10"]}}
resources: {{backend: inline, device: cpu, shard_tokens: {tokens}, shard_queries: {queries}}}
"""
NUM_PASSAGES = 60
WORDS = "lease shard rank query passage score merge model token batch depth index".split()


def made(rng, number):
    return [" ".join(rng.choice(WORDS, rng.integers(1, 7))) for _ in range(number)]


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """The recipe, and the texts of its passages and queries."""
    files, rng = tmp_path_factory.mktemp("files"), np.random.default_rng(1)
    passages, queries = made(rng, NUM_PASSAGES), made(rng, 15)
    model = make_splade(tmp_path_factory.mktemp("models") / "splade")

    def write(name, texts):
        lines = (f"{name[0]}{i}\t{text}\n" for i, text in enumerate(texts))
        (files / f"{name}.tsv").write_text("".join(lines))

    write("passages", passages)
    write("queries", queries)
    (files / "qrels.txt").write_text("".join(f"q{i} 0 p{i} 1\n" for i in range(15)))

    def recipe(tokens=400, queries=4, more="", stage="", **changed):
        text = RECIPE.format(files=files, model=model, tokens=tokens, queries=queries, more=more)
        text = text.replace("\nevaluate", f"{stage}\nevaluate")
        return load_recipe(text, overrides=[f"{key}={value}" for key, value in changed.items()])

    return recipe, model, passages, queries, write


def impacts_of(model, texts, side, scale=100):
    """[N, V], whole numbers."""
    model = resolve_model(str(model))
    (text,) = parts_of(model, texts)
    offsets = np.concatenate([[0], np.cumsum(text.counts)])
    weights = load_encoder(model, side=side).encode(text.flat, offsets, side=side)
    return np.rint(weights * np.float32(scale)).astype(np.int64)


def run_of(out):
    """(query, passage, score), the score without the steps that part ties in a file."""
    lines = [line.split() for line in (out / "runs" / "test" / "splade.trec").open()]
    return [(query, passage, round(float(score))) for query, _, passage, _, score, _ in lines]


def expected_run(model, passages, queries, depth=20, scale=100):
    """By brute force; of equal scores the first passage."""
    of_queries = impacts_of(model, queries, "query", scale)
    scores = of_queries @ impacts_of(model, passages, "passage", scale).T
    lines = []
    for query, row in enumerate(scores):
        order = [p for p in np.argsort(-row, kind="stable") if row[p] > 0][:depth]
        lines += [(f"q{query}", f"p{p}", row[p]) for p in order]
    return lines


@pytest.fixture(scope="module")
def ended(world, tmp_path_factory):
    out = tmp_path_factory.mktemp("ended") / "out"
    return out, run_pipeline(world[0](), out, Options(), watcher=Watcher())


@pytest.fixture
def begun(ended, tmp_path):
    """A copy of that workspace, for a further invocation."""
    return shutil.copytree(ended[0], tmp_path / "out", copy_function=os.link)


def test_a_run_is_the_brute_force_product_of_impacts(world, ended):
    _, model, passages, queries, _ = world
    out, outcome = ended
    assert run_of(out) == expected_run(model, passages, queries)
    assert outcome.summary["systems"]["test"]["splade"]["model"] == "splade"
    assert verify(open_workspace(out)) == []


@pytest.mark.parametrize(
    "tokens, queries", [pytest.param(10_000_000, 1000, marks=pytest.mark.slow), (150, 1)]
)
def test_shards_and_blocks_do_not_show_in_the_run(world, ended, tmp_path, tokens, queries):
    run_pipeline(world[0](tokens, queries), tmp_path / "out", Options(), watcher=Watcher())
    assert run_of(tmp_path / "out") == run_of(ended[0])


@pytest.mark.slow
def test_changed_passages_alone_are_encoded_again(world, begun):
    recipe, model, passages, queries, write = world
    changed = [*passages[:7], "a token", *passages[8:]]
    write("passages", changed)
    try:
        again = run_pipeline(recipe(), begun, Options(), watcher=Watcher())
    finally:
        write("passages", passages)
    assert again.summary["stages"]["weights"]["copied"] >= NUM_PASSAGES - 10
    assert run_of(begun) == expected_run(model, changed, queries)


def test_an_export_has_each_passages_impacts_by_word_piece(world, ended, tmp_path):
    _, model, passages, _, _ = world
    store = ended[0] / "stores" / "weights"
    assert export(store, "pyserini", tmp_path / "out", model=str(model)) == NUM_PASSAGES
    vocabulary = open_tokenizer(resolve_model(str(model))).get_vocab()
    lines = [json.loads(line) for line in (tmp_path / "out" / "vectors.jsonl").open()]
    assert [line["id"] for line in lines] == [f"p{i}" for i in range(NUM_PASSAGES)]
    for line, row in zip(lines, impacts_of(model, passages, "passage"), strict=True):
        assert {vocabulary[w]: i for w, i in line["vector"].items()} == {
            term: row[term] for term in np.flatnonzero(row)
        }
    with pytest.raises(InputError, match="--model: .*name the model"):
        export(store, "pyserini", tmp_path / "none")


@pytest.mark.slow
def test_word_pieces_are_named_by_their_ids_whatever_ids_are_not_used(world, tmp_path):
    recipe, model, _, _, _ = world
    other = shutil.copytree(model, tmp_path / "other")
    tokenizer = json.loads((other / "tokenizer.json").read_text())
    vocabulary = tokenizer["model"]["vocab"]
    del vocabulary["zebra"]  # a hole; and the last ids stand for no word
    del vocabulary[max(vocabulary, key=vocabulary.__getitem__)]
    (other / "tokenizer.json").write_text(json.dumps(tokenizer))
    both = recipe(stage="\n  lucene: {do: index}", **{"models.splade.path": other})
    run_pipeline(both, tmp_path / "out", Options(), watcher=Watcher())
    export(tmp_path / "out/stores/weights", "pyserini", tmp_path / "e", model=str(other))
    found = json.loads((tmp_path / "e/vectors.jsonl").open().readline())["vector"]
    flat, offsets = packed(*[impacts_of(other, world[2][:1], "passage") / np.float32(100)], None)
    numbers = zip(*(each.tolist() for each in unpacked(flat)), strict=True)
    words = {number: word for word, number in vocabulary.items()}
    assert found == {words.get(term, f"[unused {term}]"): impact for term, impact in numbers}
    with pytest.raises(InputError, match="its tokenizer is not that of this store's word pieces"):
        export(tmp_path / "out/stores/weights", "pyserini", tmp_path / "w", model=str(model))
    with pytest.raises(InputError, match="--model: for a sparse model's impacts only"):
        export(tmp_path / "out/stores/lucene", "pyserini", tmp_path / "l", model=str(other))


@pytest.mark.slow
def test_the_largest_weights_alone_are_kept_where_the_settings_say_so(world, tmp_path):
    recipe, model, passages, _, _ = world
    few = recipe(more=", settings: {max_terms: 3}", **{"stages.splade.depth": NUM_PASSAGES})
    run_pipeline(few, tmp_path / "out", Options(), watcher=Watcher())
    export(tmp_path / "out/stores/weights", "pyserini", tmp_path / "e", model=str(model))
    lines = [json.loads(line)["vector"] for line in (tmp_path / "e/vectors.jsonl").open()]
    for vector, row in zip(lines, impacts_of(model, passages, "passage"), strict=True):
        assert sorted(vector.values()) == sorted(row[row > 0])[-3:]


def test_a_published_generation_answers_queries_from_python(world, begun):
    recipe, model, passages, queries, _ = world
    options = Options(reindex=True)
    run_pipeline(recipe(), begun, options, watcher=Watcher())
    again = run_pipeline(recipe(), begun, options, watcher=Watcher())
    assert again.summary["stages"]["weights"]["reused"]
    with raypipe.open_index(begun) as opened:
        found = opened.search({f"q{n}": text for n, text in enumerate(queries)}, stage="splade")
    columns = [found[name].to_pylist() for name in ("query_id", "passage_id", "score")]
    found = list(zip(*columns, strict=True))
    assert found == expected_run(model, passages, queries)
    with pytest.raises(InputError, match="a splade model, which makes no embeddings"):
        raypipe.encode(["a"], model=str(model))


@pytest.mark.slow
def test_queries_by_a_table_are_searched_and_another_table_keeps_the_passages(world, tmp_path):
    recipe, _, passages, queries, _ = world
    model = make_routed(tmp_path / "routed")
    out, found = tmp_path / "out", []
    for seed in (0, 1):
        table = save_table(model, seed)
        path = {"models.splade.path": model}
        ended = run_pipeline(recipe(**path), out, Options(reindex=True), watcher=Watcher())
        assert ended.summary["stages"]["weights"]["reused"] == (seed == 1)
        found.append(run_of(out))
        assert found[-1] == expected_run(model, passages, queries)
        export(out / "stores" / "weights.test", "pyserini", tmp_path / f"{seed}", model=str(model))
        vocabulary = open_tokenizer(resolve_model(str(model))).get_vocab()
        lines = [json.loads(line) for line in (tmp_path / f"{seed}/vectors.jsonl").open()]
        for line, text in zip(lines, queries, strict=True):
            ids = [vocabulary[word] for word in line["vector"]]
            own = open_tokenizer(resolve_model(str(model))).encode(text, add_special_tokens=False)
            assert ids == sorted(n for n in {*own.ids[:9]} if table[n] > 0)
            assert [*line["vector"].values()] == [round(float(table[n]) * 100) for n in ids]
        with raypipe.open_index(out) as opened:
            answered = opened.search({"q0": queries[0]}, stage="splade")
        assert answered["score"].to_pylist() == [s for q, _, s in found[-1] if q == "q0"]
    assert found[0] != found[1]


def test_an_approximate_index_of_impacts_is_refused(world, tmp_path):
    recipe = world[0](stage="\n  near: {do: ann, embeddings: weights}")
    with pytest.raises(InputError, match="near.embeddings: weights has weights of word pieces"):
        run_pipeline(recipe, tmp_path / "out", Options(), watcher=Watcher())


BY_LUCENE = """
  impacts: {do: index, embeddings: weights}
  by-lucene: {do: search, index: impacts, depth: 20}"""


def same_files(out, of="splade"):
    """Whether Lucene's run is the product's, but for the tag."""
    found, product = (
        (out / "runs" / "test" / f"{name}.trec").read_bytes() for name in ("by-lucene", of)
    )
    return b"by-lucene" in found and found.replace(b"by-lucene", of.encode()) == product


@pytest.mark.slow
@pytest.mark.jvm
def test_lucenes_index_of_impacts_gives_the_products_file_and_follows_the_impacts(world, tmp_path):
    recipe, _, passages, _, write = world
    out = tmp_path / "out"

    def done(**changed):
        return run_pipeline(recipe(stage=BY_LUCENE, **changed), out, Options(), watcher=Watcher())

    first = done().summary
    assert same_files(out) and first["systems"]["test"]["by-lucene"]["model"] == "splade"
    assert verify(open_workspace(out)) == []
    again = done().summary["stages"]
    assert again["impacts"]["reused"] and again["by-lucene.test"]["reused"]
    few = done(**{"stages.by-lucene.depth": 3, "stages.splade.depth": 3}).summary["stages"]
    assert same_files(out) and few["impacts"]["reused"] and not few["by-lucene.test"]["reused"]
    write("passages", ["", "a token", *passages[2:], "shard of a lease"])
    try:
        changed = done().summary["stages"]
    finally:
        write("passages", passages)
    assert same_files(out) and not changed["impacts"]["reused"]


@pytest.mark.slow
@pytest.mark.jvm
def test_a_published_index_of_impacts_is_planned_searched_and_told_from_others(
    world, tmp_path, monkeypatch
):
    recipe, _, _, queries, _ = world
    recipe, out = recipe(stage=BY_LUCENE), tmp_path / "out"
    plan = {line.store: line for line in make_plan(recipe, out).forecast.lines}
    run_pipeline(recipe, out, Options(reindex=True), watcher=Watcher())
    stores = open_workspace(out).refs()
    assert plan.keys() == stores.keys()
    weights, index = plan["weights"].bytes, plan["impacts"]
    assert index.bytes == pytest.approx(45_000 + 0.6 * weights) and index.rows == NUM_PASSAGES
    assert index.seconds == pytest.approx(3.3 + 1.7e-7 * weights, abs=1e-3)
    assert plan["by-lucene.test"].seconds == pytest.approx(0.1 + 15 * 20 * 1.7e-5)
    asked = {f"q{n}": text for n, text in enumerate(queries)}
    with raypipe.open_index(out) as opened:
        product = opened.search(asked, stage="splade")
        assert opened.search(asked, stage="by-lucene").equals(product)
        monkeypatch.setattr(sparse, "sparse_lists", None)  # it is Lucene's index that is searched
        assert opened.search(asked, stage="impacts", depth=20).equals(product)
        with pytest.raises(InputError, match="k1, b: for BM25, and impacts searches"):
            opened.search(asked, stage="impacts", k1=1.0)
    file = tmp_path / "queries.tsv"
    file.write_text("".join(f"{name}\t{text}\n" for name, text in asked.items()))
    search = ["search", "--index", str(out), "--queries", str(file), "--model", "impacts"]
    found = tmp_path / "found"
    assert command([*search, "--depth", "20", "--inline", "--out", str(found)])[0] == 0
    lines = (found / "runs" / "queries" / "search.trec").read_text()
    whole = (out / "runs" / "test" / "by-lucene.trec").read_text()
    assert lines.replace(" search\n", "\n") == whole.replace(" by-lucene\n", "\n")
    assert open_workspace(found).refs()["impacts"] == stores["impacts"]
    with pytest.raises(InputError, match="impacts: a store of impact-index can be exported to not"):
        export(out / "stores" / "impacts", "pyserini", tmp_path / "e")
    system = Graph(recipe, PlainStores(open_workspace(out).stores))
    chain = system.system("by-lucene", "test").chain
    assert list(map(str, chain.stores)) == ["weights.test", "by-lucene.test"]


@pytest.mark.slow
@pytest.mark.jvm
def test_a_generations_index_of_other_impacts_is_not_taken_for_the_recipes(world, tmp_path):
    recipe, out = world[0], tmp_path / "out"
    run_pipeline(recipe(stage=BY_LUCENE), out, Options(reindex=True), watcher=Watcher())
    other = make_splade(tmp_path / "other", seed=5)
    stage = """
  others: {do: encode, model: other}
  exact: {do: search, index: others, depth: 20}""" + BY_LUCENE.replace("weights", "others")
    changed = recipe(stage=stage, more=f"}}, other: {{path: {other}", stores=out / "stores")
    again = tmp_path / "again"
    done = run_pipeline(changed, again, Options(reading=("words", 1)), watcher=Watcher())
    assert done.summary["stages"]["weights"]["reused"] and same_files(again, of="exact")


TOLD = {
    "tiny_model": ["stages.impacts.embeddings: weights has embeddings; expected the weights of a "
                   "sparse model, and splade has pooling mean. Search weights itself, or an index "
                   "{do: ann, embeddings: weights}"],
    "tiny_mono": ["stages.weights: splade: "],
}  # fmt: skip


@pytest.mark.parametrize("model", list(TOLD))
def test_an_index_of_what_is_no_impacts_is_refused_before_any_work(world, model, tmp_path, request):
    path = request.getfixturevalue(model)
    recipe = world[0](stage=BY_LUCENE, **{"models.splade.path": path})
    with pytest.raises(InputError) as refused:
        run_pipeline(recipe, tmp_path / "out", Options(), watcher=Watcher())
    pairs = zip(refused.value.problems, TOLD[model], strict=True)
    assert all(problem.startswith(told) for problem, told in pairs), refused.value.problems
    assert not (tmp_path / "out" / "stores").exists()


def test_scores_beyond_float32s_whole_numbers_are_ordered_alike_in_every_span(monkeypatch):
    """83,845,126 and 83,845,127 are one float32: the first passage comes first."""
    rest = [40.95] * 5
    stored = packed(np.array([[0.01, *rest], [0.02, *rest]], np.float32), None)
    query = packed(np.array([[0.01, *rest]], np.float32), None)
    exact = (matrix(*stored, 6) @ matrix(*query, 6).T).toarray()
    assert (
        exact.tolist() == [[83_845_126], [83_845_127]] and len(set(exact.astype("f4")[:, 0])) == 1
    )
    passages = SimpleNamespace(
        overlapping=lambda start, stop: [(SimpleNamespace(shard=Shard(0, 0, 2)), start, stop)],
        path=lambda record: None,
    )
    monkeypatch.setattr(sparse, "map_tokens", lambda path: stored)
    whole, _ = sparse.sparse_lists(*query, passages, (0, 2), 6, 2)
    assert whole.tolist() == [[0, 1]]
    of_none = sparse.sparse_lists(query[0][:0], query[1][:1], passages, (0, 2), 6, 2)
    assert [lists.shape for lists in of_none] == [(0, 0)] * 2


def test_impacts_are_rounded_cut_and_refused_by_hand():
    weights = np.array([[0.004, 0.006, 0.0, 1.25], [0, 0, 0, 0], [2.0, 0.5, 2.0, 0.5]], np.float32)
    flat, offsets = packed(weights, None)
    assert offsets.tolist() == [0, 2, 2, 6] and flat.dtype == np.uint32
    terms, impacts = unpacked(flat)
    assert terms.tolist() == [1, 3, 0, 1, 2, 3] and impacts.tolist() == [1, 125, 200, 50, 200, 50]
    flat, offsets = packed(weights, 3)
    assert unpacked(flat)[0].tolist() == [1, 3, 0, 1, 2] and offsets.tolist() == [0, 2, 2, 5]
    with pytest.raises(RowsFailed, match="beyond 40.95") as failed:
        packed(np.array([[40.95], [40.96]], np.float32), None)
    assert list(failed.value.rows) == [1]
    assert packed(np.empty((0, 4), np.float32), 2)[1].tolist() == [0]
    assert unpacked(packed(np.array([[5.0, 0.0097, 0.0098]], np.float32), None, 51.2)[0])[
        1
    ].tolist() == [256, 1]
    with pytest.raises(RowsFailed, match=r"beyond 79\.9805"):
        packed(np.array([[80.0]], np.float32), None, 51.2)
    large = [[1e20, 1.5], [1e38, 0], [np.nan, 0], [0, 1], [np.inf, 0]]  # no int64 holds them
    with pytest.raises(RowsFailed, match=r"beyond 40\.95") as failed:
        packed(np.array(large, np.float32), None)
    assert list(failed.value.rows) == [0, 1, 2, 4]


@pytest.mark.parametrize("worst", [40.95, 41.0])
def test_texts_are_weighed_so_many_at_once_and_named_by_their_rows(monkeypatch, worst):
    """An encoder whose only word weighs a hundredth of a text's only piece."""
    monkeypatch.setattr(sparse, "TEXTS_AT_ONCE", 2)
    asked = []

    def encode(flat, offsets, *, side, budget_tokens, beat):
        asked.append((flat.tolist(), side, budget_tokens))
        beat((len(offsets) - 2,))
        return np.where(flat == 9, worst, flat / 100).astype(np.float32)[:, None]

    settings = SimpleNamespace(max_terms=None, impact_scale=None)
    encoder, beats = SimpleNamespace(encode=encode, conventions=settings), []
    given = (np.array([1, 2, 3, 9, 5], np.uint16), np.arange(6))
    more = {"side": "query", "budget_tokens": 7, "beat": beats.append}
    if worst > 40.95:
        with pytest.raises(RowsFailed, match=r"beyond 40\.95") as failed:
            sparse.impacts_of(encoder, *given, **more)
        assert list(failed.value.rows) == [3]
        return
    flat, offsets = sparse.impacts_of(encoder, *given, **more)
    assert unpacked(flat)[1].tolist() == [1, 2, 3, 4095, 5] and offsets.tolist() == [*range(6)]
    assert asked == [([1, 2], "query", 7), ([3, 9], "query", 7), ([5], "query", 7)]
    assert beats == [[1], [3], [4]]


ANSERINI = """
import json, sys
from raypipe.engines.lucene.java import start_jvm
autoclass, _ = start_jvm()
passages, queries, index = sys.argv[1:]
settings = ["-generator", "DefaultLuceneDocumentGenerator", "-threads", "1", "-impact"]
settings += ["-collection", "JsonVectorCollection", "-input", passages, "-index", index]
autoclass("io.anserini.index.IndexCollection").main([*settings, "-pretokenized"])
searcher = autoclass("io.anserini.search.SimpleImpactSearcher")(index)
number = autoclass("java.lang.Integer")
for line in open(queries + "/vectors.jsonl"):
    query, words = json.loads(line), autoclass("java.util.HashMap")()
    for word, impact in query["vector"].items():
        words.put(word, number(impact))
    found = [[each.docid, each.score] for each in searcher.search(words, 100)]
    print("found", json.dumps([query["id"], found]))
"""


@pytest.mark.slow
@pytest.mark.jvm
def test_anserinis_impact_index_of_an_export_gives_the_same_scores(world, ended, tmp_path):
    _, model, passages, queries, _ = world
    for store in ("weights", "weights.test"):
        folder = tmp_path / store
        export(ended[0] / "stores" / store, "pyserini", folder, model=str(model))
    folders = [str(tmp_path / name) for name in ("weights", "weights.test", "index")]
    done = subprocess.run(
        [sys.executable, "-c", ANSERINI, *folders], capture_output=True, text=True
    )
    told = [line[6:] for line in done.stdout.splitlines() if line.startswith("found ")]
    found = dict(json.loads(line) for line in told)
    expected = expected_run(model, passages, queries, depth=NUM_PASSAGES)
    assert len(found) == len(queries), done.stderr[-2000:]
    for query, lines in found.items():
        scores = {passage: score for name, passage, score in expected if name == query}
        assert [score for _, score in lines] == sorted(scores.values(), reverse=True)[:100]
        assert all(scores[passage] == score for passage, score in lines)
