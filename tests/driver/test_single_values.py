"""Recipes of single verbs, fused files, teachers and guards, by hand."""

from types import SimpleNamespace

import pytest
import yaml

from raypipe.driver.training.teachers import teacher_of
from raypipe.driver.verbs.fuse_files import fuse_files
from raypipe.driver.verbs.single_stage import (
    aggregate_recipe,
    collection_of,
    model_of,
    score_recipe,
    search_recipe,
)
from raypipe.errors import InputError
from raypipe.training.examples.guards import guards_of, lines_about

HELD = {
    "format": 1,
    "name": "held",
    "collection": {"format": "msmarco-v1", "input": "/c/passages.tsv"},
    "queries": {"dev": {"file": "/c/q.tsv", "qrels": "/c/qrels.txt"}},
    "models": {"minilm": {"path": "minilm"}, "duo": {"path": "/m/duo"}},
    "stages": {
        "lucene": {"do": "index"},
        "vectors": {"do": "encode", "model": "minilm"},
        "bm25": {"do": "search", "index": "lucene", "depth": 50},
        "pairs": {"do": "score", "run": "bm25", "model": "duo", "k1": 9},
    },
    "evaluate": {"measures": ["RR@10"], "baseline": "bm25"},
}


@pytest.fixture
def held(tmp_path):
    """A workspace's recipe, with changes."""

    def made(**changes):
        folder = tmp_path / "held"
        folder.mkdir(exist_ok=True)
        (folder / "recipe.yaml").write_text(yaml.safe_dump({**HELD, **changes}, sort_keys=False))
        return folder

    return made


def test_a_collection_is_a_workspaces_or_told_by_its_files(held, tmp_path):
    folder = held()
    assert collection_of(folder) == {
        "collection": HELD["collection"],
        "stores": str(folder / "stores"),
    }
    assert collection_of(held(stores="s3://b/x"))["stores"] == "s3://b/x"
    file = tmp_path / "passages.tsv"
    file.write_text("1\ttext\n")
    found = collection_of(file)
    assert found == {"collection": {"format": "msmarco-v1", "input": str(file)}}


def test_a_search_is_of_the_one_index_that_fits(held, tmp_path):
    queries = tmp_path / "q.tsv"
    folder = held()
    with pytest.raises(InputError, match="it has lucene, vectors; name one with --model"):
        search_recipe(folder, queries, model=None, depth=5, k1=None, b=None)
    with pytest.raises(InputError, match="'other' fits 0"):
        search_recipe(folder, queries, model="other", depth=5, k1=None, b=None)
    with pytest.raises(InputError, match="expected a workspace with an index"):
        search_recipe(tmp_path, queries, model=None, depth=5, k1=None, b=None)
    for named in ("vectors", "minilm"):
        found = search_recipe(folder, queries, model=named, depth=5, k1=None, b=None)
        assert list(found.stages) == ["vectors", "search"]
        assert (found.stages["search"].index, found.stages["search"].depth) == ("vectors", 5)
        assert found.stages["search"].bm25 is None
        assert found.queries["queries"].file == str(queries)
    bm25 = {
        (k1, b): search_recipe(folder, queries, model="lucene", depth=5, k1=k1, b=b)
        .stages["search"]
        .bm25
        for k1, b in ((None, None), (1.2, None), (None, 0.75))
    }
    assert {key: (each.k1, each.b) for key, each in bm25.items()} == {
        (None, None): (0.9, 0.4), (1.2, None): (1.2, 0.4), (None, 0.75): (0.9, 0.75),
    }  # fmt: skip


def scored(tmp_path, duo, depth, settings=None, qrels=None):
    collection = tmp_path / "passages.tsv"
    collection.write_text("1\ttext\n")
    recipe = score_recipe(
        tmp_path / "r.trec", collection, tmp_path / "q.tsv", model=model_of("minilm", None),
        duo=duo, depth=depth, settings=settings or {}, qrels=qrels, measures="RR@10, nDCG@5",
    )  # fmt: skip
    return recipe, recipe.stages["score"]


