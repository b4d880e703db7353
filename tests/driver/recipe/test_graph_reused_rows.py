"""A build that copies rows equals one from nothing; how its stores are cut is all one."""

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from plain_stores import SMALL, StubEncoder, StubScorer, built, rows_of

from raypipe.config.load import load_recipe
from raypipe.stages.stage import Sizing
from raypipe.storage.posix import PosixStorage

RECIPE = """
format: 1
name: small
collection: {{format: msmarco-v1, input: {folder}/passages.tsv}}
queries: {{test: {{file: {folder}/queries.tsv}}}}
models: {{encoder: {{path: {encoder}}}, mono: {{path: {mono}}}, duo: {{path: {duo}}}}}
stages:
  embeddings: {{do: encode, model: encoder}}
  dense: {{do: search, index: embeddings, depth: 6}}
  mono: {{do: score, run: dense, model: mono, k0: 5}}
"""
DUO = """
  duo: {{do: score, run: mono, model: duo, k1: 3}}
  duo-sum: {{do: aggregate, pairs: duo, method: sum}}
"""
WORDS = ["", "zebra", "lease", "zebra lease", "run", "a shard", "rank a run", "query", "of the run"]
EDITS = ("insert", "delete", "change", "move", "duplicate", "empty")


@pytest.fixture(scope="module")
def recipe(tmp_path_factory, tiny_model, tiny_mono, tiny_duo):
    """The recipe, its folder, and a way to write its collection."""
    folder = tmp_path_factory.mktemp("files")
    (folder / "queries.tsv").write_text("1\tlease shard\n2\tzebra run\n3\trank a query\n")
    places = {"folder": folder, "encoder": tiny_model, "mono": tiny_mono, "duo": tiny_duo}

    def written(texts, more=""):
        text = (RECIPE + more).format(**places)
        lines = [f"{number}\t{text}\n" for number, text in enumerate(texts)]
        (folder / "passages.tsv").write_text("".join(lines))
        return load_recipe(text, source="small")

    return written


@pytest.fixture(autouse=True, scope="module")
def stubs():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("raypipe.models.load.load_encoder", lambda *a, **k: StubEncoder())
        patch.setattr("raypipe.models.load.load_scorer", lambda model, **k: StubScorer(model))
        patch.setattr("raypipe.stages.reuse.boundaries.LEAST_ROWS", 4)
        patch.setattr("os.fsync", lambda descriptor: None)  # durability is tested elsewhere
        yield


def edited(texts, edits):
    """The texts after edits (kind, place, other place, word)."""
    texts = list(texts)
    for kind, place, other, word in edits:
        at, to = place % (len(texts) + 1), other % max(1, len(texts))
        if kind == "insert":
            texts.insert(at, word)
        elif kind == "delete" and len(texts) > 1:
            del texts[to]
        elif kind == "change":
            texts[to] = word
        elif kind == "move":
            texts.insert(at, texts.pop(to))
        elif kind == "duplicate":
            texts.insert(at, texts[to])
        elif kind == "empty":
            texts[to] = ""
    return texts


places = st.integers(0, 40)
edit = st.tuples(st.sampled_from(EDITS), places, places, st.sampled_from(WORDS))


def copied_and_compared(recipe, storage, older, fresh):
    """The stores of a build that copies, which equal those of a build from nothing."""
    made, _ = built(recipe, storage, older)
    expected, _ = built(recipe, PosixStorage(fresh))
    assert made.keys() == expected.keys()
    del expected["count@collection"]  # times of files, which no other store knows
    for name, stored in expected.items():
        mine = made[name]
        assert mine.manifest.identity == stored.manifest.identity, name
        assert rows_of(mine) == rows_of(stored), name
    return made


texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=24)
edits = st.lists(edit, max_size=6)
quick = settings(deadline=None, phases=(Phase.explicit, Phase.generate))


@pytest.fixture(scope="module")
def folder():
    """Makes folders, in memory where there is such a file system: thousands of small files."""
    memory = Path("/dev/shm")
    with TemporaryDirectory(dir=memory if memory.is_dir() else None) as top:
        yield lambda: Path(mkdtemp(dir=top))


@pytest.mark.slow
@settings(quick, max_examples=50)
@given(texts, st.lists(edits, min_size=4, max_size=4))
def test_a_build_that_copies_equals_one_from_nothing(recipe, folder, texts, four_edits):
    """50 collections, each with four edits: 200 builds."""
    top = folder()
    storage = PosixStorage(top / "copying")
    older = [built(recipe(texts), storage)[0]]
    for number, edits in enumerate(four_edits):
        changed = recipe(edited(texts, edits))
        copied_and_compared(changed, storage, older, top / str(number))
    shutil.rmtree(top)


@pytest.mark.slow
@settings(quick, max_examples=12)
@given(texts, st.lists(edits, min_size=2, max_size=3))
def test_so_do_further_nights_and_pairs_of_passages(recipe, folder, texts, nights):
    top = folder()
    storage = PosixStorage(top / "copying")
    older = [built(recipe(texts, DUO), storage)[0]]
    for night, edits in enumerate(nights):
        texts = edited(texts, edits)
        made = copied_and_compared(recipe(texts, DUO), storage, older, top / str(night))
        older = [made, *older]
    shutil.rmtree(top)


FINE = Sizing(num_actors=3, shard_tokens=1, shard_rows=1, shard_queries=1)
WHOLE = Sizing()
CUT = [
    "passages@collection",
    "tokens@encoder",
    "embeddings",
    "embeddings.test",
    "parts@dense.test",
    "dense.test",
    "scores@mono.test",
    "mono.test",
    "scores@duo.test",
    "duo.test",
    "duo-sum.test",
]
"""Stores that have more than one shard if they are cut finely."""
LETTERS = [f"{word} {number % 7}" for number, word in enumerate(WORDS * 4)]


def described(stores):
    """The identities and rows of all stores but the files' times, and how many have two shards."""
    del stores["count@collection"]
    cut = sum(len(stored.manifest.records) > 1 for stored in stores.values())
    return {name: (stored.identity, rows_of(stored)) for name, stored in stores.items()}, cut


@pytest.fixture(scope="module")
def whole(recipe, tmp_path_factory):
    """The recipe and its stores, each in one shard as far as the content lets it be."""
    made = recipe(LETTERS, DUO)
    folder = tmp_path_factory.mktemp("whole")
    return made, described(built(made, PosixStorage(folder), sizing=WHOLE)[0])


@pytest.mark.parametrize(
    "sizing", [FINE, SMALL, Sizing(num_actors=2, shard_tokens=60, shard_rows=9, shard_queries=3)]
)
def test_stores_cut_elsewhere_are_the_same_stores(whole, tmp_path, sizing):
    recipe, (expected, before) = whole
    found, cut = described(built(recipe, PosixStorage(tmp_path), sizing=sizing)[0])
    assert found == expected and cut > before


@pytest.mark.parametrize("store", CUT)
def test_any_store_cut_elsewhere_gives_the_same_stores_downstream(whole, tmp_path, store):
    recipe, (expected, _) = whole
    made, _ = built(recipe, PosixStorage(tmp_path), sizing=WHOLE, sizing_of={store: FINE})
    assert len(made[store].manifest.records) > 1
    assert described(made)[0] == expected
