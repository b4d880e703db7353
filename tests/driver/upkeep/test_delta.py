"""Deltas between generations, against whole exports and dictionaries."""

import json
from itertools import count
from random import Random

import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from nights_by_hand import Nights
from recipes import invoke

from raypipe.cli.main import run as run_verb
from raypipe.driver.generations.past import rollback
from raypipe.driver.upkeep.delta import export_delta
from raypipe.driver.upkeep.export import export
from raypipe.driver.workspace import Workspace
from raypipe.errors import IncompleteError, InputError, RefusedError
from raypipe.storage.generations import read_generation, reader_leases, retire
from raypipe.storage.records import hash_file


class Gap(Exception):
    pass


class Consumer:
    """A store of vectors, as docs/reindexing.md describes one."""

    def __init__(self, generation=0, rows=()):
        self.generation, self.rows = generation, dict(rows)

    def apply(self, delta):
        manifest = json.loads((delta / "manifest.json").read_text())
        if manifest["since"] not in (0, self.generation):
            raise Gap
        if manifest["since"] == 0:
            self.rows = {}
        for row in pq.read_table(delta / "upserts.parquet").to_pylist():
            self.rows[row["id"]] = row["text"], tuple(row["vector"])
        for row in pq.read_table(delta / "deletes.parquet").to_pylist():
            self.rows.pop(row["id"], None)
        assert len(self.rows) == manifest["rows"]
        self.generation = manifest["generation"]


def whole(root, generation, out):
    """Id -> (text, vector), from whole exports."""
    export(root / "vectors", "parquet", out / "vectors", generation=generation)
    export(root / "passages@collection", "parquet", out / "passages", generation=generation)
    texts = pq.read_table(out / "passages" / "passages.parquet").to_pylist()
    texts = {row["passage_id"]: row["text"] for row in texts}
    rows = pq.read_table(out / "vectors" / "embeddings.parquet").to_pylist()
    return {row["passage_id"]: (texts[row["passage_id"]], tuple(row["embedding"])) for row in rows}


@pytest.fixture
def nights(tmp_path):
    """Three nights; each has a passage of the machine `gpu` between those of `cpu`."""
    nights = Nights(tmp_path)
    nights.add({"a": ("one", "cpu"), "b": ("two", "gpu"), "c": ("three", "cpu"), "d": ("x", "cpu")})
    nights.add({"new": ("x", "cpu"), "c": ("three", "cpu"), "b": ("2", "gpu"), "a": ("one", "cpu")})
    nights.add({"c": ("three", "cpu"), "b": ("2", "gpu"), "a": ("one", "gpu")})
    return nights


def ids_in(file):
    return pq.read_table(file)["id"].to_pylist()


@pytest.mark.parametrize("at_once", [1, 8192])
def test_a_delta_has_what_is_new_what_changed_and_what_is_gone(
    nights, tmp_path, monkeypatch, at_once
):
    monkeypatch.setattr("raypipe.driver.upkeep.delta.ROW_GROUP_ROWS", at_once)
    manifest = export_delta(nights.root / "vectors", 1, tmp_path / "out", generation=2)
    upserts = pq.read_table(tmp_path / "out" / "upserts.parquet")
    assert upserts.column_names == ["id", "text", "vector"]
    rows = {row["id"]: (row["text"], tuple(row["vector"])) for row in upserts.to_pylist()}
    state = nights.states[2][1]
    assert [*rows] == ["new", "b"] and rows == {name: state[name] for name in rows}
    assert ids_in(tmp_path / "out" / "deletes.parquet") == ["d"]
    stores = [read_generation(nights.storage, "nightly", n).stores["vectors"] for n in (1, 2)]
    files = ("upserts.parquet", "deletes.parquet")
    assert manifest == json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert manifest == {
        "format": 1,
        "name": "nightly",
        "store": "vectors",
        "since": 1,
        "generation": 2,
        "fingerprints": dict(zip(("since", "generation"), stores, strict=True)),
        "dim": 4,
        "upserts": 2,
        "deletes": 1,
        "rows": 4,
        "files": {name: hash_file(tmp_path / "out" / name) for name in files},
    }


def test_a_vector_of_another_machine_is_another(nights, tmp_path):
    export_delta(nights.root / "vectors", 2, tmp_path / "out")
    assert ids_in(tmp_path / "out" / "upserts.parquet") == ["a"]
    assert ids_in(tmp_path / "out" / "deletes.parquet") == ["new"]


