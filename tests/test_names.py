"""Names of stores: no two render alike, whatever a recipe's own names are."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raypipe.config.load import load_recipe
from raypipe.driver.execute import Watcher
from raypipe.driver.pipeline import Options, run_pipeline
from raypipe.driver.upkeep.gc import find_garbage
from raypipe.driver.upkeep.status import open_workspace
from raypipe.driver.upkeep.verify import verify
from raypipe.errors import InputError
from raypipe.names import (
    ROOT_FOLDERS,
    Role,
    StoreName,
    Thing,
    of_collection,
    of_queries,
    of_stage,
    of_training,
    tokens_of,
)
from raypipe.storage.storage import checked_name

WORDS = sorted(
    {role.value for role in Role if role.value}
    | {thing.value for thing in Thing}
    | {"manifest", "plan", "spec", "shards", "steps", "lease", "attempts", "format", "process"}
    | {"runs", "measures", "stores", "leaderboard", "logs", "models", "word", "1", "0000001"}
)
"""Whatever stands in a name or a path of raypipe's own and may be a recipe's name."""


def every_name(owners, query_sets):
    """Every store that recipes with these names could have."""
    yield from (of_collection(role) for role in (Role.COUNT, Role.PASSAGES, Role.IDS))
    for owner in owners:
        yield of_queries(owner)
        yield from (tokens_of(owner), of_stage(owner), of_stage(owner, role=Role.TUNE))
        yield from (of_training(role, owner) for role in (Role.EXAMPLES, Role.WEIGHTS))
        for query_set in query_sets:
            yield from (tokens_of(owner, query_set), of_stage(owner, query_set))
            yield of_stage(owner, query_set, Role.PARTS)
            for role in (Role.PIECES, Role.SCORES):
                yield of_stage(owner, query_set, role)


def test_no_two_stores_of_any_vocabulary_render_alike():
    names = list(every_name(WORDS, WORDS))
    assert len({str(name) for name in names}) == len(set(names)) == len(names)
    assert all(checked_name(str(name)) for name in names)


plain = st.from_regex(re.compile(r"[a-z0-9][a-z0-9-]{0,6}", re.ASCII), fullmatch=True)


@given(st.lists(plain, min_size=1, max_size=4, unique=True))
def test_no_two_stores_of_any_names_render_alike(names):
    stores = list(every_name(names, names))
    assert len({str(store) for store in stores}) == len(stores)


def test_equal_parts_are_one_key_and_other_parts_another():
    assert of_stage("a", "b") == StoreName(Role.RESULT, "a", "b")
    assert hash(of_stage("a", "b")) == hash(StoreName(Role.RESULT, "a", "b"))
    assert tokens_of("a", "b") != of_stage("a", "b")


@pytest.mark.parametrize(
    ("name", "rendered"),
    [
        (of_collection(Role.PASSAGES), "passages@collection"),
        (of_queries("dev"), "queries@dev"),
        (of_stage("bm25", "dev"), "bm25.dev"),
        (of_stage("embeddings"), "embeddings"),
        (of_stage("dense", "dev", Role.PARTS), "parts@dense.dev"),
        (of_stage("bm25", role=Role.TUNE), "tune@bm25"),
        (tokens_of("minilm"), "tokens@minilm"),
        (tokens_of("minilm", "dev"), "tokens@minilm.dev"),
        (of_stage("mono", "dev", Role.SCORES), "scores@mono.dev"),
        (of_training(Role.WEIGHTS, "repbert"), "weights@repbert"),
    ],
)
def test_a_rendered_name_says_what_the_store_is(name, rendered):
    assert str(name) == rendered


SLOTS = ("encode", "search", "again", "fuse", "score")


@pytest.fixture(scope="module")
def invoke(tmp_path_factory, tiny_model, tiny_mono):
    """A small pipeline under given names, its stores shared by all; its workspace and outcome."""
    root = tmp_path_factory.mktemp("names")
    words = "alpha beta gamma delta epsilon zeta eta theta".split()
    texts = [" ".join(words[(i + j) % len(words)] for j in range(2 + i)) for i in range(9)]
    (root / "passages.tsv").write_text("".join(f"p{i}\t{t}\n" for i, t in enumerate(texts)))
    (root / "queries.tsv").write_text("q1\tbeta gamma\nq2\ttheta\nq3\tzeta alpha\n")

    def go(out, options=None, **given):
        names = {slot: f"stage-{slot}" for slot in SLOTS}
        names |= {"query_set": "set", "encoder": "encoder", "reranker": "reranker", **given}
        encode, search, again, fuse, score = (names[slot] for slot in SLOTS)
        stages = {
            encode: {"do": "encode", "model": names["encoder"]},
            search: {"do": "search", "index": encode, "depth": 6},
            again: {"do": "search", "index": encode, "depth": 4},
            fuse: {"do": "fuse", "runs": [search, again], "method": "rrf"},
            score: {"do": "score", "run": fuse, "model": names["reranker"], "k0": 3},
        }
        recipe = {
            "format": 1,
            "name": "names",
            "collection": {"format": "msmarco-v1", "input": str(root / "passages.tsv")},
            "queries": {names["query_set"]: {"file": str(root / "queries.tsv")}},
            "models": {
                names["encoder"]: {"path": str(tiny_model)},
                names["reranker"]: {"path": str(tiny_mono)},
            },
            "stages": stages,
            "runs": {"tsv": True},
            "resources": {"backend": "inline", "device": "cpu", "shard_queries": 2},
            "stores": str(root / "stores"),
        }
        checked = load_recipe(recipe, source="names")
        outcome = run_pipeline(checked, root / out, options or Options(), watcher=Watcher())
        return root / out, names, outcome.summary["stages"]

    return go


def runs_of(out, names):
    folder = out / "runs" / names["query_set"]
    return [(folder / f"{names[slot]}.tsv").read_bytes() for slot in SLOTS[1:]]


@pytest.fixture(scope="module")
def calm(invoke):
    out, names, _ = invoke("calm")
    return runs_of(out, names)


WHEN = [(), pytest.mark.slow, *3 * [pytest.mark.long]]
"""Of five words one is tried by default, one in the slow part: in every slot, as both models. Of
the folders of a root every second one."""


@pytest.mark.parametrize(
    "number",
    [pytest.param(i, id=w, marks=WHEN[i % len(WHEN)]) for i, w in enumerate(WORDS)],
)
def test_a_word_of_the_vocabulary_as_every_name_changes_no_run(invoke, calm, number):
    word, slot = WORDS[number], SLOTS[number % len(SLOTS)]
    names = {slot: word, "query_set": word}
    names |= {"encoder": word} if number % 2 else {"reranker": word}
    out, used, _ = invoke(word, **names)
    assert runs_of(out, used) == calm
    out, used, again = invoke(word, Options(frozen=True), **names)
    assert runs_of(out, used) == calm
    assert all(stage["reused"] for stage in again.values())
    work = open_workspace(out)
    assert verify(work) == []
    assert find_garbage(work, spared_seconds=-1).names == []


@pytest.mark.parametrize("word", ROOT_FOLDERS)
def test_a_stage_named_like_a_folder_of_every_root_is_refused(invoke, word):
    with pytest.raises(InputError, match=rf"stages\.{word}: a store root has a folder of this"):
        invoke("refused", search=word)


@pytest.mark.parametrize(
    "word",
    [pytest.param(word, marks=WHEN[number % 2]) for number, word in enumerate(ROOT_FOLDERS)],
)
def test_a_query_set_or_model_named_like_a_folder_of_every_root_changes_no_run(invoke, calm, word):
    out, used, _ = invoke(f"root-{word}", query_set=word, encoder=word)
    assert runs_of(out, used) == calm
    assert find_garbage(open_workspace(out), spared_seconds=-1).names == []
