"""The packaged recipes of RepBERT's experiments, run whole over made-up texts with small models."""

import random

import pytest
from small_training import train

from raypipe.config.load import load_recipe, recipe_text
from raypipe.driver.execute import Watcher
from raypipe.driver.pipeline import Options, run_pipeline

WORDS = "lease shard rank query passage zebra run wax quick fox jumps over a lazy dog".split()
GIVEN = ("doc2query", "deepct", "doctttttquery")
FIRST = ("bm25", *GIVEN, "repbert")
DEPTHS = (1000, 500, 100, 50, 10, 5)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """60 passages, three dev and eight training queries, and the runs of others."""
    folder, draw = tmp_path_factory.mktemp("repbert"), random.Random(0)
    texts = [" ".join(draw.choices(WORDS, k=3 + place % 9)) for place in range(60)]
    (folder / "passages.tsv").write_text("".join(f"{i}\t{t}\n" for i, t in enumerate(texts)))
    for name, count in (("dev", 3), ("train", 8)):
        ids = [f"{name}{number}" for number in range(count)]
        lines = [f"{query}\t{' '.join(draw.choices(WORDS, k=4))} {query}\n" for query in ids]
        (folder / f"queries.{name}.tsv").write_text("".join(lines))
        judged = [f"{query}\t0\t{draw.randrange(60)}\t1\n" for query in ids]
        (folder / f"qrels.{name}.tsv").write_text("".join(judged))
        for system in ("bm25", *GIVEN):
            lines = [
                f"{query}\t{passage}\t{rank}\n"
                for query in ids
                for rank, passage in enumerate(draw.sample(range(60), 20 + len(system)), 1)
            ]
            (folder / f"{system}.{name}.tsv").write_text("".join(lines))
    return folder


@pytest.fixture(scope="module")
def run(files, tiny_model, tmp_path_factory):
    """A function that runs a recipe with other paths, BM25's run among what is given unless
    `lucene`; the runs come back, system -> query id -> passage ids."""
    root = tmp_path_factory.mktemp("work")

    def go(name, *overrides, out=None, query_set="dev", lucene=False, until=None, **env):
        given = [] if lucene else ["lucene={do: encode, model: repbert}"]
        given += [] if lucene else [f"bm25={{do: read, runs: {{dev: {files}/bm25.dev.tsv}}}}"]
        changed = [f"stages.{each}" for each in given]
        changed += [
            f"collection.input={files}/passages.tsv",
            f"queries.{query_set}.file={files}/queries.{query_set}.tsv",
            f"queries.{query_set}.qrels={files}/qrels.{query_set}.tsv",
            f"models.repbert={{path: {tiny_model}}}",
            "resources={backend: inline, device: cpu}",
            f"stores={root}/stores",
            *overrides,
        ]
        recipe = load_recipe(recipe_text(name), overrides=changed, source=name, env=env)
        work = out or root / name
        run_pipeline(recipe, work, Options(until=until), watcher=Watcher())
        return {
            path.stem: lists(path) for path in sorted((work / "runs" / query_set).glob("*.trec"))
        }

    return go


def lists(path):
    found = {}
    for line in path.read_text().splitlines():
        query, _, passage, *_ = line.split()
        found.setdefault(query, []).append(passage)
    return found


def in_turn(one, other):
    """What two lists give by turns, each passage where it first appears."""
    taken = []
    for place in range(max(len(one), len(other))):
        for passage in (*one[place : place + 1], *other[place : place + 1]):
            taken += [] if passage in taken else [passage]
    return taken


def fused_in_turn(found):
    """How many of the systems are two of the others, taken in turn."""
    pairs = [(a, b) for a in FIRST for b in FIRST if f"{a}-{b}" in found]
    for one, other in pairs:
        for query in found[one]:
            expected = in_turn(found[one][query], found[other][query])
            assert found[f"{one}-{other}"][query] == expected
    return len(pairs)


def reranked(found):
    """How many of the systems are a first stage's first passages by the scores of the deepest."""
    systems = [(first, depth) for first in FIRST for depth in DEPTHS if f"{first}-{depth}" in found]
    for first, depth in systems:
        for query, listed in found[first].items():
            whole, kept = found[f"{first}-1000"][query], set(listed[:depth])
            assert sorted(whole) == sorted(listed) and whole != listed
            expected = [passage for passage in whole if passage in kept]
            assert found[f"{first}-{depth}"][query] == expected
    return len(systems)


def test_repbert_fused_takes_two_first_stages_in_turn(run, files):
    found = run("repbert-fused", until="repbert-bm25", RUNS=str(files))
    assert fused_in_turn(found) == 1


@pytest.mark.long
def test_repbert_fused_takes_each_first_stage_with_each_other_in_turn(run, files):
    assert fused_in_turn(run("repbert-fused", RUNS=str(files))) == 20


@pytest.mark.long
def test_repbert_reranked_reorders_the_first_of_each_first_stage_by_one_scoring(
    run, files, tiny_mono
):
    found = run("repbert-reranked", f"models.mono={{path: {tiny_mono}}}", RUNS=str(files))
    assert reranked(found) == 5 * len(DEPTHS)


@pytest.mark.long
@pytest.mark.jvm
@pytest.mark.slow
def test_the_chain_of_repbert_negatives_runs_whole(run, files, tiny_model, tmp_path):
    runs = run("msmarco-train-runs", out=tmp_path / "runs", query_set="train", lucene=True)
    assert set(runs) == {"bm25", "repbert"} and len(runs["repbert"]) == 8
    for first in runs:
        name = f"mono-{first}-negatives"
        path = tmp_path / f"{name}.yaml"
        path.write_text(recipe_text(name).replace("${MSMARCO}/", str(files) + "/"))
        train(
            path,
            tmp_path / first,
            f"model={{start: {tiny_model}, preset: monobert, query_limit: 12, total_limit: 64}}",
            f"collections.msmarco.input={files}/passages.tsv",
            f"train.msmarco.negatives.runs={tmp_path}/runs/runs/train/{first}.trec",
            f"guard={{dev: {{queries: {files}/queries.dev.tsv}}}}",
            "steps=2",
            "batch=4",
            "optimiser.warmup=1",
            "resources={backend: inline, device: cpu}",
        )
        (tmp_path / "models").mkdir(exist_ok=True)
        (tmp_path / first / "models" / name).rename(tmp_path / "models" / name)
    found = run("repbert-negatives", lucene=True, TRAINED=str(tmp_path))
    assert len(found) == 2 + 16
    for first in ("bm25", "repbert"):
        for model in ("bm25", "repbert"):
            for depth in (5, 10, 50, 100):
                for query, listed in found[f"{first}-of-{model}-{depth}"].items():
                    assert sorted(listed) == sorted(found[first][query][:depth])
    assert found["repbert-of-bm25-50"] != found["repbert-of-repbert-50"]
