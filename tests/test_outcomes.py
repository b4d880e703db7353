"""What a scheduler reads: the process's exit code, summary.json and `raypipe status` agree.

A table of outcomes, and every command and job, taken from the command line itself: a new one fails
here until it is said whether it works in a workspace.
"""

import errno
import json
import os
import runpy
import shutil
import signal
import sys
import time
import traceback
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from types import SimpleNamespace

import pytest
import typer

from raypipe.cli.main import app, main, run
from raypipe.driver.upkeep.status import status
from raypipe.storage.records import seal, unseal

JOBS_FOLDER = Path(__file__).parents[1] / "jobs"
JOBS = sorted(JOBS_FOLDER.glob("*.py"))
RECIPE = """
format: 1
name: night
collection: {{format: msmarco-v1, input: {folder}/passages.tsv}}
queries: {{test: {{file: {folder}/queries.tsv, qrels: {folder}/qrels.txt}}}}
stages:
  one: {{do: read, runs: {{test: {folder}/one.trec}}}}
  two: {{do: read, runs: {{test: {folder}/two.trec}}}}
  both: {{do: fuse, runs: [one, two], method: rrf, depth: 3}}
evaluate: {{measures: [RR@10], baseline: one}}
resources: {{backend: inline, device: cpu}}
"""
WORK = "beir encode index pipeline prepare quickstart reindex rollback score search tokenize train"
WORK_IN_ONE = {*WORK.split(), "aggregate"}
"""They record how they ended in the workspace in which they work."""
READ_ONE = {
    *(f"analyse {name}" for name in ("consistency", "depth", "fusion", "queries")),
    *("analyse tradeoff", "analyse training-size", "gc", "history", "plan", "report", "show"),
    *("status", "table", "verify"),
}
"""How they end says nothing of the last invocation."""
HAVE_NONE = {
    *("compare", "doctor", "evaluate", "export", "fuse", "leaderboard check", "leaderboard pack"),
    *("init", "leaderboard template", "model convert", "model show", "recipes"),
    "reproduce",  # each step has its own, in which it is recorded
}
MEASURING = {"benchmark", "demo_cluster"}
"""Jobs that time raypipe itself; what they run records its own end."""


class World:
    """A folder with a finished workspace of two generations, and its recipe."""

    def __init__(self, folder, work=None):
        self.folder, self.work, self.told = folder, work or folder / "work", ""
        self.last, self.before = lambda: None, None

    def write(self, **files):
        inputs = self.folder / "files"
        inputs.mkdir(exist_ok=True)
        for name, text in files.items():
            path = inputs / name.replace("_", ".")
            path.unlink(missing_ok=True)  # it may be one file with that of another test
            path.write_text(text)

    @property
    def recipe(self):
        return self.folder / "files" / "night.yaml"

    def night(self, *more, **child):
        return self.run("reindex", self.recipe, "--out", self.work, *more, **child)

    def change(self):
        """Another run, so that the next night publishes."""
        self.write(one_trec="q1 Q0 p2 1 9 x\nq1 Q0 p3 2 8 x\nq2 Q0 p1 1 8 x\n")

    def run(self, *words, **child):
        """The exit code of `raypipe WORDS`, a process of its own, and in `told` its stderr."""
        code = os.waitstatus_to_exitcode(os.waitpid(self.start(*words, **child), 0)[1])
        self.told = (self.folder / "stderr").read_text()
        return code

    def look(self, *words):
        """The exit code of a command that only reads, in this process; its stdout in `said`."""
        with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err:
            code, _ = run([str(word) for word in words])
        self.said, self.told = out.getvalue(), err.getvalue()
        return code

    def start(self, *words, at=None, stdout=None, job=None):
        """The id of that process.

        at: (a part of a path, an act): the act is done whenever such a file is opened to be
        written, renamed, linked or removed, and where the part begins with "<", when it is read.
        """
        kind, stderr = os.O_WRONLY | os.O_CREAT | os.O_TRUNC, self.folder / "stderr"
        stderr.unlink(missing_ok=True)
        out = stdout if isinstance(stdout, int) else os.open(stdout or os.devnull, kind)
        pid = os.fork()
        if pid == 0:
            _child([*map(str, words)], out, os.open(stderr, kind), at, self.before, job)
        if out != stdout:
            os.close(out)
        return pid