def test_a_passage_in_quarantine_leaves_and_comes_back(nights, tmp_path):
    passages = {"c": ("three", "cpu"), "b": ("2", None), "a": ("one", "gpu")}
    for number, changes in ((4, (0, ["b"])), (5, (1, []))):
        nights.add(passages if number == 4 else passages | {"b": ("2", "gpu")})
        manifest = export_delta(nights.root / "vectors", number - 1, tmp_path / str(number))
        deletes = ids_in(tmp_path / str(number) / "deletes.parquet")
        assert (manifest["upserts"], deletes) == changes


def test_no_change_is_an_empty_delta(nights, tmp_path):
    manifest = export_delta(nights.root / "vectors", 3, tmp_path / "out")
    assert (manifest["upserts"], manifest["deletes"], manifest["rows"]) == (0, 0, 3)


def test_both_generations_are_held_while_they_are_read(nights, tmp_path, monkeypatch):
    held = []

    def noted(path):
        held.extend(len(reader_leases(nights.storage, "nightly", n)) for n in (1, 2, 3))
        return hash_file(path)

    monkeypatch.setattr("raypipe.driver.upkeep.delta.hash_file", noted)
    export_delta(nights.root / "vectors", 1, tmp_path / "out")
    assert held[:3] == [1, 0, 1]
    assert [reader_leases(nights.storage, "nightly", n) for n in (1, 2, 3)] == [[], [], []]


WHOLE = "Hand over the whole in its place.*--since 0"


def test_where_no_delta_leads_the_whole_is_named(nights, tmp_path):
    out = tmp_path / "out"
    nights.add({"c": ("three", "cpu")}, model="other")
    changed = f"vectors: .*other settings since generation 3.*weights_sha256 .*{WHOLE}"
    with pytest.raises(RefusedError, match=changed):
        export_delta(nights.root / "vectors", 3, out)
    retire(nights.storage, "nightly", 2)
    with pytest.raises(RefusedError, match=f"--since 2: .*retired.*there are: 1, 3, 4. {WHOLE}"):
        export_delta(nights.root / "vectors", 2, out, generation=3)
    with pytest.raises(IncompleteError, match="not complete"):
        older = read_generation(nights.storage, "nightly", 1).stores["tokens@minilm"]
        nights.storage.delete(f"tokens@minilm/{older}/manifest.json")
        export_delta(nights.root / "vectors", 1, out, generation=3)
    assert not out.exists()


def test_what_has_no_delta_is_refused(nights, tmp_path):
    out, root = tmp_path / "out", nights.root
    fingerprint = read_generation(nights.storage, "nightly", 3).stores["vectors"]
    for place, since, message in [
        (root / "vectors", 4, "--since 4: expected a generation up to 3"),
        (root / "vectors" / fingerprint, 1, "--since 1: .* names a fingerprint"),
        (root / "nothing", 1, "nothing in generation 3 of nightly: no such store; it has ids@coll"),
        (root / "passages@collection", 1, "is for a collection's embeddings"),
        (tmp_path / "elsewhere" / "vectors", 1, "--since 1: .* has no generations"),
    ]:
        with pytest.raises(InputError, match=message):
            export_delta(place, since, out)
    out.mkdir()
    (out / "x").touch()
    with pytest.raises(InputError, match="not empty; name a new folder"):
        export_delta(root / "vectors", 1, out)


def test_the_command_writes_a_delta_and_has_its_own_code_where_there_is_none(
    nights, tmp_path, capsys
):
    words = ["export", str(nights.root / "vectors"), "--to"]
    more = ["--since", "1", "--out", str(tmp_path / "out")]
    for others in (["numpy", *more], ["parquet", *more, "--model", "minilm"]):
        assert run_verb([*words, *others])[0] == 2
        assert "--since 1: what changed leaves with --to parquet alone" in capsys.readouterr().err
    assert run_verb([*words, "parquet", *more, "--generation", "2"])[0] == 0
    assert capsys.readouterr().out.startswith("generation 1 to 2: 2 upserts, 1 deletes: ")
    retire(nights.storage, "nightly", 1)
    more[-1] += "2"
    assert run_verb([*words, "parquet", *more])[0] == 4


TEXTS = st.sampled_from(["one", "two", "three"])
MACHINES = st.sampled_from(["cpu", "cpu", "cpu", "gpu", None])
PASSAGES = st.dictionaries(st.sampled_from("abcdef"), st.tuples(TEXTS, MACHINES), min_size=1)
NIGHT = st.tuples(st.just("night"), PASSAGES, st.sampled_from(["minilm", "minilm", "other"]))
BACK = st.tuples(st.just("back"), st.integers(1, 5))
RETIREMENT = st.tuples(st.just("retire"), st.integers(1, 5))
FIRST = ("night", {"a": ("one", "cpu"), "b": ("two", None)}, "minilm")


