"""Every file that finished invocations leave is in the list of docs/reliability.md."""

import shutil

import pytest
from car_files import page, paragraph, section, under, words
from left_files import WAYS, end_holders, files_in, follow, listed, pattern_of

from raypipe.cli.main import run as command
from raypipe.config.load import load_recipe
from raypipe.driver.execute import Watcher
from raypipe.driver.pipeline import Options, run_pipeline
from raypipe.driver.upkeep.gc import delete, find_garbage
from raypipe.driver.upkeep.status import open_workspace
from raypipe.driver.upkeep.verify import verify
from raypipe.errors import CorruptError, InputError, LimitError

RECIPE = """
format: 1
name: nightly
collection: {{format: {collection}}}
queries: {{test: {{{queries}}}}}
models: {{tiny: {{path: {model}}}}}
stages:
  vectors: {{do: encode, model: tiny}}
  dense: {{do: search, index: vectors, depth: 3}}
evaluate: {{measures: [RR@10]}}
resources: {{backend: inline, device: cpu, shard_rows: 4}}
"""
TEXTS = ["the zebra", "a lease", "of shards", "rank a query", "run", "zebra run", "query a lease"]


class Nights:
    """A workspace that was re-indexed; its first change was refused."""

    def __init__(self, folder, model):
        (folder / "queries.tsv").write_text("1\tthe zebra\n2\ta lease\n")
        (folder / "qrels.txt").write_text("1 0 p0 1\n2 0 p1 1\n")
        collection = f"msmarco-v1, input: {folder}/passages.tsv"
        queries = f"file: {folder}/queries.tsv, qrels: {folder}/qrels.txt"
        text = RECIPE.format(collection=collection, queries=queries, model=model)
        self.files, self.out = folder, folder / "work"
        self.recipe = load_recipe(text, source="nightly")
        self.write(TEXTS)
        self.again(self.out)
        self.write(["rank", *TEXTS[::-1], "of a run"])
        with pytest.raises(LimitError):
            self.again(self.out, max_drift=("overlap@10=1.0",))
        self.again(self.out)
        self.again(self.out)  # what the night before last used is garbage now
        work = open_workspace(self.out)
        delete(work, find_garbage(work, spared_seconds=-1.0), spared_seconds=-1.0)
        end_holders(self.out)

    def write(self, texts):
        lines = (f"p{number}\t{text}\n" for number, text in enumerate(texts))
        (self.files / "passages.tsv").write_text("".join(lines))

    def again(self, out, **options):
        run_pipeline(self.recipe, out, Options(reindex=True, **options), watcher=Watcher())


class Course:
    """A training on triples of texts."""

    def __init__(self, small_recipe, train, folder):
        lines = (f"query {n}\tzebra run {n}\tof a lease {n}\n" for n in range(40))
        (folder / "triples.tsv").write_text("".join(lines))
        self._train, self.out = train, folder / "work"
        texts = {"docs": None, "small": {"texts": str(folder / "triples.tsv")}}
        self._recipe = small_recipe(train=texts, steps=4, validate={"every": 2})
        self.again(self.out)
        end_holders(self.out)

    def again(self, out):
        self._train(self._recipe, out)


class Headings:
    """A pipeline over TREC CAR's topics, which raypipe writes as files."""

    def __init__(self, folder):
        (folder / "car.cbor").write_bytes(paragraph("p0", words("the zebra")))
        (folder / "pages.cbor").write_bytes(page("A", section("S", under("p0"))))
        (folder / "run.trec").write_text("A/S Q0 p0 1 1 x\n")
        car = {"level": "hierarchical", "outlines": "pages.cbor", "pages": "pages.cbor"}
        body = {
            "format": 1,
            "name": "headings",
            "collection": {"format": "trec-car", "input": "car.cbor"},
            "queries": {"test": {"car": car}},
            "stages": {"given": {"do": "read", "runs": {"test": "run.trec"}}},
            "evaluate": {"measures": ["AP"]},
            "resources": {"backend": "inline", "device": "cpu"},
        }
        self.recipe, self.out = load_recipe(body, base=folder), folder / "work"
        self.again(self.out)
        end_holders(self.out)

    def again(self, out):
        run_pipeline(self.recipe, out, Options(), watcher=Watcher())


@pytest.fixture(scope="module")
def headings(tmp_path_factory):
    return Headings(tmp_path_factory.mktemp("headings"))


@pytest.fixture(scope="module")
def nights(tmp_path_factory, tiny_model):
    return Nights(tmp_path_factory.mktemp("nights"), tiny_model)


@pytest.fixture
def course(small_recipe, train, tmp_path):
    return Course(small_recipe, train, tmp_path)