def _child(words, out, err, at, before, job):
    code = 99
    try:
        os.dup2(out, 1)
        os.dup2(err, 2)
        sys.stdout = sys.__stdout__ = open(1, "w", closefd=False)
        sys.stderr = sys.__stderr__ = open(2, "w", closefd=False)
        if before is not None:
            before()
        if at is not None:
            sys.addaudithook(_hook(*at))
        if job is None:
            main(words)
        sys.argv = [str(job), *words]
        runpy.run_path(str(job), run_name="__main__")
    except SystemExit as error:
        code = error.code
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def _hook(part, act):
    reading, part = part.startswith("<"), part.removeprefix("<")

    def hook(event, arguments):
        names = [name for name in arguments if isinstance(name, str) and part in name]
        changed = event in ("os.rename", "os.link", "os.remove") or (
            event == "open" and isinstance(arguments[2], int) and arguments[2] & os.O_ACCMODE
        )
        if names and (changed or (reading and event == "open")):
            act()

    return hook


def failing(number):
    def act():
        raise OSError(number, os.strerror(number))

    return act


def killed(number):
    """Sends this process a signal, once."""
    sent = []

    def act():
        if not sent:
            sent.append(number)
            os.kill(os.getpid(), number)

    return act


def bug():
    raise KeyError("a bug")


@pytest.fixture(scope="session")
def two_nights(tmp_path_factory):
    made = World(tmp_path_factory.mktemp("nights"))
    made.write(passages_tsv="p1\tthe zebra\np2\ta lease\np3\tx\n", queries_tsv="q1\ta\nq2\tb\n")
    made.write(qrels_txt="q1 0 p2 1\n", two_trec="q1 Q0 p2 1 9 x\nq2 Q0 p3 1 8 x\n")
    made.write(one_trec="q1 Q0 p1 1 9 x\n", night_yaml=RECIPE.format(folder=made.folder / "files"))
    night = ("reindex", str(made.recipe), "--out", str(made.work))
    assert run([*night])[0] == 0  # here, so that no process below has to load what it needs
    made.write(one_trec="q1 Q0 p1 1 9 x\nq1 Q0 p2 2 8 x\n")
    assert run([*night])[0] == 0
    looked_at = shutil.copytree(made.work, tmp_path_factory.mktemp("looked-at") / "work")
    assert run(["report", str(looked_at)])[0] == 0  # the same
    return made.folder


@pytest.fixture
def world(two_nights, tmp_path):
    copied = World(tmp_path / "copy")
    shutil.copytree(two_nights, copied.folder, copy_function=os.link)
    copied.write(night_yaml=RECIPE.format(folder=copied.folder / "files"))
    return copied


def read(world):
    """The exit code in summary.json, and that of `status`."""
    try:
        summary = json.loads((world.work / "summary.json").read_bytes())
        said = summary["exit"]
        assert summary["status"] == {None: "running", 0: "complete"}.get(said, "failed")
    except (FileNotFoundError, ValueError):
        said = None
    ask = world.look if world.before is None else world.run  # under another clock
    return said, ask("status", world.work)


def rewrite(path, change):
    """Another file in the place of one that other tests have too."""
    body = change(path.read_bytes())
    path.unlink()
    path.write_bytes(body)


def elsewhere(world, generation=99):
    """The lease of a container that is gone, never released."""

    def change(data):
        body = unseal("lease.json", data)
        body["holder"]["boot_id"] = "another"
        return seal({**body, "generation": generation, "released": False})

    rewrite(world.work / "lease.json", change)


def without_waiting(act=lambda: None):
    """A clock that goes on while this process sleeps, and what else happens then."""
    passed = [0.0]

    def sleep(seconds):
        passed[0] += seconds
        act()

    def start():
        real = time.monotonic
        time.sleep, time.monotonic = sleep, lambda: real() + passed[0]

    return start


def in_recipe(old, new):
    def act(world):
        world.write(night_yaml=world.recipe.read_text().replace(old, new))
        return world.night()

    return act


def words(*given):
    return lambda world: world.run(
        *(str(word).format(work=world.work, recipe=world.recipe) for word in given)
    )


def changed(*more, **child):
    def act(world):
        world.change()
        return world.night(*more, **child)

    return act


