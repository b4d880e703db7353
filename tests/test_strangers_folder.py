"""Nothing of the folder in which raypipe runs is run, though its files have names of modules."""

import contextlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from canaries import console_script, environment, put_canaries
from safetensors.torch import load_file
from small_training import phases_of

from raypipe.cli.main import app, run
from raypipe.package import FOLDER

RECIPE = """
format: 1
name: small
collection: {format: msmarco-v1, input: passages.tsv}
queries: {test: {file: queries.tsv, qrels: qrels.txt}}
models: {tiny: {path: tiny}, mono: {path: mono}, duo: {path: duo}}
stages:
  vectors: {do: encode, model: tiny}
  dense: {do: search, index: vectors, depth: 5}
  mono: {do: score, run: dense, model: mono, k0: 3}
  duo: {do: score, run: mono, model: duo, k1: 2}
  sum: {do: aggregate, pairs: duo, method: sum}
  given: {do: read, runs: {test: run.trec}}
  fused: {do: fuse, runs: [dense, sum], method: rrf}
evaluate: {measures: [nDCG@10]}
runs: {tsv: true}
"""
TRAINING = """
format: 1
name: small
model: {start: tiny, preset: monobert, query_limit: 8, total_limit: 32}
collections: {docs: {format: msmarco-v1, input: passages.tsv}}
train:
  docs:
    collection: docs
    queries: queries.tsv
    qrels: qrels.txt
    negatives: {runs: run.trec, last: 5}
dev: {docs: {collection: docs, queries: others.tsv, qrels: others.txt, run: others.trec, k: 5}}
loss: {name: cross-entropy}
steps: 2
checkpoint_every: 1
batch: 2
optimiser: {rate: 1.0e-3, warmup: 1}
validate: {every: 2}
"""
RUN = "work/runs/test/dense.trec"
MADE = "--out quick"
VERBS = {
    "quickstart": f"--passages 100 {MADE}",
    "init": "passages.tsv queries.tsv qrels.txt --models tiny",
    "plan": "recipe.yaml --out planned",
    "pipeline": "recipe.yaml --out other resources.backend=inline",
    "reindex": "recipe.yaml --out nightly resources.backend=inline",
    "train": "training.yaml --out trained resources.backend=inline",
    "beir": "beir --model tiny --out of-beir resources.backend=inline",
    "reproduce": "minilm --inputs --out again",
    "recipes": "--keys",
    "prepare": "--format msmarco-v1 --input passages.tsv --out prepared --inline",
    "tokenize": "--collection passages.tsv --model tiny --out tokens --inline",
    "encode": "--collection passages.tsv --model tiny --out encoded --inline",
    "index": "--collection passages.tsv --out indexed --inline",
    "search": "--index work --queries queries.tsv --out found --inline",
    "fuse": f"--runs {RUN} --runs run.trec --method rrf --out fused",
    "score": f"--run {RUN} --collection passages.tsv --queries queries.tsv --model mono --inline"
    " --out scored",
    "aggregate": "--pairs work --method min --out summed --inline",
    "table": "work",
    "report": "work",
    "show": "work --query q1",
    "evaluate": f"{RUN} --qrels qrels.txt",
    "compare": f"{RUN} run.trec --qrels qrels.txt",
    "export": "work/stores/vectors --to faiss --out exported",
    "analyse fusion": "work",
    "leaderboard template": "--task msmarco-passage",
    "leaderboard check": f"{RUN} --task local",
    "leaderboard pack": f"--eval {RUN} --task local --id mine --out packed",
    "model show": "tiny",
    "model convert": "pickled --preset monobert --out converted",
    "status": "work",
    "history": "work",
    "rollback": "work",
    "verify": "work",
    "gc": "work",
    "doctor": "",
}
ENDS_WITH = {"rollback": 2}
"""There is no earlier generation; 0 of others."""
QUICK = ("evaluate",)
"""In a process of its own, as it is installed, which takes a second or more of a core."""