@pytest.mark.slow
@settings(max_examples=30)
@given(st.lists(st.one_of(NIGHT, NIGHT, BACK, RETIREMENT), min_size=1, max_size=6))
@example([("night", {"b": ("two", "cpu")}, "minilm"), ("back", 1), ("retire", 1)])
@example([("night", {"b": ("two", "cpu")}, "other"), ("back", 1), ("back", 2)])
def test_deltas_lead_through_any_history_to_the_whole_exports(tmp_path_factory, history):
    """In order, twice, and from any generation to any newer one; and no row more than changed."""
    folder = tmp_path_factory.mktemp("history")
    nights, outs = Nights(folder), (folder / str(number) for number in count())
    standing, follower = [], Consumer()
    for kind, *step in [FIRST, *history]:
        if kind == "retire" and step[0] in standing[:-1]:
            retire(nights.storage, "nightly", step[0])
            standing.remove(step[0])
        if kind == "retire" or (kind == "back" and step[0] not in standing[:-1]):
            continue
        if kind == "night":
            current = nights.add(*step)
        else:
            older = read_generation(nights.storage, "nightly", step[0])
            current = nights.go_back(older.stores, step[0])
        standing.append(current)
        model, state = nights.states[current]
        assert whole(nights.root, current, next(outs)) == state
        deltas = {}
        for since in range(current + 1):
            out = next(outs)
            made_by, before = nights.states.get(since, (model, {}))
            if since and (since not in standing or made_by != model):
                with pytest.raises(RefusedError, match=WHOLE):
                    export_delta(nights.root / "vectors", since, out)
                continue
            manifest = export_delta(nights.root / "vectors", since, out)
            changed = [name for name, row in state.items() if before.get(name) != row]
            assert (manifest["upserts"], manifest["deletes"]) == (
                len(changed),
                len(before.keys() - state.keys()),
            )
            consumer = Consumer(since, before)
            for _ in range(2):
                consumer.apply(out)
                assert (consumer.generation, consumer.rows) == (current, state)
                consumer.generation = since
            if since:
                with pytest.raises(Gap):
                    Consumer(since + 1, before).apply(out)
            deltas[since] = out
        follower.apply(deltas.get(follower.generation, deltas[0]))
        assert (follower.generation, follower.rows) == (current, state)


RECIPE = """
format: 1
name: nightly
collection: {{format: msmarco-v1, input: {folder}/passages.tsv}}
models: {{tiny: {{path: {model}}}}}
stages: {{vectors: {{do: encode, model: tiny}}}}
resources: {{backend: inline, device: cpu, shard_tokens: 40}}
"""


@pytest.mark.slow
def test_deltas_lead_through_real_nights_to_the_whole_exports(tmp_path, tiny, tiny_model):
    """Random changes, a rollback, other weights and the way back behind them."""
    rng, work, follower = Random(5), tmp_path / "work", Consumer()
    other = tiny.make_tiny_bert(tmp_path / "other", seed=9)
    passages, whole_handed = {f"p{row}": f"lease {row}" for row in range(12)}, []
    steps = [tiny_model, tiny_model, tiny_model, 2, tiny_model, other, other, 5, tiny_model]
    for number, step in enumerate(steps, 1):
        if isinstance(step, int):
            rollback(Workspace(work), "nightly", step)
        else:
            for name in rng.sample(sorted(passages), 3):
                passages[name] = f"shard {rng.randrange(4)}"
            del passages[rng.choice(sorted(passages))]
            passages[f"new{number}"] = "lease 1"
            lines = (
                f"{name}\t{text}\n" for name, text in rng.sample([*passages.items()], len(passages))
            )
            (tmp_path / "passages.tsv").write_text("".join(lines))
            invoke(RECIPE.format(folder=tmp_path, model=step), work, reindex=True)
        out = tmp_path / f"delta-{number}"
        try:
            export_delta(work / "stores" / "vectors", follower.generation, out)
        except RefusedError:
            whole_handed.append(number)
            export_delta(work / "stores" / "vectors", 0, out)
        follower.apply(out)
        assert follower.generation == number
        assert follower.rows == whole(work / "stores", number, tmp_path / str(number))
    assert whole_handed == [6, 8]  # to the other weights, and back