def warned(*more, said, **child):
    """The night is published, and a warning says what failed then."""

    def act(world):
        code = changed("--keep", "9", *more, **child)(world)
        assert "warning: " in world.told and said in world.told, world.told
        assert json.loads((world.work / "summary.json").read_text())["generation"]["number"] == 3
        return code

    return act


OUTCOMES = {}


def some(names, always):
    """The names as parameters; those that are not always run are slow."""
    assert {*always} <= {*names}
    return [pytest.param(n, marks=[] if n in always else pytest.mark.slow) for n in names]


def outcome(name, process, summary="same", status="same"):
    """Adds an outcome: what the process says, and where they say another thing, the others."""

    def add(act):
        said = process if summary == "same" else summary
        OUTCOMES[name] = ((process, said, said if status == "same" else status), act)
        return act

    return add


for name, code, act in (
    ("complete, nothing changed", 0, lambda world: world.night()),
    ("complete, and published", 0, changed()),
    ("complete, and gc ran", 0, changed("--keep", "9")),
    ("a bug", 1, changed(at=("stores/", bug))),
    ("a mistyped key of the recipe", 2, in_recipe("stages", "stagse")),
    ("a recipe that is no YAML", 2, in_recipe("format: 1", "format: [")),
    ("no such recipe", 2, words("reindex", "none.yaml", "--out", "{work}")),
    ("no such recipe, --out=DIR", 2, words("pipeline", "none.yaml", "--out={work}")),
    (
        "no such recipe, two folders",
        2,
        words("pipeline", "none.yaml", "--out", "other", "--out", "{work}"),
    ),
    ("no such input", 2, in_recipe("passages.tsv", "none.tsv")),
    ("a line of an input that is wrong", 2, in_recipe("one.trec", "night.yaml")),
    ("an override of no stage", 2, lambda world: world.night("stages.none.depth=3")),
    ("--until of no stage", 2, words("pipeline", "{recipe}", "--out", "{work}", "--until", "none")),
    (
        "several values for one",
        2,
        words("pipeline", "{recipe}", "--out", "{work}", "stages.both.depth=[1,2]"),
    ),
    ("a mistyped option", 2, lambda world: world.night("--forzen")),
    ("a mistyped value", 2, lambda world: world.night("--keep", "many")),
    ("a mistyped limit", 2, lambda world: world.night("--max-drift", "x")),
    ("a mistyped command", 2, words("reindx", "{recipe}", "--out", "{work}")),
    ("an option before the command", 2, words("--forzen", "reindex", "r", "--out", "{work}")),
    (
        "a URI in the place of a file",
        2,
        words("search", "--index", "none", "--out", "{work}", "--queries", "s3://none/queries.tsv"),
    ),
    ("a collection that is not there", 2, words("beir", "none", "--out", "{work}")),
    ("--accept of nothing", 2, lambda world: world.night("--accept")),
    ("storage that failed", 3, changed(at=("stores/", failing(errno.EIO)))),
    ("a full disk below the stores", 3, changed(at=("stores/", failing(errno.ENOSPC)))),
    ("a full disk below the run files", 3, changed(at=("runs/", failing(errno.ENOSPC)))),
    (
        "a setting changed since the last, --frozen",
        4,
        lambda world: world.night("--frozen", "stages.both.depth=2"),
    ),
    ("a run beyond --max-drift", 5, changed("--max-drift", "overlap@10=0.99")),
    ("Ctrl-C before the work", 130, changed(at=("<night.yaml", killed(signal.SIGINT)))),
    ("Ctrl-C", 130, changed(at=("stores/", killed(signal.SIGINT)))),
    ("SIGTERM before the work", 143, changed(at=("<night.yaml", killed(signal.SIGTERM)))),
    ("SIGTERM", 143, changed(at=("stores/", killed(signal.SIGTERM)))),
    (
        "SIGTERM after the work was published",
        143,
        changed("--keep", "9", at=("gc/clock", killed(signal.SIGTERM))),
    ),
    ("gc that failed", 0, warned(at=("gc/clock", failing(errno.EIO)), said="Input/output error")),
    (
        "generations that cannot be retired",
        0,
        warned("--keep", "2", at=(".retired", failing(errno.EIO)), said="none was retired"),
    ),
    ("a full disk below stdout", 0, warned(stdout="/dev/full", said="No space left on device")),
    (
        "a full disk below stdout, --json",
        0,
        warned("--json", stdout="/dev/full", said="No space left on device"),
    ),
    ("rollback", 0, words("rollback", "{work}")),
    ("rollback to no generation", 2, words("rollback", "{work}", "--to", "9")),
    ("rollback, mistyped", 2, words("rollback", "--two", "1", "{work}")),
):
    outcome(name, code)(act)


