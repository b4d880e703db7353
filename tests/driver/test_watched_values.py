"""Backends, signals, progress and leases around a stage: who is asked, once, and what is told."""

import io
import json
import os
import signal
import threading
from types import SimpleNamespace

import pytest

from raypipe.cluster.loop import Report
from raypipe.config import load_recipe
from raypipe.driver import pipeline
from raypipe.driver.invocation import invocation
from raypipe.driver.machine.backends import LazyBackends
from raypipe.driver.machine.signals import interruptible
from raypipe.driver.recipe.chain import Chain
from raypipe.driver.recipe.execute import StageResult, _compare_workers, _working_seconds
from raypipe.driver.report import progress
from raypipe.driver.report.measure import _inferences, _ms
from raypipe.driver.upkeep import doctor
from raypipe.driver.upkeep.gc import _is_left_over
from raypipe.driver.workspace import Workspace
from raypipe.errors import CorruptError, InputError, Interrupted, LimitError, RefusedError
from raypipe.names import Role, of_collection, of_queries, of_stage, scoring_of, tokens_of
from raypipe.storage.holder import process_label
from raypipe.storage.root import ROOT_FORMAT


class Machine:
    """A backend with room for so many actors."""

    def __init__(self, room):
        self.room, self.closed = room, 0

    def capacity(self, needs):
        return self.room

    def close(self):
        self.closed += 1


def lazy(machine, actors):
    starts = []

    def start():
        starts.append(threading.current_thread().name)
        if isinstance(machine, BaseException):
            raise machine
        return machine

    return LazyBackends(start, lambda: SimpleNamespace(num_actors=actors)), starts


@pytest.mark.parametrize(
    ("actors", "room", "shards", "expected"),
    [(4, 9, 9, 4), (9, 4, 9, 4), (9, 9, 4, 4), (3, 0, 5, 1), (1, 1, 1, 1)],
)
def test_actors_are_as_many_as_asked_fit_and_have_work(actors, room, shards, expected):
    backends, starts = lazy(Machine(room), actors)
    assert starts == []
    assert backends.limits(None, shards).num_actors == expected
    backends.close()


def test_a_backend_starts_once_apart_and_is_closed_once():
    machine, before = Machine(1), set(threading.enumerate())
    backends, starts = lazy(machine, 1)
    backends.warm()
    assert backends.get() is backends.get() is machine
    assert starts == ["start backend"] and machine.closed == 0
    (thread,) = [t for t in threading.enumerate() if t not in before]
    assert thread.name == "start backend"
    assert thread.daemon  # it lives as long as the backend does
    backends.close()
    backends.close()
    thread.join(10)
    assert machine.closed == 1 and not thread.is_alive()
    never, starts = lazy(machine, 1)
    never.close()
    assert starts == [] and machine.closed == 1


def test_what_ends_a_start_is_told_to_each_who_asks():
    backends, _ = lazy(OSError("no room"), 1)
    for _ in range(2):
        with pytest.raises(OSError, match="no room"):
            backends.get()
    backends.close()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_is_a_question_and_then_an_ending(number):
    before = {n: signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)}
    asked = []
    with pytest.raises(Interrupted, match=signal.Signals(number).name) as told:
        with interruptible() as should_stop:
            assert should_stop() is None
            os.kill(os.getpid(), number)
            os.kill(os.getpid(), signal.SIGTERM)  # the first one counts
            asked.append(should_stop())
    assert told.value.exit_code == 128 + number == asked[0].exit_code
    assert {n: signal.getsignal(n) for n in before} == before
    with interruptible() as should_stop:
        assert should_stop() is None
    assert {n: signal.getsignal(n) for n in before} == before


def result(reused=False, rows=1200, kept=0, lost=0):
    return StageResult("x", "f", reused, rows, 9, kept, lost, 1.0, 1.26, None)


