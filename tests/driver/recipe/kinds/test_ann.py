"""Approximate search in a recipe: exact where all are proposed, described, exported."""

import json
import shutil

import faiss
import numpy as np
import pytest
from recipes import invoke

from raypipe.config.load import load_recipe
from raypipe.driver.forecast.plan import make_plan
from raypipe.driver.upkeep.export import export
from raypipe.errors import InputError, RefusedError

RECIPE = """
format: 1
name: near
collection: {{format: msmarco-v1, input: {files}/passages.tsv}}
queries: {{test: {{file: {files}/queries.test.tsv, qrels: {files}/qrels.test.txt}}}}
models: {{tiny: {{path: {model}}}, mono: {{path: {mono}}}}}
stages:
  embeddings: {{do: encode, model: tiny}}
  graph: {{do: ann, embeddings: embeddings, hnsw: {{links: 8, ef_construction: 40}}}}
  lists: {{do: ann, embeddings: embeddings, ivf_pq: {{lists: 16, code_bytes: 2, seed: 3}}}}
  exact: {{do: search, index: embeddings, depth: 20}}
  graph-all: {{do: search, index: graph, depth: 20, ann: {{refine: 1000}}}}
  lists-all: {{do: search, index: lists, depth: 20, ann: {{refine: 1000, probes: 16}}}}
  near: {{do: search, index: lists, depth: 20, ann: {{refine: 1, probes: 1, recall_queries: 7}}}}
  mono: {{do: score, run: near, model: mono, k0: 5}}
  fused: {{do: fuse, runs: [near, graph-all], method: rrf}}
evaluate: {{measures: ["nDCG@10", "R@20"], baseline: exact}}
resources:
  {{backend: inline, device: cpu, threads: {threads}, shard_tokens: {tokens},
   shard_queries: {queries}}}
"""
WORDS = "lease shard rank query passage score merge model token batch depth index".split()
SYSTEMS = ("exact", "graph-all", "lists-all", "near", "mono", "fused")


@pytest.fixture(scope="module")
def text(tmp_path_factory, tiny_model, tiny_mono):
    files, rng = tmp_path_factory.mktemp("files"), np.random.default_rng(1)

    def drawn(num):
        return [" ".join(rng.choice(WORDS, 6)) for _ in range(num)]

    def tsv(prefix, texts):
        return "".join(f"{prefix}{i}\t{text}\n" for i, text in enumerate(texts))

    (files / "passages.tsv").write_text(tsv("p", drawn(300)))
    (files / "queries.test.tsv").write_text(tsv("q", drawn(15)))
    (files / "qrels.test.txt").write_text("".join(f"q{i} 0 p{i} 1\n" for i in range(15)))

    def made(threads=1, tokens=1000, queries=7):
        return RECIPE.format(
            files=files, model=tiny_model, mono=tiny_mono,
            threads=threads, tokens=tokens, queries=queries,
        )  # fmt: skip

    return made


def run(text, out, *overrides, **options):
    invoke(text, out, *overrides, **options)
    return out


@pytest.fixture(scope="module")
def done(text, tmp_path_factory):
    return run(text(), tmp_path_factory.mktemp("ann") / "work")


def lines(out, system):
    """Without the tag, which is the system's name."""
    found = (out / "runs" / "test" / f"{system}.trec").read_text().splitlines()
    return [line.rpartition(" ")[0] for line in found]


def ranked(out, system):
    """Query -> its passages, best first."""
    found = {}
    for line in lines(out, system):
        found.setdefault(line.split()[0], []).append(line.split()[2])
    return found


def test_where_all_passages_are_proposed_the_run_is_exact_searchs(done):
    assert lines(done, "graph-all") == lines(done, "lists-all") == lines(done, "exact")
    assert lines(done, "near") != lines(done, "exact")


def test_a_plan_counts_the_pairs_of_what_an_approximate_search_will_find(text, tmp_path):
    plan = make_plan(load_recipe(text(), source="near"), tmp_path / "work")
    lines = {line.store: line for line in plan.forecast.lines}
    assert lines["near.test"].bytes == lines["exact.test"].bytes
    assert lines["scores@mono.test"].inferences == 15 * 5