@outcome("damaged bytes in the stores", 3)
def _(world):
    for path in (world.work / "stores" / "blobs").glob("*/*"):
        rewrite(path, lambda data: data[:-1] + bytes([data[-1] ^ 1]))
    return world.night("stages.both.depth=2")


@outcome("damaged references of its own", 3)
def _(world):
    for path in (world.work / "stores" / "refs").glob("*.json"):
        rewrite(path, lambda data: data[:-9])
    return world.night()


@outcome("damaged references of another workspace", 0)
def _(world):
    (world.work / "stores" / "refs" / "another.json").write_text('{"body"')
    return warned(said="refs/another.json is damaged")(world)


@outcome("gc beside damaged references", 3, summary=0)
def _(world):
    (world.work / "stores" / "refs" / "another.json").write_text('{"body"')
    held = sorted((world.work / "stores").rglob("*"))
    code = world.run("gc", world.work, "--yes")
    assert {*held} <= {*(world.work / "stores").rglob("*")} and "deletes nothing" in world.told
    return code


@outcome("a damaged summary, run again", 0)
def _(world):
    rewrite(world.work / "summary.json", lambda data: data[:-20])
    return world.night()


@outcome("a damaged summary, and a typo", 2)
def _(world):
    rewrite(world.work / "summary.json", lambda data: data[:-20])
    return world.night("--forzen")


@outcome("kill -9", -9, summary=None, status=3)
def _(world):
    world.change()
    return world.night(at=("stores/", killed(signal.SIGKILL)))


@outcome("kill -9, run again", 0)
def _(world):
    world.change()
    assert world.night(at=("stores/", killed(signal.SIGKILL))) == -9
    return world.night()


@outcome("kill -9, then a typo", 2)
def _(world):
    world.change()
    assert world.night(at=("stores/", killed(signal.SIGKILL))) == -9
    return world.night("--forzen")


@outcome("an end that cannot be recorded", 3, summary=None, status=3)
def _(world):
    begun = []

    def act():
        begun.append(1)
        if len(begun) > 3:  # the first is the summary that says that it runs
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    world.change()
    return world.night(at=("summary.json", act))


@outcome("a workspace that cannot be written", 2, summary=0)
def _(world):
    return world.night(at=(f"{world.work}/", failing(errno.EROFS)))


@outcome("a workspace whose identity is damaged", 3, summary=0, status=3)
def _(world):
    rewrite(world.work / "workspace.json", lambda data: data[:-2])
    return world.night()


@outcome("a workspace of another format", 2, summary=0, status=2)
def _(world):
    rewrite(
        world.work / "workspace.json",
        lambda data: seal({**unseal("workspace.json", data), "format": 99}),
    )
    return world.night()


@outcome("a workspace whose lease is damaged", 3, summary=0)
def _(world):
    for path in (world.work / "lease.json.d").glob("*"):
        rewrite(path, lambda data: b"{}")
    (world.work / "lease.json").unlink()
    return world.night()


@outcome("a mistyped recipe for a new folder", 2, summary=None, status=2)
def _(world):
    world.work = world.folder / "new"
    return world.run("pipeline", "none.yaml", "--out", world.work)


def gone(world):
    """A container that was killed and its lease, never released."""
    world.change()
    assert world.night(at=("stores/", killed(signal.SIGKILL))) == -9
    elsewhere(world)
    world.before = without_waiting()


def renewing(world):
    """The same, but alive."""
    gone(world)
    numbers = iter(range(100, 200))
    world.before = without_waiting(lambda: elsewhere(world, next(numbers)))


@outcome("kill -9 in a container", 0, summary=None, status=3)
def _(world):
    gone(world)
    return 0


@outcome("kill -9 in a container, then a typo", 2)
def _(world):
    gone(world)
    return world.night("--forzen")


@outcome("kill -9 in a container, run again", 0)
def _(world):
    gone(world)
    return world.night()


@outcome("a lease that nobody released, then a typo", 2)
def _(world):
    elsewhere(world)
    world.before = without_waiting()
    return world.night("--forzen")