def test_a_file_gets_a_line_a_stage_and_one_every_ten_seconds(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    stream = io.StringIO()
    watcher = progress.TerminalWatcher(stream)
    watcher.began("x", Report(num_planned=9, num_reused=2))
    for seconds, done in ((9.9, 1), (10.0, 2), (19.9, 3), (20.0, 4)):
        now[0] = 100.0 + seconds
        watcher.advanced("x", Report(9, 2, done, num_lost=1 if done == 4 else 0))
    watcher.ended("x", result())
    watcher.ended("x", result(reused=True))
    watcher.ended("x", result(kept=3, lost=2))
    assert stream.getvalue().splitlines() == [
        "x: 2 of 9 shards",
        "x: 4 of 9 shards",
        "x: 6 of 9 shards, 1 workers lost",
        "x: 1,200 rows in 1.3 s",
        "x: reused, 1,200 rows",
        "x: 1,200 rows in 1.3 s, 3 shards kept, 2 in quarantine",
    ]
    watcher.stop()


def test_a_terminal_gets_a_bar_that_goes_away(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setenv("TERM", "xterm")
    stream = Terminal()
    watcher = progress.TerminalWatcher(stream)
    watcher.began("x", Report(num_planned=9, num_reused=2, num_done=1))
    bar = watcher._progress
    assert (bar.tasks[0].total, bar.tasks[0].completed) == (9, 3)
    assert bar.live.transient
    watcher.advanced("x", Report(9, 2, 5))
    assert bar.tasks[0].completed == 7
    watcher.ended("x", result())
    assert watcher._progress is None and not bar.live.is_started
    assert "1,200 rows in 1.3 s" in stream.getvalue()


def test_workers_that_differ_in_what_could_change_bytes_are_refused():
    seen = {"python": "3.11", "torch": "2"}
    _compare_workers("x", seen, {"python": "3.11", "torch": "2", "ray": "1", "tokenizers": "5"})
    _compare_workers("x", seen, {"python": "3.11", "ray": "2"})
    for key, value in (("torch", "3"), ("tokenizers", "6"), ("python", "3.12")):
        with pytest.raises(InputError, match=f"x: a worker has {key} {value}, expected "):
            _compare_workers("x", seen, {key: value})


def test_a_stores_time_is_of_its_last_publication(tmp_path):
    workspace = Workspace(tmp_path / "w")
    manifest = SimpleNamespace(store="x", fingerprint="f")
    assert _working_seconds(workspace, manifest) is None
    log = tmp_path / "w" / "stores" / "x" / "f" / "attempts.jsonl"
    log.parent.mkdir(parents=True)
    lines = [{"event": "published", "working_seconds": 1.5}, {"event": "other"}]
    for more, expected in (
        ([], 1.5),
        ([{"event": "published", "working_seconds": 2.5}, {"event": "x"}], 2.5),
        ([{"event": "published", "working_seconds": None}], None),
    ):
        log.write_text("".join(json.dumps(line) + "\n" for line in [*lines, *more]))
        assert _working_seconds(workspace, manifest) == expected
    log.write_text('{"event": "other"}\n')
    assert _working_seconds(workspace, manifest) is None


ONE, TWO = of_stage("a", "dev"), of_stage("b", "dev")
SCORES = scoring_of(Role.SCORES, "m", "dev", 1)


def stored(seconds, rows=5):
    return SimpleNamespace(working_seconds=seconds, num_rows=rows)


def test_a_systems_time_is_that_of_its_chain_where_all_is_known():
    results = {ONE: stored(1.0), TWO: stored(0.5)}
    assert _ms(Chain((ONE, TWO)), results, 4) == 375.0  # 1500 ms over 4 queries
    assert _ms(Chain((ONE,)), {ONE: stored(1.0)}, 3) == 333.33
    assert _ms(Chain((ONE, TWO), held=True), results, 4) is None
    assert _ms(Chain((ONE, TWO)), {ONE: stored(1.0)}, 4) is None
    assert _ms(Chain((ONE, TWO)), {ONE: stored(1.0), TWO: stored(None)}, 4) is None
    assert _ms(Chain(()), results, 4) is None and _ms(Chain((ONE,)), results, 0) is None
    assert _ms(Chain((ONE,)), {ONE: stored(0.0)}, 4) == 0.0


def test_inferences_are_the_rows_of_scores_alone():
    results = {ONE: stored(1.0), SCORES: stored(1.0, 7)}
    assert _inferences(Chain((ONE, SCORES)), results) == 7
    assert _inferences(Chain((ONE, SCORES), held=True), results) is None
    assert _inferences(Chain((ONE,)), results) is None


def test_chains_are_joined_once_each_in_order():
    joined = Chain((ONE,)).then(Chain((TWO, ONE)), Chain((SCORES,), held=True))
    assert joined == Chain((ONE, TWO, SCORES), held=True)
    assert Chain().then() == Chain((), held=False)


def test_an_unfinished_file_belongs_to_a_process_or_to_a_store_at_work():
    living = {"store-1"}
    other = "process-1-1-00000000"  # of a place that cannot be seen from here
    gone = process_label().replace(f"process-{os.getpid()}-", "process-99999999-")
    for name, expected in (
        ("tmp/store-1/x", False), ("tmp/store-2/x", True), ("nonce/store-1/word", False),
        ("nonce/store-2/word", True), (f"tmp/{process_label()}/x", False), (f"tmp/{gone}/x", True),
        (f"tmp/{other}/x", False), ("nonce/process-x/word", True), ("tmp/x", False),
        ("blobs/store-2/x", False), ("refs/a/b", False),
    ):  # fmt: skip
        assert _is_left_over(name, living) is expected, name


def test_a_workspace_keeps_its_identity_marks_once_and_writes_no_ref_twice(tmp_path):
    workspace = Workspace(tmp_path / "deep" / "w", str(tmp_path / "s"))
    assert workspace.refs() == {} and not (tmp_path / "s" / ROOT_FORMAT).exists()
    workspace.mark()
    (tmp_path / "s" / ROOT_FORMAT).unlink()
    workspace.mark()
    assert not (tmp_path / "s" / ROOT_FORMAT).exists()
    workspace.refer("a", "1")
    file = tmp_path / "s" / "refs" / f"{workspace.id}.json"
    before = file.stat()
    workspace.refer("a", "1")
    assert (file.stat().st_ino, file.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    workspace.refer("b", "2")
    workspace.refer("a", "3")
    assert Workspace(tmp_path / "deep" / "w", str(tmp_path / "s")).refs() == {"a": "3", "b": "2"}
    assert Workspace(tmp_path / "other").id != workspace.id
    names = [workspace.leave_nonce("a", "1") for _ in range(2)]
    assert names[0][0] == names[1][0] != workspace.leave_nonce("a", "2")[0]
    assert names[0][1] != names[1][1] and len(names[0][1]) == 32
    assert workspace.stores.read(names[0][0]) == names[1][1].encode()
    assert workspace.read_summary() is None
    workspace.write_summary({"a": 1})
    assert workspace.read_summary() == {"a": 1}
    assert (workspace.folder / "summary.json").read_text() == '{\n "a": 1\n}\n'
    (workspace.folder / "summary.json").write_text("{")
    with pytest.raises(CorruptError, match="expected a JSON object"):
        workspace.read_summary()


def test_a_summary_says_running_and_then_how_it_ended(tmp_path):
    workspace = Workspace(tmp_path / "w")

    def held():
        return workspace.read_summary()

    with invocation(workspace, "mine") as summary:
        during = held()
        assert (during["status"], during["exit"], during["recipe"]) == ("running", None, "mine")
        assert during["reason"] is None and len(during["run"]) == 12 and during["format"] == 1
        with pytest.raises(RefusedError), invocation(workspace, "other"):
            pass
        summary["systems"] = {"a": 1}
    assert held() == summary
    assert (held()["status"], held()["exit"], held()["systems"]) == ("complete", 0, {"a": 1})
    assert 0 <= held()["seconds"] < 60
    for error, code in ((LimitError("too\nmany"), 5), (KeyError("too"), 1)):
        with pytest.raises(type(error)), invocation(workspace, "mine"):
            raise error
        assert (held()["status"], held()["exit"]) == ("failed", code)
        assert held()["reason"] in ("too", "'too'") and "seconds" not in held()


def test_a_finding_tells_what_was_found_or_why_not():
    def fails(error):
        def check():
            raise error

        return check

    assert doctor._tried("a", lambda: "fine") == doctor.Trial("a", True, "fine")
    for error in (InputError("bad"), ImportError("bad"), OSError("bad")):
        assert doctor._tried("a", fails(error)) == doctor.Trial("a", False, "bad")
    with pytest.raises(KeyError):
        doctor._tried("a", fails(KeyError("bad")))


def test_the_doctor_tells_the_free_space_in_gigabytes(tmp_path, monkeypatch):
    monkeypatch.setattr(doctor.PosixStorage, "free_bytes", lambda self: 2_600_000_000)
    assert doctor._disk(tmp_path) == f"3 GB free at {tmp_path}"
    monkeypatch.setattr(doctor.PosixStorage, "free_bytes", lambda self: None)
    assert doctor._disk(tmp_path).startswith("0 GB")


RECIPE = """
format: 1
name: small
collection: {format: msmarco-v1, input: /c/passages.tsv}
queries: {dev: {file: /c/q.tsv}, quiet: {file: /c/q.tsv, report: false}}
models: {tiny: {path: /m/tiny}, mono: {path: /m/mono}}
stages:
  vectors: {do: encode, model: tiny}
  dense: {do: search, index: vectors, depth: 2}
  mono: {do: score, run: dense, model: mono, k0: 2}
"""


def test_only_computes_a_stages_own_stores_and_its_models_scores():
    recipe = load_recipe(RECIPE, source="x")
    allowed = pipeline._allowed(recipe, ["mono"])
    assert allowed(of_stage("mono", "dev")) and allowed(SCORES) is False
    assert allowed(scoring_of(Role.SCORES, "mono", "dev", 1)) and allowed(tokens_of("mono", "dev"))
    for store in (of_stage("dense", "dev"), tokens_of("tiny"), of_queries("dev")):
        assert not allowed(store)
    assert not allowed(of_collection(Role.PASSAGES))
    dense = pipeline._allowed(recipe, ["dense"])
    assert dense(of_stage("dense", "dev", Role.PARTS)) and not dense(tokens_of("tiny"))


class Asked:
    """A graph that notes what is asked of it."""

    def __init__(self):
        self.asked = []

    def collection(self):
        self.asked.append("collection")

    def index(self, name):
        self.asked.append(name)

    def run(self, name, query_set, runs):
        self.asked.append((name, query_set))
        runs.stored["dense"] = runs.stored[name] = name


def test_selected_stages_are_asked_in_order_for_each_reported_set():
    graph = Asked()
    runs = pipeline._stages(load_recipe(RECIPE, source="x"), graph, ["vectors", "mono"])
    assert graph.asked == ["collection", "vectors", ("mono", "dev")]
    assert list(runs) == ["dev"] and runs["dev"].stored == {"mono": "mono"}


def test_resources_become_shards_and_actors():
    chosen = SimpleNamespace(num_actors=3, device="cuda", threads=2)
    sizing = pipeline._sizing(load_recipe(RECIPE, source="x"), chosen)
    assert (sizing.num_actors, sizing.shard_tokens) == (3, 4_000_000)
    chosen.device = "cpu"
    given = ["resources.shard_tokens=7", "resources.shard_rows=8", "resources.shard_queries=9"]
    sizing = pipeline._sizing(load_recipe(RECIPE, source="x"), chosen)
    assert sizing.shard_tokens == 60_000
    sizing = pipeline._sizing(load_recipe(RECIPE, overrides=given, source="x"), chosen)
    assert (sizing.shard_tokens, sizing.shard_rows, sizing.shard_queries) == (7, 8, 9)


def test_inline_work_has_the_recipes_device_and_threads():
    given = ["resources.backend=inline", "resources.device=cpu", "resources.actors=3"]
    recipe = load_recipe(RECIPE, overrides=[*given, "resources.threads=2"], source="x")
    chosen = pipeline._devices(recipe, pipeline.Options(ray_address="elsewhere:1"))
    assert (chosen.device, chosen.num_actors, chosen.threads) == ("cpu", 3, 2)
    backend = pipeline._start(recipe, chosen, pipeline.Options())
    assert type(backend).__name__ == "InlineBackend"
    assert (backend._device, backend._threads) == ("cpu", 2)


def test_lines_go_to_stderr(capsys):
    pipeline.to_stderr("x")
    assert capsys.readouterr() == ("", "x\n")