def test_recall_is_in_the_summary_and_below_every_table_that_goes_back_to_the_search(done):
    systems = json.loads((done / "summary.json").read_text())["systems"]["test"]
    num = len({line.split()[0] for line in lines(done, "exact")})
    assert systems["graph-all"]["recall_against_exact"] == {
        "queries": min(100, num), "recall": {"10": 1.0, "20": 1.0},
    }  # fmt: skip
    assert not any("recall_against_exact" in systems[name] for name in ("exact", "mono", "fused"))
    found = systems["near"]["recall_against_exact"]
    assert found["queries"] == 7 and 0 < found["recall"]["20"] < 1
    queries = list(dict.fromkeys(line.split()[0] for line in lines(done, "exact")))
    chosen = [queries[place * num // 7] for place in range(7)]
    for cutoff in (10, 20):
        own, exact = (
            [
                {
                    li.split()[2]
                    for li in lines(done, name)
                    if li.split()[0] == query and int(li.split()[3]) <= cutoff
                }
                for query in chosen
            ]
            for name in ("near", "exact")
        )
        by_hand = np.mean([len(a & b) / cutoff for a, b in zip(own, exact, strict=True)])
        assert found["recall"][str(cutoff)] == pytest.approx(by_hand)
    note = (
        f"near: approximate search; recall against exact search {found['recall']['10']:.4f} at 10, "
        f"{found['recall']['20']:.4f} at 20 (7 of {num} queries)"
    )
    assert (done / "table.md").read_text().count(note) == 1
    assert systems["near"]["model"] == "tiny" and systems["near"]["reranks"] == "collection"


def test_a_table_up_to_a_reranker_says_what_it_goes_back_to(text, done):
    run(text(), done, until="mono")
    table = (done / "table.md").read_text()
    run(text(), done)
    assert "near: approximate search; recall against exact search" in table
    assert "graph-all: approximate" not in table


def test_threads_shards_and_blocks_change_no_line(text, done, tmp_path):
    other = run(text(threads=3, tokens=400, queries=100), tmp_path / "other")
    for system in SYSTEMS:
        assert lines(other, system) == lines(done, system)


@pytest.mark.parametrize("kind", ["graph", "lists"])
def test_plain_faiss_opens_the_export_and_finds_the_same(kind, done, tmp_path):
    num = export(done / "stores" / kind, "faiss", tmp_path / "out")
    index = faiss.read_index(str(tmp_path / "out" / "index"))
    ids = (tmp_path / "out" / "docid").read_text().split()
    assert index.ntotal == len(ids) == num and index.metric_type == faiss.METRIC_INNER_PRODUCT
    export(done / "stores" / "embeddings.test", "numpy", tmp_path / "queries")
    export(done / "stores" / "embeddings", "numpy", tmp_path / "passages")
    queries = np.load(tmp_path / "queries" / "embeddings.npy").astype(np.float32)
    passages = np.load(tmp_path / "passages" / "embeddings.npy").astype(np.float32)
    ivf = kind == "lists"
    effort = faiss.SearchParametersIVF(nprobe=1) if ivf else faiss.SearchParametersHNSW(efSearch=60)
    _, found = index.search(queries, 20, params=effort)
    first = lines(done, "near" if ivf else "graph-all")
    if ivf:  # its candidates are plain faiss's, in another order
        of_first = {line.split()[2] for line in first if line.split()[0] == first[0].split()[0]}
        assert of_first == {ids[row] for row in found[0] if row >= 0}
    exact = np.argsort(-(queries @ passages.T), axis=1)[:, :20]
    share = np.mean([np.isin(a, b).mean() for a, b in zip(exact, found, strict=True)])
    assert share > (0.1 if ivf else 0.5)


def test_a_changed_setting_builds_beside_the_old_index_and_is_refused_when_frozen(
    text, done, tmp_path
):
    out = shutil.copytree(done, tmp_path / "work")
    before = {path.name for path in (out / "stores" / "graph").iterdir()}
    with pytest.raises(RefusedError, match="graph: params.links 8 -> 5"):
        run(text(), out, "stages.graph.hnsw.links=5", frozen=True)
    run(text(), out, "stages.graph.hnsw.links=5")
    assert len({path.name for path in (out / "stores" / "graph").iterdir()} - before) == 1
    run(text(), out)
    with pytest.raises(InputError, match=r"lists.ivf_pq.code_bytes: found 5, expected a divisor"):
        run(text(), out, "stages.lists.ivf_pq.code_bytes=5")