@outcome("one at work in a container", 4, summary=None, status=0)
def _(world):
    renewing(world)
    return world.night()


@outcome("one at work in a container, and a typo", 2, summary=None, status=0)
def _(world):
    renewing(world)
    return world.night("--forzen")


@outcome("a second one beside one at work", 4, summary=None, status=0)
def _(world):
    return beside(world, lambda: world.night())


@outcome("a typo beside one at work", 2, summary=None, status=0)
def _(world):
    return beside(world, lambda: world.night("--forzen"))


@outcome("a stage that is not accepted, accepted", 0)
def _(world):
    assert changed("--max-drift", "overlap@10=0.99")(world) == 5
    return world.night("--accept")


@outcome("nobody reads stdout to its end", 0)
def _(world):
    return unread(lambda out: warned(stdout=out, said="a pipe was closed")(world))


@outcome("a bad recipe, and nobody reads stdout", 2)
def _(world):
    return unread(lambda out: world.night("--forzen", stdout=out))


FULL = {
    **{"table": 3, "table --out=x.md": 0, "history": 3, "gc": 3, "gc --yes": 0},
    **{"report": 0, "report -h": 3},
}
for verb, code in FULL.items():

    @outcome(f"{verb} on a full disk below stdout", code, summary=0)
    def _(world, verb=verb):
        first, *more = verb.split()
        more = [word.replace("x.md", str(world.folder / "x.md")) for word in more]
        return world.run(first, world.work, *more, stdout="/dev/full")


@outcome("plan on a full disk below stdout", 3, summary=0)
def _(world):
    return world.run("plan", world.recipe, "--out", world.work, stdout="/dev/full")


@outcome("help on a full disk below stdout", 3, summary=0)
def _(world):
    return world.night("-h", stdout="/dev/full")


@outcome("a bug after the work was published", 1)
def _(world):
    code = changed("--keep", "9", at=("gc/clock", bug))(world)
    assert json.loads((world.work / "summary.json").read_text())["generation"]["number"] == 3
    return code


@outcome("rollback to stores that are gone", 3)
def _(world):
    shutil.rmtree(next((world.work / "stores").glob("one.test")))
    return world.run("rollback", world.work)


@outcome("rollback beside another one", 0)
def _(world):
    done = []

    def act():
        if not done:
            done.append(1)
            world.run("rollback", world.work)

    return world.run("rollback", world.work, at=("generations/night/0000003", act))


@outcome("rollback after a night that failed", 0)
def _(world):
    assert world.night("--forzen") == 2
    return world.run("rollback", world.work)


@outcome("rollback on a full disk below stdout", 0)
def _(world):
    return world.run("rollback", world.work, stdout="/dev/full")


def unread(act):
    """With a pipe for stdout of which the other end is closed."""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        return act(writing)
    finally:
        os.close(writing)


def beside(world, act):
    """While a night is at work, which then ends."""
    begun, go = os.pipe(), os.pipe()
    told = []

    def wait():
        if not told:
            told.append(os.write(begun[1], b"."))
            os.read(go[0], 1)

    world.change()
    pid = world.start("reindex", world.recipe, "--out", world.work, at=("stores/", wait))
    assert os.read(begun[0], 1)

    def last():
        os.write(go[1], b".")
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert read(world) == (0, 0)
        for end in (*begun, *go):
            os.close(end)

    world.last = last
    return act()


@outcome("refused, while another night began and ended", 2, 0, 0)
def _(world):
    begun, go = os.pipe(), os.pipe()
    world.write(bad_yaml="format: 1\nnone: 1\n")

    def wait():
        os.write(begun[1], b".")
        os.read(go[0], 1)

    words = ("reindex", world.folder / "files" / "bad.yaml", "--out", world.work)
    pid = world.start(*words, at=("<bad.yaml", wait))
    assert os.read(begun[0], 1) and changed()(world) == 0
    os.write(go[1], b"." * 9)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    for end in (*begun, *go):
        os.close(end)
    return code


CAUSES = {
    "storage that failed": "storage",
    "a full disk below the stores": "disk full",
    "a full disk below the run files": "disk full",
    "a mistyped option": "input",
    "a setting changed since the last, --frozen": "refused",
    "a run beyond --max-drift": "limit",
    "Ctrl-C": "interrupted",
}
"""The word of `status` that tells outcomes of one exit code apart."""