class Folder:
    """A folder of somebody else's, in which a user runs raypipe."""

    def __init__(self, place: Path, models: dict[str, Path]) -> None:
        self.place, self.log = place / "theirs", place / "log"
        self.place.mkdir()
        self.raypipe = console_script(place)
        for name, model in models.items():
            shutil.copytree(model, self.place / name)
            (self.place / name / "modeling_tiny.py").write_text("raise ImportError\n")
        texts = ["the zebra", "a lease", "of shards", "rank a query", "run", "the query of a zebra"]
        lines = [f"p{row}\t{text}\n" for row, text in enumerate(texts)]
        pickled = self.place / "pickled"
        shutil.copytree(models["mono"], pickled)
        torch.save(load_file(pickled / "model.safetensors"), pickled / "pytorch_model.bin")
        (pickled / "model.safetensors").unlink()
        (self.place / "passages.tsv").write_text("".join(lines))
        (self.place / "queries.tsv").write_text("q1\ta zebra\nq2\tthe lease\n")
        (self.place / "qrels.txt").write_text("q1 0 p0 1\nq2 0 p1 1\n")
        (self.place / "others.tsv").write_text("q3\trun\n")
        (self.place / "others.txt").write_text("q3 0 p4 1\n")
        for name, queries in (("run", ("q1", "q2")), ("others", ("q3",))):
            rows = [f"{q} Q0 p{row} {row + 1} {9 - row} x\n" for q in queries for row in range(5)]
            (self.place / f"{name}.trec").write_text("".join(rows))
        (self.place / "recipe.yaml").write_text(RECIPE)
        (self.place / "training.yaml").write_text(TRAINING)
        self._beir(self.place / "beir", texts)

    def _beir(self, folder: Path, texts: list[str]) -> None:
        (folder / "qrels").mkdir(parents=True)
        passages = [f'{{"_id": "p{row}", "text": "{text}"}}\n' for row, text in enumerate(texts)]
        (folder / "corpus.jsonl").write_text("".join(passages))
        (folder / "queries.jsonl").write_text('{"_id": "q1", "text": "a zebra"}\n')
        (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq1\tp0\t1\n")

    def run(self, command: list[str], **variables: str) -> subprocess.CompletedProcess[str]:
        """What a command there does."""
        return subprocess.run(
            command, cwd=self.place, env=environment(**variables), capture_output=True, text=True
        )

    def told(self) -> list[str]:
        """Which files were run, and by which process; forgotten then."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        self.log.unlink(missing_ok=True)
        return lines


@pytest.fixture(scope="module")
def models(tiny_model, tiny_mono, tiny_duo):
    return {"tiny": tiny_model, "mono": tiny_mono, "duo": tiny_duo}


@pytest.fixture(scope="module")
def folder(models, tmp_path_factory):
    made = Folder(tmp_path_factory.mktemp("folder"), models)
    with contextlib.chdir(made.place):  # in this process: nothing strange lies there yet
        done = run(["pipeline", "recipe.yaml", "--out", "work", "resources.backend=inline"])
    assert done == (0, "complete")
    put_canaries(made.place, made.log)
    return made


def words(verb: str) -> list[str]:
    return [*verb.split(), *VERBS[verb].split()]


def test_every_verb_is_in_the_table():
    import typer.main

    verbs = typer.main.get_command(app()).commands
    assert {verb.split()[0] for verb in VERBS} == {*verbs}


@pytest.mark.parametrize("verb", QUICK)
def test_a_command_runs_nothing_of_the_current_folder(folder, verb):
    done = folder.run([*folder.raypipe, *words(verb)])
    assert folder.told() == []
    assert done.returncode == 0, done.stderr


SEVERAL = """
import json, sys
commands, log, ends = json.loads(sys.argv[1]), *sys.argv[2:]
from raypipe.isolation import leave_folder
del sys.path[0]
leave_folder()
from raypipe.cli.main import run
for verb, words in commands:
    code, _ = run(words)
    with open(ends, "a") as file:
        print(json.dumps([verb, code, sorted(open(log))]), file=file)
"""


@pytest.mark.slow
def test_nor_does_any_other_one_after_the_other(folder, tmp_path):
    """In one process, which is begun as the installed command is, and imports all that they do."""
    script, ends = tmp_path / "several", tmp_path / "ends"
    script.write_text(SEVERAL)
    # The quickstart finds its stores: with Ray the next test works.
    inline = f"pipeline quickstart {MADE} collection.max_passages=100 resources.backend=inline"
    others = [("its stores", inline.split())]
    others += [(verb, words(verb)) for verb in VERBS if verb not in QUICK]
    command = [sys.executable, script, json.dumps(others), folder.log, ends]
    folder.log.touch()
    done = folder.run([*map(str, command)])
    assert folder.told() == []
    found = [json.loads(line) for line in ends.read_text().splitlines()]
    assert found == [[verb, ENDS_WITH.get(verb, 0), []] for verb, _ in others], done.stderr


ON_RAY = ("resources.backend=ray", "resources.actors=1", "resources.threads=1")
BM25 = "stages:\n  lucene: {do: index}\n  bm25: {do: search, index: lucene, depth: 5}"


@pytest.mark.slow
@pytest.mark.ray
@pytest.mark.jvm
def test_rays_workers_and_java_run_nothing_of_the_current_folder(folder):
    (folder.place / "bm25.yaml").write_text(RECIPE.replace("stages:", BM25))
    done = folder.run([*folder.raypipe, "pipeline", "bm25.yaml", "--out", "on-ray", *ON_RAY])
    assert folder.told() == []
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.ray
def test_a_training_on_ray_starts_where_every_path_has_a_blank_and_runs_nothing_of_the_folder(
    models, tmp_path
):
    """Its second phase begins from the first one's model, and the workspace's path is relative."""
    place = tmp_path / "a b"
    place.mkdir()
    theirs = Folder(place, models)
    put_canaries(theirs.place, theirs.log)
    phases_of(theirs.place / "training.yaml", {}, {"seed": 1})
    (theirs.place / "training.yaml").rename(theirs.place / "my recipe.yaml")
    (place / "env").symlink_to(Path(sys.executable).parent.parent)
    python, script = place / "env" / "bin" / Path(sys.executable).name, theirs.raypipe[1]
    command = [python, script, "train", "my recipe.yaml", "--out", "the work"]
    workers = ("resources.workers=1", "resources.max_failures=1")
    done = theirs.run([*map(str, command), "resources.backend=ray", *workers])
    assert theirs.told() == []
    assert done.returncode == 0, done.stderr
    work = theirs.place / "the work"
    assert json.loads((work / "summary.json").read_text())["status"] == "complete"
    for model in ("small.part-1", "small"):
        assert (work / "models" / model / "model.safetensors").exists()


def imported_by_python(folder: Path) -> list[str]:
    """What `python -m` itself imports, from the current folder if it is there, before raypipe."""
    folder.mkdir()
    (folder / "nothing.py").write_text("import sys\nprint(*sys.modules)\n")
    command = [sys.executable, "-m", "nothing"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.split()


@pytest.mark.slow
@pytest.mark.ray
def test_where_raypipe_lies_in_the_current_folder_it_alone_is_taken(models, tmp_path):
    """Other bytes than those that are installed: a worker that finds these is refused."""
    theirs = Folder(tmp_path, models)
    left_out = ("raypipe", *imported_by_python(tmp_path / "empty"))
    put_canaries(theirs.place, theirs.log, leave_out=left_out)
    shutil.copytree(FOLDER, theirs.place / "raypipe", ignore=shutil.ignore_patterns("__pycache__"))
    with (theirs.place / "raypipe" / "schema.py").open("a") as file:
        file.write("# another version\n")
    command = [sys.executable, "-m", "raypipe"]
    done = theirs.run([*command, "pipeline", "recipe.yaml", "--out", "work", *ON_RAY])
    assert theirs.told() == []
    assert done.returncode == 0, done.stderr
