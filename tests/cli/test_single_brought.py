"""What new users do with commands of one stage: where these run, and what is told before work."""

import json
import os
import sys

import pytest

PASSAGES = "".join(f"p{n}\tthe lease of shard {n}\n" for n in range(3))
RUN = "q1 Q0 p1 1 2.0 x\nq1 Q0 p2 2 1.0 x\n"
VERBS = {
    "prepare": "--format msmarco-v1 --input passages.tsv",
    "tokenize": "--collection passages.tsv --model minilm",
    "encode": "--collection passages.tsv --model minilm",
    "index": "--collection passages.tsv",
    "search": "--index work --queries queries.tsv",
    "score": "--collection passages.tsv --model minilm-mono --run run.trec --queries queries.tsv",
    "aggregate": "--pairs work --method sum",
}
PREPARE, SCORE = (("prepare", *VERBS["prepare"].split()), ("score", *VERBS["score"].split()))


@pytest.fixture
def here(tmp_path, monkeypatch, raypipe_here):
    """A function that runs a command in a folder with small files, without a cluster's address."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    for name, text in (("passages.tsv", PASSAGES), ("queries.tsv", "q1\tlease\n")):
        (tmp_path / name).write_text(text)
    (tmp_path / "run.trec").write_text(RUN)
    return lambda *arguments: raypipe_here(*arguments, "--out", "out")


def started():
    """Whether a Ray was started in this process."""
    return "ray" in sys.modules and sys.modules["ray"].is_initialized()


def contents(folder):
    """Names, and so hashes, of all payloads, and the bytes of all runs."""
    blobs = {file.name for file in (folder / "stores" / "blobs").rglob("*") if file.is_file()}
    return blobs, {file.name: file.read_bytes() for file in (folder / "runs").rglob("*.*")}


@pytest.mark.ray
@pytest.mark.slow
def test_one_stage_has_the_same_bytes_in_this_process_and_on_ray(here, tmp_path):
    done = here(*SCORE)
    assert done.returncode == 0 and ", inline: about 1 s of work or less" in done.stderr
    found = contents(tmp_path / "out")
    os.rename("out", "inline")
    done = here(*SCORE, "--ray")
    assert done.returncode == 0 and ", on Ray: --ray\n" in done.stderr
    assert contents(tmp_path / "out") == found and len(found[1]) == 2


def test_small_work_starts_no_ray_whatever_the_address_says_if_asked(here, monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    done = here(*PREPARE, "--inline")
    assert done.returncode == 0 and ", inline: --inline\n" in done.stderr
    assert not started()


def test_a_collection_is_tokenised_for_a_model_with_keys_of_the_recipe(here, tmp_path, tiny_model):
    command = ("tokenize", "--collection", "passages.tsv", "--model", tiny_model)
    done = here(*command, "resources.shard_rows=2", "--json")
    assert done.returncode == 0, done.stderr
    store = json.loads(done.stdout)["stages"]["tokens@model"]
    assert store["rows"] == len(PASSAGES.splitlines()) and store["shards"]["planned"] > 1


@pytest.mark.parametrize("verb", VERBS)
def test_both_flags_together_are_refused_by_every_verb(verb, here, tmp_path):
    (tmp_path / "work").mkdir()
    recipe = (
        "collection: {format: msmarco-v1, input: [/p.tsv]}\nmodels: {m: {path: minilm-duo}}\n"
        "stages: {i: {do: index}, r: {do: read, runs: {q: /r}}, "
        "s: {do: score, run: r, model: m, k1: 5}}\n"
        "queries: {q: {file: /q.tsv}}\nformat: 1\nname: x\n"
    )
    (tmp_path / "work" / "recipe.yaml").write_text(recipe)
    done = here(verb, *VERBS[verb].split(), "--inline", "--ray")
    assert done.returncode == 2 and "--inline, --ray: expected at most one" in done.stderr


@pytest.mark.parametrize(
    ("megabytes", "told"), [(290, "inline: about 58"), (310, "on Ray: about 62")]
)
def test_an_estimate_of_a_minute_decides(megabytes, told, here, tmp_path):
    """Told of a file with holes, in whose first line is a mistake, so that nothing is read."""
    with (tmp_path / "passages.tsv").open("w") as file:
        file.write("no tab\n" * 1001)
        file.truncate(megabytes * 1_000_000)
    done = here(*PREPARE)
    assert done.returncode == 2 and told in done.stderr


MISTAKES = {
    "empty": (PREPARE, "passages.tsv", b"", "passages.tsv: expected passages, found no record"),
    "undecodable": (PREPARE, "passages.tsv", b"p1\t\xe9\n", "line 1: not UTF-8"),
    "twice": (
        PREPARE,
        "passages.tsv",
        b"p1\ta\np2\tb\np1\tc\n",
        "passages.tsv: line 3: passage id 'p1' again, first in ",
    ),
    "no such query": (SCORE, "run.trec", b"q9 Q0 p1 1 2 x\n", "1 query ids are not in the query"),
    "no run": (SCORE, "run.trec", b"q1 Q0 p1\n", "run.trec: "),
    "query twice": (SCORE, "queries.tsv", b"q1\ta\nq1\tb\n", "line 2: query id 'q1' again"),
    "undecodable query": (SCORE, "queries.tsv", b"q1\t\xe9\n", "queries.tsv: line 1: not UTF-8"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_at_the_head_of_a_file_is_told_before_ray_starts(mistake, here, tmp_path):
    command, file, content, told = MISTAKES[mistake]
    (tmp_path / file).write_bytes(content)
    done = here(*command, "--ray")
    assert done.returncode == 2 and told in done.stderr
    assert not started() and not list((tmp_path / "out").glob("stores/*@*"))


def test_a_repeated_id_below_the_head_is_told_by_file_and_line(here, tmp_path):
    lines = [f"p{n}\ta\n" for n in range(1500)]
    (tmp_path / "more.tsv").write_text("x1\ta\n")
    (tmp_path / "passages.tsv").write_text("".join([*lines, "p7\tb\n"]))
    done = here(*PREPARE, "--input", "more.tsv")
    where = f"{tmp_path}/passages.tsv: line"
    assert f"{where} 1,501: passage id 'p7' again, first in {where} 8;" in done.stderr


def test_what_is_no_utf_8_can_be_replaced_as_the_message_says(here, tmp_path):
    (tmp_path / "passages.tsv").write_bytes(b"p1\tcaf\xe9\n")
    assert "collection.errors=replace, in a recipe or behind `raypipe prep" in here(*PREPARE).stderr
    assert here(*PREPARE, "collection.errors=replace").returncode == 0


def test_a_run_of_other_passages_is_told_what_a_recipe_can_do(here, tmp_path):
    (tmp_path / "run.trec").write_text(RUN.replace("p2", "p99"))
    told = here(*SCORE).stderr
    assert "first p99" in told and "larger_collection of a recipe's read stage" in told


@pytest.mark.parametrize(
    ("given", "meant"),
    [("tsv", "msmarco-v1"), ("json", "jsonl"), ("text", "txt"), ("parqet", "parquet")],
)
def test_a_format_by_another_name_is_told_ours(given, meant, here):
    done = here("prepare", "--format", given, "--input", "passages.tsv")
    assert done.returncode == 2 and f"found text '{given}'; did you mean {meant}?" in done.stderr


@pytest.mark.parametrize("verb", ["encode", "score"])
@pytest.mark.parametrize(("given", "meant"), [("minlm", "minilm"), ("./my-modle", "my-model")])
def test_a_mistyped_model_is_told_the_nearest(verb, given, meant, here, tmp_path):
    (tmp_path / "my-model").mkdir()
    arguments = VERBS[verb].replace("minilm-mono", given).replace("minilm", given)
    done = here(verb, *arguments.replace("minlm", given).split())
    assert done.returncode == 2 and f"{meant}?" in done.stderr and "did you mean" in done.stderr