def test_a_given_run_is_scored_to_the_papers_depths_unless_told(tmp_path):
    _, mono = scored(tmp_path, False, None)
    assert (mono.k0, mono.k1, mono.run, mono.model) == (1000, None, "run", "model")
    _, duo = scored(tmp_path, True, None)
    assert (duo.k0, duo.k1) == (None, 50)
    assert scored(tmp_path, False, 7)[1].k0 == 7 and scored(tmp_path, True, 7)[1].k1 == 7
    recipe, mono = scored(tmp_path, False, 7, {"tail": "drop", "score": None})
    assert mono.tail == "drop" and recipe.evaluate is None
    recipe, _ = scored(tmp_path, False, 7, qrels=tmp_path / "qrels.txt")
    assert recipe.evaluate.measures == ("RR@10", "nDCG@5") and recipe.evaluate.baseline == "run"
    assert recipe.queries["queries"].qrels == str(tmp_path / "qrels.txt")
    assert recipe.stages["run"].runs == {"queries": str(tmp_path / "r.trec")}


def test_a_model_is_packaged_or_a_folder_with_its_preset(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert model_of("minilm", None) == {"model": {"path": "minilm"}}
    found = model_of("m", "monobert")
    assert found == {"model": {"path": str(tmp_path / "m"), "preset": "monobert"}}


def test_a_workspaces_pairs_are_aggregated_beside_what_it_has(held, tmp_path):
    folder = held()
    found = aggregate_recipe(folder, method="sum", k1=None, m=None, seed=3, tail="keep")
    assert list(found.stages) == ["lucene", "vectors", "bm25", "pairs", "sum"]
    stage = found.stages["sum"]
    assert (stage.pairs, stage.method, stage.k1, stage.seed, stage.tail) == (
        "pairs", "sum", 9, 3, "keep",
    )  # fmt: skip
    assert found.stores == str(folder / "stores") and found.evaluate.baseline == "bm25"
    less = aggregate_recipe(folder, method="sample", k1=5, m=2, seed=0, tail="drop").stages[
        "sample"
    ]
    assert (less.k1, less.m, less.tail) == (5, 2, "drop")
    other = held(evaluate={"measures": ["RR@10"], "baseline": "gone"}, stores="/s")
    found = aggregate_recipe(other, method="sum", k1=None, m=None, seed=3, tail="keep")
    assert found.evaluate.baseline is None and found.stores == "/s"
    stages = {name: stage for name, stage in HELD["stages"].items() if name != "pairs"}
    for changed in (stages, {**HELD["stages"], "more": HELD["stages"]["pairs"]}):
        with pytest.raises(InputError, match="expected one score stage with k1"):
            aggregate_recipe(
                held(stages=changed), method="sum", k1=None, m=None, seed=3, tail="keep"
            )
    with pytest.raises(InputError, match="expected a workspace in which a duo"):
        aggregate_recipe(tmp_path, method="sum", k1=None, m=None, seed=3, tail="keep")


def test_run_files_are_fused_by_their_ids(tmp_path):
    one, two = tmp_path / "1.trec", tmp_path / "2.trec"
    one.write_text("q2 Q0 b 1 9 x\nq2 Q0 a 2 8 x\nq1 Q0 c 1 5 x\n")
    two.write_text("q3 Q0 a 1 3 y\nq2 Q0 a 1 2 y\nq2 Q0 b 2 1 y\nq2 Q0 d 3 0.5 y\n")
    told = fuse_files([one, two], method="rrf", depth=2, out=tmp_path / "out")
    assert told == {"queries": 3, "lines": 4}
    lines = [line.split() for line in (tmp_path / "out" / "fused.trec").read_text().splitlines()]
    # a and b tie for q2: the smaller id first; the written score of the second is lowered.
    assert [line[:4] for line in lines] == [
        ["q2", "Q0", "a", "1"], ["q2", "Q0", "b", "2"], ["q1", "Q0", "c", "1"],
        ["q3", "Q0", "a", "1"],
    ]  # fmt: skip
    assert float(lines[0][4]) == pytest.approx(1 / 61 + 1 / 62) and lines[0][5] == "fused"
    tsv = (tmp_path / "out" / "fused.tsv").read_text()
    assert tsv == "q2\ta\t1\nq2\tb\t2\nq1\tc\t1\nq3\ta\t1\n"


def test_a_teacher_is_a_run_file_or_the_one_mono_run_of_a_workspace(held, tmp_path):
    assert teacher_of(str(tmp_path / "t.trec")) == (str(tmp_path / "t.trec"), None)
    mono = {"do": "score", "run": "bm25", "model": "minilm", "k0": 7}
    folder = held(stages={**HELD["stages"], "mono": mono})
    with pytest.raises(InputError, match="found none"):
        teacher_of(str(folder))
    run = folder / "runs" / "dev" / "mono.trec"
    run.parent.mkdir(parents=True)
    run.write_text("x")
    (run.parent / "pairs.trec").write_text("x")
    (run.parent / "bm25.trec").write_text("x")
    assert teacher_of(str(folder)) == (str(run), 7)
    second = folder / "runs" / "test" / "mono.trec"
    second.parent.mkdir()
    second.write_text("x")
    with pytest.raises(InputError, match="found runs/dev/mono.trec, runs/test/mono.trec"):
        teacher_of(str(folder))
    with pytest.raises(InputError, match="found none"):
        teacher_of(str(tmp_path))


def test_guards_hold_judged_queries_of_all_sets_and_passages_of_their_own_collection(tmp_path):
    def file(name, text):
        (tmp_path / name).write_text(text)
        return str(tmp_path / name)

    queries = file("q.tsv", "1\tone\n2\ttwo\n3\tthree\n")
    qrels = file("r.txt", "1 0 a 1\n1 0 b 0\n2 0 c 2\n")
    other = file("o.tsv", "7\tseven\n8\tone\n")

    def guarded(**settings):
        given = {"queries": queries, "qrels": qrels, "collection": "x", "leave_out_passages": False}
        return SimpleNamespace(**{**given, **settings})

    recipe = SimpleNamespace(
        dev={"d": guarded()},
        guard={
            "whole": guarded(queries=other, qrels=None),
            "out": guarded(collection="y", leave_out_passages=True),
            "nowhere": guarded(collection=None),
        },
        collections={"x": None, "y": None, "z": None},
    )
    found = guards_of(recipe)
    assert {name: guard.queries for name, guard in found.items()} == dict.fromkeys(
        "xyz", ("one", "two", "seven")
    )
    assert (found["x"].shared, found["x"].left_out) == (frozenset("ac"), frozenset())
    assert (found["y"].shared, found["y"].left_out) == (frozenset("ac"), frozenset("abc"))
    assert (found["z"].shared, found["z"].left_out) == (frozenset(), frozenset())
    recipe.guard = {"bad": guarded(queries=other)}
    recipe.dev = {}
    with pytest.raises(InputError, match="none of its queries is judged"):
        guards_of(recipe)


def test_what_is_told_of_a_training_set_names_only_what_was_left_out():
    dropped = dict.fromkeys(
        ("same_query", "near_query", "triples", "left_out_negative", "left_out_positive",
         "shared_passages"), 0,
    )  # fmt: skip
    short = dict.fromkeys(
        ("without_negatives", "beyond_runs", "without_teacher", "negatives_without_teacher",
         "filtered"), 0,
    )  # fmt: skip
    facts = {"examples": 1200, "passages": 2, "queries": 30, "dropped": dropped, "samples": []}
    first, *guards = lines_about("docs", {**facts, "short": short})
    assert first == "train: docs: 1,200 examples of 2 passages over 30 queries"
    assert len(guards) == 2
    told = lines_about("docs", {
        **facts, "short": {**short, "filtered": 4, "without_negatives": 3},
        "dropped": {**dropped, "left_out_positive": 1, "triples": 2}, "samples": ["'a' for 'b'"],
    })  # fmt: skip
    assert told[0].endswith(
        "; left out: 3 relevant passages with too few negatives, 4 negatives that the teacher puts "
        "above the relevant passage"
    )
    assert "(2 triples)" in told[1] and "left out 1 judged passages" in told[3]
    assert told[4] == "guard: docs: for instance 'a' for 'b'"