@pytest.fixture
def docs(tmp_path, tiny_model):
    """A pipeline over the collection that raypipe makes itself."""
    queries = "builtin: test"
    text = RECIPE.format(collection="python-docs", queries=queries, model=tiny_model)
    recipe = load_recipe(text, overrides=["collection.max_passages=300"], source="nightly")

    class Docs:
        out = tmp_path / "work"

        def again(self, out):
            run_pipeline(recipe, out, Options(), watcher=Watcher())

    made = Docs()
    made.again(made.out)
    end_holders(made.out)
    return made


def tried(made, folder, name, way, position):
    """What became of a file that was damaged in a copy; the copy is as before afterwards."""
    before = (made.out / name).read_bytes()
    WAYS[way](folder / name, position)
    fate = listed()[pattern_of(name)][way == "deleted"]
    where = f"{name}, {way}"
    if fate == "verified":
        found = damages(folder)
        assert found, where
        assert any(name.endswith(damage.name) or name.split("/")[-1] in damage.problem
                   for damage in found), (where, found)  # fmt: skip
        for damage in found:
            follow(damage.remedy, folder)
        made.again(folder)
        assert damages(folder) == [], (where, found)
    elif fate == "made again":
        made.again(folder)
        assert (folder / name).read_bytes() == before, where
        assert damages(folder) == [], where
    else:
        assert fate == "harmless"
        assert damages(folder) == [], where
        made.again(folder)
        assert damages(folder) == [], where


def damages(folder):
    """What verify tells, also where it cannot begin."""
    try:
        return verify(open_workspace(folder))
    except (CorruptError, InputError) as error:
        word = str(error).partition(":")[0]
        return [Told(word, str(error))]


class Told:
    def __init__(self, name, problem):
        self.name, self.problem = name, problem
        self.remedy = f"delete {name}" if "summary.json has" in problem else ""

    def __repr__(self):
        return self.problem


def copied(made, tmp_path):
    return shutil.copytree(made.out, tmp_path / "copy" / "work", copy_function=shutil.copy2)


def test_every_file_of_re_indexed_generations_is_in_the_list(nights):
    names = files_in(nights.out)
    assert {name: pattern_of(name) for name in names if pattern_of(name) is None} == {}
    assert damages(nights.out) == []
    assert len(names) > 80 and {pattern_of(name) for name in names} > {
        "stores/generations/*/*.json", "stores/gc/**", "runs/*/*", "stores/*/*/shards/*",
    }  # fmt: skip


@pytest.mark.slow
@pytest.mark.fault(12, "and where it is deleted")
@pytest.mark.fault(11, "and where the file is cut off")
@pytest.mark.fault(
    10,
    "a bit flipped in a file of each kind of a workspace: found, made again, or harmless as listed",
)
@pytest.mark.parametrize("way", WAYS)
def test_one_file_of_each_kind_meets_its_fate(nights, tmp_path, way):
    kinds = {pattern_of(name): name for name in files_in(nights.out)}
    for number, name in enumerate(kinds.values()):
        folder = copied(nights, tmp_path / str(number))
        tried(nights, folder, name, way, 31 * number + 5)


@pytest.mark.parametrize("way", WAYS)
def test_the_files_of_topics_meet_their_fate(headings, tmp_path, way):
    names = [name for name in files_in(headings.out) if name.startswith("topics/")]
    assert len(names) == 3
    for number, name in enumerate(names[:2]):  # the note and the judgements
        folder = copied(headings, tmp_path / str(number))
        tried(headings, folder, name, way, 31 * number + 5)


@pytest.mark.fault(
    12, "every file of three workspaces flipped, cut and deleted: its fate is the listed one"
)
@pytest.mark.long
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("made", ["nights", "course", "docs"])
def test_every_file_meets_its_fate(request, tmp_path, made, way):
    made = request.getfixturevalue(made)
    names = files_in(made.out)
    assert [name for name in names if pattern_of(name) is None] == []
    for number, name in enumerate(names):
        folder = copied(made, tmp_path / str(number))
        tried(made, folder, name, way, 31 * number + 5)
        shutil.rmtree(tmp_path / str(number))


def test_verify_exits_with_3_and_names_the_file_and_the_remedy(nights, tmp_path, capsys):
    folder = copied(nights, tmp_path)
    (folder / "runs" / "test" / "dense.trec").unlink()
    assert command(["verify", str(folder)])[0] == 3
    told = capsys.readouterr().out
    assert told.startswith("runs/test/dense.trec: ")
    assert told.endswith("remedy: delete runs/test/dense.trec and run again to write it\n")
