"""`--max-drift` after half of a collection went, with something else changed in the same night."""

import shutil

import pytest

from raypipe.cli.main import run

RECIPE = """
format: 1
name: nightly
collection: {format: msmarco-v1, input: HERE/passages.tsv}
queries: {test: {file: HERE/queries.tsv, qrels: HERE/qrels.txt}}
models: {tiny: {path: MODEL}}
stages:
  vectors: {do: encode, model: tiny}
  dense: {do: search, index: vectors, depth: 3}
  short: {do: search, index: vectors, depth: 2}
  both: {do: fuse, runs: [dense, short], method: rrf, depth: 3}
evaluate: {measures: [nDCG@10], baseline: dense}
resources: {backend: inline, device: cpu}
"""
TEXTS = ["the zebra", "a lease", "of shards", "run", "rank a query", "query run"]
QUERIES = {"1": "the zebra", "2": "a lease", "3": "of shards"}
LIMITS = [f"--max-drift={limit}" for limit in ("overlap@10=0.99", "nDCG@10=0.001", "rbo=0.99")]


class Nights:
    def __init__(self, folder, model):
        self.folder, self.work = folder, folder / "work"
        self.text = RECIPE.replace("HERE", str(folder)).replace("MODEL", str(model))
        self.qrels = "1 0 p0 1\n2 0 p1 1\n3 0 p2 1\n"

    def reindex(self, *more, texts=TEXTS, queries=QUERIES):
        lines = [f"p{number}\t{text}\n" for number, text in texts]
        (self.folder / "passages.tsv").write_text("".join(lines))
        (self.folder / "queries.tsv").write_text("".join(f"{q}\t{t}\n" for q, t in queries.items()))
        (self.folder / "qrels.txt").write_text(self.qrels)
        recipe = self.folder / "recipe.yaml"
        recipe.write_text(self.text)
        return run(["reindex", str(recipe), "--out", str(self.work), *more])[0]

    def replace(self, *pairs):
        for old, new in pairs:
            assert old in self.text
            self.text = self.text.replace(old, new)


WHOLE = list(enumerate(TEXTS))
HALF = WHOLE[::2]


@pytest.fixture(scope="module")
def first_night(tmp_path_factory, tiny_model):
    folder = tmp_path_factory.mktemp("first")
    assert Nights(folder, tiny_model).reindex(*LIMITS, texts=WHOLE) == 0
    return folder


@pytest.fixture
def nights(first_night, tmp_path, tiny_model):
    shutil.copytree(first_night / "work", tmp_path / "work")
    return Nights(tmp_path, tiny_model)


def renamed(nights):
    nights.replace(
        *(("vectors:", "codes:"), ("vectors,", "codes,"), ("baseline: dense", "baseline: near")),
        *(("dense:", "near:"), ("[dense, short]", "[near, few]"), ("short:", "few:")),
        ("both:", "fused:"),
    )


def gone(nights):
    shutil.rmtree(nights.work / "stores" / "dense.test")


def without_spec(nights):
    (spec,) = (nights.work / "stores" / "dense.test").glob("*/spec.json")
    spec.unlink()


CHANGES = {
    "nothing": (lambda nights: None, QUERIES, 3),
    "a query more": (lambda nights: None, {**QUERIES, "4": "rank"}, 3),
    "a letter of a query": (lambda nights: None, {**QUERIES, "1": "the zebras"}, 2),
    "another query set's name": (lambda nights: nights.replace(("test:", "watched:")), QUERIES, 0),
    "other stages' names": (renamed, QUERIES, 0),
    "every query": (lambda nights: None, {"1": "rank", "7": "a lease", "8": "run"}, 0),
    "all judgements": (
        lambda nights: setattr(nights, "qrels", "4 0 p0 1\n"),
        {**QUERIES, "4": "rank"},
        3,
    ),
    "another depth and name": (
        lambda nights: nights.replace(("short:", "few:"), (", short]", ", few]"), ("h: 2", "h: 1")),
        QUERIES,
        3,  # the other runs are compared
    ),
    "the base's run": (gone, QUERIES, 3),
    "the base's spec.json": (without_spec, QUERIES, 3),
}
UNTRIED = {
    "another query set's name": "dense on watched: overlap@10=0.99, nDCG@10=0.001, rbo=0.99 could "
    "not be tried: not compared with generation 1: it names no run dense.watched",
    "other stages' names": "near on test: overlap@10=0.99, nDCG@10=0.001, rbo=0.99 could not be "
    "tried: not compared with generation 1: it names no run near.test",
    "every query": "dense on test: overlap@10=0.99, nDCG@10=0.001, rbo=0.99 could not be tried: "
    "not compared with generation 1: no query of it has the same id and text",
    "all judgements": "dense on test, over 3 queries: nDCG@10=0.001 could not be tried: "
    "none of them is judged now",
    "another depth and name": "few on test: overlap@10=0.99, nDCG@10=0.001, rbo=0.99 could not be "
    "tried: not compared with generation 1: it names no run few.test",
    "the base's run": "not compared with generation 1: its store dense.test was deleted",
    "the base's spec.json": "not compared with generation 1: the spec.json of its store dense.test "
    "was deleted",
}


@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("change", CHANGES)
def test_half_a_collection_is_not_published_whatever_else_changed(nights, capsys, change, frozen):
    make, queries, compared = CHANGES[change]
    make(nights)
    shown = [*LIMITS, *(["--frozen"] if frozen else [])]
    code = nights.reindex(*shown, texts=HALF, queries=queries)
    told = capsys.readouterr()
    if frozen and code == 4:
        assert change in (
            "another query set's name",
            "other stages' names",
            "another depth and name",
            "the base's run",
            "the base's spec.json",
        )
        return
    assert code == 5
    assert UNTRIED.get(change, f", over {compared} queries: overlap@10 0.") in told.err
    assert "--accept" in told.err
    assert run(["history", str(nights.work)])[0] == 0
    told = capsys.readouterr().out.splitlines()
    assert [line.split(",")[0] for line in told] == ["generation 1", "generation 2 (refused)"]
    assert (f" over {compared} queries" in told[1]) == (compared > 0)
    assert (": not compared with" in told[1]) == (change in UNTRIED and change != "all judgements")
    assert nights.reindex("--accept", texts=HALF, queries=queries) == 0
    assert "generation 3 is current: what was built as generation 2" in capsys.readouterr().out


@pytest.mark.parametrize("change", CHANGES)
def test_the_same_collection_is_published_if_its_runs_could_be_compared(nights, capsys, change):
    make, queries, _ = CHANGES[change]
    make(nights)
    code = nights.reindex(*LIMITS, texts=WHOLE, queries=queries)
    told = capsys.readouterr()
    made_anew = ("the base's run", "the base's spec.json")
    if change in UNTRIED and change not in made_anew:
        assert code == 5 and UNTRIED[change] in told.err
    else:
        assert code == 0, told.err
        stays = change in ("nothing", *made_anew)
        assert ("stays current" in told.out) == stays, told.out