@pytest.mark.fault(
    45, "81 outcomes: where a workspace can be written, process, summary and `status` agree"
)
@pytest.mark.parametrize("name", OUTCOMES)
def test_process_summary_and_status_agree(world, name):
    expected, act = OUTCOMES[name]
    code = act(world)
    told = world.told
    try:
        assert (code, *read(world)) == expected, told
        assert name not in CAUSES or status(world.work).cause == CAUSES[name]
    finally:
        world.last()


def test_a_night_that_does_not_fit_says_that_the_disk_is_full(world):
    with_a_full_disk(world)
    assert status(world.work).cause == "disk full"


def commands(group, words=()):
    """The words that call each command, by its words, and the names of its options."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*words, name))
        else:
            options = {each: one for one in command.params for each in one.opts}
            yield " ".join((*words, name)), options


COMMANDS = dict(commands(typer.main.get_command(app())))


def test_of_every_command_it_is_known_whether_it_works_in_a_workspace():
    assert sorted([*WORK_IN_ONE, *READ_ONE, *HAVE_NONE]) == sorted(COMMANDS)


@pytest.mark.fault(45, "every command that ends early leaves no success in the workspace")
@pytest.mark.parametrize(
    "named", some(COMMANDS, {"index", "pipeline", "rollback", "gc", "analyse depth", "compare"})
)
def test_what_a_mistyped_command_leaves(world, monkeypatch, named):
    out = COMMANDS[named].get("--out")
    where = [world.work] if out is None else ["--out", world.work]
    if named in WORK_IN_ONE and out is not None and out.default is not None:
        monkeypatch.chdir(world.folder)  # where it works without --out
        world.work = world.work.rename(world.folder / out.default)
        where = []
    before = read(world)
    assert world.run(*named.split(), "--no-such-option", *where) == 2
    assert read(world) == ((2, 2) if named in WORK_IN_ONE else before)


@pytest.mark.parametrize("job", some([each.stem for each in JOBS], {"pipeline", "train"}))
def test_what_a_refused_job_leaves(world, monkeypatch, job):
    job = JOBS_FOLDER / f"{job}.py"
    assert job.stem in {*WORK_IN_ONE, *HAVE_NONE, *MEASURING}
    if job.stem in MEASURING:
        return
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    if job.stem == "train":  # what no cluster mends is wrong too
        assert world.run("r.yaml", "--out", "s3://none/x", job=job) == 2
        assert "RAY_ADDRESS: " in world.told
    shown = world.folder / "stdout"
    assert world.run("-h", stdout=shown, job=job) == 0 and read(world) == (0, 0)
    assert f"raypipe {job.stem} " in shown.read_text() and "--out" in shown.read_text()
    code = world.run("r.yaml", "--out", world.work, "stores=relative/x", job=job)
    assert code == 2 and "RAY_ADDRESS: " in world.told and "stores: " in world.told
    assert read(world) == ((2, 2) if job.stem in WORK_IN_ONE else (0, 0))


LIMIT, DEPTH = ("--max-drift", "overlap@10=0.99"), "stages.both.depth=2"
BUILT, BEFORE, OTHER = "1.0000", "0.5000", "0.0000"
"""RR@10 of `one` in a refused build, in the night before it, and under other judgements."""


def shown(world):
    """RR@10 of `one` in the table; None if there is none."""
    if world.look("table", world.work, "--format", "json"):
        return None
    (found,) = json.loads(world.said)["tables"]
    return f"{found['systems'][0]['measures']['RR@10']['mean']:.4f}"


def standing(world):
    """Whose results stand: those of the last invocation, or of one before it; None: none do."""
    if not (world.work / "results.json").exists():
        return None
    files = (world.work / name for name in ("summary.json", "results.json"))
    last, results = (json.loads(file.read_text())["run"] for file in files)
    return "its own" if last == results else "another's"


def judged_again(world):
    world.write(qrels_txt="q1 0 p1 1\n")
    assert world.run("pipeline", world.recipe, "--out", world.work) == 0


def with_a_full_disk(world):
    world.before = lambda: setattr(shutil, "disk_usage", lambda folder: SimpleNamespace(free=0))
    written, more = world.recipe.read_text(), "more: {do: fuse, runs: [one, two], method: rrf}"
    world.write(night_yaml=written.replace("  both:", f"  {more}\n  both:"))
    assert world.night() == 3 and "No stage has begun" in world.told, world.told
    world.write(night_yaml=written)
    world.before = None


def killed_at_work(world):
    depth, kill = "stages.both.depth=2", ("stores/both", killed(signal.SIGKILL))
    assert world.night(depth, at=kill) == -signal.SIGKILL


BETWEEN = {
    "nothing": (lambda world: None, BUILT),
    "a mistyped option": (lambda world: world.night("--forzen"), BUILT),
    "a refused setting": (lambda world: world.night("--frozen", "stages.both.depth=2"), BUILT),
    "another recipe's name": (lambda world: world.night("--accept", "name=m"), BUILT),
    "a full disk": (with_a_full_disk, BUILT),
    "another pipeline": (judged_again, OTHER),
    "a night killed at work": (killed_at_work, None),
}


QUICK = ("another pipeline", "a night killed at work")


@pytest.mark.parametrize(
    "name",
    [pytest.param(each, marks=[] if each in QUICK else pytest.mark.slow) for each in BETWEEN],
)
def test_a_build_that_is_accepted_later_is_shown_as_long_as_its_files_stand(world, name):
    between, expected = BETWEEN[name]
    assert changed(*LIMIT)(world) == 5
    between(world)
    assert name != "another recipe's name" or "refused of night" in world.told
    assert world.night("--accept") == 0, world.told
    for verb in ("verify", "status", "history", "gc"):
        assert world.look(verb, world.work) == 0, (verb, world.told)
    assert shown(world) == expected
    assert standing(world) == {BUILT: "its own", OTHER: "another's", None: None}[expected]
    for words in (("report", world.work), ("show", world.work, "--query", "q1")):
        assert world.look(*words) == (2 if expected is None else 0), world.told
    assert world.night() == 0 and shown(world) in (BUILT, OTHER)


def test_a_full_disk_leaves_the_last_table(world):
    with_a_full_disk(world)
    assert shown(world) == BEFORE and world.look("verify", world.work) == 0, world.told


def test_a_rollback_after_a_killed_night_is_no_table(world):
    killed_at_work(world)
    assert world.run("rollback", world.work) == 0 and read(world) == (0, 0)
    assert world.night("--forzen") == 2
    assert standing(world) is None
    assert shown(world) is None and "run its recipe again" in world.told


def test_a_recipe_of_another_name_passes_no_limit_unseen(world):
    assert world.night("--frozen", "name=m") == 4 and "expected night" in world.told
    assert world.night(*LIMIT, "name=m") == 5
    assert "overlap@10=0.99 could not be tried" in world.told and "are of night" in world.told
    assert world.night("--accept", "name=m") == 0 == world.night(*LIMIT, "name=m")
    first = world.folder / "first"
    assert world.run("reindex", world.recipe, "--out", first, *LIMIT, "name=m") == 0


LOST = {
    "gone": lambda file: file.unlink(),
    "cut short": lambda file: rewrite(file, lambda data: data[:-9]),
}


@pytest.mark.parametrize("rolled_back", [False, True])
@pytest.mark.parametrize("lost", LOST)
def test_a_lost_summary_is_no_first_night(world, lost, rolled_back):
    LOST[lost](world.work / "summary.json")
    if rolled_back:
        assert world.run("rollback", world.work) == 0
    assert world.night("--frozen", "stages.both.depth=2") == 4
    assert world.night("--frozen", "name=m") == 4 and "expected night" in world.told
    assert world.night(*LIMIT, "name=m") == 5, world.told


@pytest.mark.parametrize("rolled_back", [False, True])
@pytest.mark.parametrize("lost", LOST)
def test_after_a_lost_summary_the_same_recipe_is_frozen(world, lost, rolled_back):
    LOST[lost](world.work / "summary.json")
    if rolled_back:
        assert world.run("rollback", world.work) == 0
    assert world.night("--frozen") == 0, world.told


def test_a_night_that_ended_before_its_work_changes_no_comparison(world):
    written = world.recipe.read_text()
    world.write(passages_jsonl='{"_id": "p1", "text": "x"}\n')
    beir = written.replace("msmarco-v1", "beir").replace("passages.tsv", "passages.jsonl")
    world.write(night_yaml=beir)
    with_a_full_disk(world)
    world.write(night_yaml=written)
    assert world.night("--frozen") == 0, world.told


def test_what_a_lost_file_leaves_passes_no_limit_under_another_name(world):
    assert changed(*LIMIT, "name=m")(world) == 5  # recipe.yaml has the new name
    (world.work / "summary.json").unlink()
    assert world.night(*LIMIT, "name=m") == 5, world.told
    (world.work / "recipe.yaml").unlink()
    assert world.night(*LIMIT, "name=n") == 5, world.told


@pytest.mark.parametrize("rolled_back", [True, False], ids=["a rollback", "the other's last"])
def test_a_new_name_passes_no_limit_where_workspaces_share_their_stores(world, rolled_back):
    def night(work, *more):
        world.work = world.folder / work
        return world.night(f"stores={world.folder / 'shared'}", *more)

    assert night("first") == 0 == night("second", *(["name=other"] if rolled_back else [DEPTH]))
    if rolled_back:
        world.change()
        assert night("first") == 0 == world.run("rollback", world.work)
    assert night("first", *LIMIT, "name=m") == 5, world.told
    assert night("third", *LIMIT, "name=n") == 0, world.told


def test_refs_alone_are_no_first_night(world):
    for lost in ("summary.json", "recipe.yaml"):
        (world.work / lost).unlink()
    assert world.night("--forzen") == 2
    assert world.night("--frozen", "stages.both.depth=2") == 4 and "depth" in world.told


def test_damaged_results_are_damage_to_readers_alone(world):
    """A plan and the next night do without them, and the night writes them anew."""
    rewrite(world.work / "results.json", lambda data: data[:-9])
    assert world.look("verify", world.work) == 3 and "1 damaged or missing files" in world.told
    assert world.look("table", world.work) == 3 and "run its recipe again" in world.told
    assert world.look("plan", world.recipe, "--out", world.work) == 0, world.told
    assert world.night("--frozen") == 0, world.told
    assert shown(world) == BEFORE and world.look("verify", world.work) == 0


@pytest.mark.parametrize("verb", ["report", "table", "analyse queries", "analyse fusion"])
def test_a_recipe_that_was_cut_off_is_damage_to_readers(world, verb):
    file = world.work / "recipe.yaml"
    text = file.read_text()
    file.unlink()  # it is one file with that of other tests
    file.write_text(text[: text.index("  two:")])
    assert world.look(*verb.split(), world.work) == 3, world.told
    assert "recipe.yaml: its bytes are not those that were written" in world.told
    assert world.night() == 0 == world.look(*verb.split(), world.work)


def test_without_its_recipe_a_workspace_knows_the_name_by_its_summary(world):
    (world.work / "recipe.yaml").unlink()
    assert world.night("--frozen", "name=m") == 4 and "expected night" in world.told


def test_a_first_night_killed_at_its_start_and_mistyped_is_no_finished_one(world):
    kill = ("summary.json", killed(signal.SIGKILL))
    world.work = world.folder / "first"
    assert world.night(at=kill) == -signal.SIGKILL and world.night("--forzen") == 2
    assert world.night("--frozen") == 0, world.told


def test_an_acceptance_after_a_failure_that_wrote_nothing(world):
    assert changed(*LIMIT)(world) == 5
    full = ("recipe.yaml", failing(errno.ENOSPC))
    assert world.night("stages.both.depth=2", at=full) == 3 and world.night("--forzen") == 2
    assert world.night("--accept") == 0 == world.look("verify", world.work), world.told
    assert world.night("--accept") == 2 and "is one of them the recipe" not in world.told


def test_files_that_no_summary_lists_are_not_taken_for_an_accepted_build(world):
    assert changed(*LIMIT)(world) == 5
    full = ("generations/night/0000004", failing(errno.ENOSPC))
    assert world.night(*LIMIT, DEPTH, at=full) == 3, world.told
    assert world.night("--accept") == 0 and shown(world) is None


def test_the_runs_of_a_renamed_query_set_pass_no_limit_unseen(world):
    renamed = world.recipe.read_text().replace("{test: ", "{dev: ")
    world.write(night_yaml=renamed)
    assert world.night(*LIMIT) == 5 and "it names no run one.dev" in world.told, world.told
    assert world.night("--accept") == 0 == world.night(*LIMIT), world.told
    assert changed(*LIMIT)(world) == 5 and "one on dev" in world.told
