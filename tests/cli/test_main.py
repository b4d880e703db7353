"""Help, the version, completion, a line that is not understood, and what a command loads."""

import re
import subprocess
import sys

import pytest
import tiny
import torch
import typer
from recipes import dense, write_files

from raypipe.cli.main import Ended, app, run_and_tell
from raypipe.config.load import load_recipe
from raypipe.driver.execute import Watcher
from raypipe.driver.pipeline import Options, run_pipeline
from raypipe.errors import CorruptError, InputError, Interrupted, LimitError, RefusedError
from raypipe.package import VERSION
from raypipe.vocabulary import BM25_K1, DEPTH, K0, K1, RRF_K, Aggregation, Format, words


def verbs(command, words=()):
    """The words that call each command, groups of commands included."""
    found = [words]
    for name, below in getattr(command, "commands", {}).items():
        found += verbs(below, (*words, name))
    return found


def test_every_command_has_a_short_option_for_help(raypipe_here):
    for called in verbs(typer.main.get_command(app())):
        short, long = (raypipe_here(*called, option) for option in ("-h", "--help"))
        assert short.returncode == 0 and "Usage: raypipe" in short.stdout
        assert short.stdout == long.stdout


def test_the_help_groups_the_verbs_in_the_order_of_a_users_work(raypipe_here):
    panels = re.findall("─ ([A-Z][a-z ]+) ─", raypipe_here("--help").stdout)
    assert panels == ["Options", "Run", "Single stages", "Results", "Models", "Upkeep"]


def test_a_help_names_every_format_of_files_and_not_the_built_in_collection(raypipe_here):
    told = raypipe_here("prepare", "-h").stdout.replace("│", " ").split()
    named = {word.strip(",.") for word in told}
    assert {*words(Format)} - named == {"python-docs"}


def test_version_prints_the_version_alone(raypipe_cli):
    done = raypipe_cli("--version")
    assert (done.returncode, done.stdout) == (0, f"raypipe {VERSION}\n")


MISTYPED = {
    "an option": (["pipeline", "quickstart", "--untli", "bm25"], "--untli", "--until"),
    "a verb": (["pipelin", "quickstart"], "pipelin", "pipeline"),
    "a verb of a group": (["analyse", "dept", "work"], "dept", "depth"),
    "an option before the verb": (["--verson"], "--verson", "--version"),
    "an option with a value": (["search", "--indx=work"], "--indx", "--index"),
}


@pytest.mark.parametrize("line, written, meant", MISTYPED.values(), ids=MISTYPED)
def test_what_is_mistyped_is_named_with_the_nearest_word(raypipe_here, line, written, meant):
    done = raypipe_here(*line)
    assert done.returncode == 2
    error, *_ = done.stderr.splitlines()
    assert error.startswith("error: ") and written in error
    assert error.endswith(f"Did you mean '{meant}'?")


def test_an_option_like_no_other_gets_no_suggestion(raypipe_here):
    done = raypipe_here("status", "--qqqqq", "work")
    assert done.stderr.splitlines() == [
        "error: No such option: --qqqqq",
        "  `raypipe status -h` shows what it takes",
    ]


BM25 = "--bm25.k1 and --bm25.b are BM25's parameters; k0 and k1 are the candidates of rerankers"


@pytest.mark.parametrize(
    ("command", "option", "remedy"),
    [
        ("search", "--k1", BM25),
        ("search", "--b", BM25),
        ("search", "--rm3", "write search.rm3=VALUE in its place"),
        ("score", "--depth", "write --k0 with a monoBERT model, and --k1 with a duoBERT model"),
        ("score", "--tail", "write score.tail=VALUE in its place"),
        ("score", "--break-ties", "write run.break_ties=VALUE in its place"),
        ("score", "--measures", "write evaluate.measures=VALUE in its place"),
        ("aggregate", "--seed", "write METHOD.seed=VALUE in its place"),
        ("prepare", "--errors", "write collection.errors=VALUE in its place"),
    ],
)
def test_an_option_that_is_a_key_is_refused_with_the_key(raypipe_here, command, option, remedy):
    error, advice, *_ = raypipe_here(command, option, "9").stderr.splitlines()
    assert error == f"error: No such option: {option}" and advice == f"  {remedy}"


SINGLE = ("search", "score", "aggregate", "fuse", "tokenize", "encode", "index", "prepare")


@pytest.mark.parametrize("verb", SINGLE)
def test_the_help_of_a_stages_option_is_its_keys_text_with_its_default(verb):
    command = typer.main.get_command(app()).commands[verb]
    command.get_help(command.make_context(verb, ["x"], resilient_parsing=True))
    helps = {option.opts[0]: option.help for option in command.params}
    assert all(helps.values())
    shown = {
        "search": {
            "--depth": f"Passages per query. Default: {DEPTH}.",
            "--bm25.k1": "How much further occurrences of a word add. None only where `tune` is "
            f"given. Default: {BM25_K1}.",
        },
        "score": {
            "--k0": "Candidates per query for a monoBERT model; the output is a run. Default: "
            f"{K0}.",
        },
        "aggregate": {
            "--method": "How the probabilities of a candidate's pairs become its score. "
            f"{', '.join(words(Aggregation))}.",
        },
        "fuse": {"--k": f"The constant of `rrf`; for that method only. Default: {RRF_K}."},
    }
    assert shown.get(verb, {}).items() <= helps.items()
    assert verb != "score" or f"`raypipe score` takes {K1} if it gets none." in helps["--k1"]


def test_a_bad_value_names_its_option(raypipe_here):
    done = raypipe_here("search", "--depth", "ten")
    assert done.returncode == 2
    assert done.stderr.startswith("error: Invalid value for '--depth': ")


def test_a_missing_argument_names_the_help_of_its_command(raypipe_here):
    done = raypipe_here("analyse", "depth")
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        "error: Missing argument 'DIR'",
        "  `raypipe analyse depth -h` shows what it takes",
    ]


def test_an_error_is_printed_once_and_the_last_line_says_what_its_code_means(raypipe_cli, tmp_path):
    done = raypipe_cli("status", tmp_path / "none")
    assert done.stderr.splitlines() == [
        f"error: {tmp_path}/none: no workspace; expected a folder that `--out` named",
        "raypipe: exit 2 (bad input or configuration)",
    ]


def test_ctrl_c_outside_of_a_workspace_is_told_as_such(monkeypatch, tmp_path, capsys):
    def interrupted(folder):
        raise KeyboardInterrupt

    monkeypatch.setattr("raypipe.driver.upkeep.status.status", interrupted)
    assert run_and_tell(["status", str(tmp_path)]).line() == "raypipe: exit 130 (interrupted)"
    assert capsys.readouterr() == ("", "")


def test_a_command_without_its_verb_prints_the_help_and_no_error(capsys):
    assert run_and_tell(["analyse"]).line() == "raypipe: exit 2 (no command was given)"
    told = capsys.readouterr()
    assert "Usage: raypipe analyse" in told.out + told.err and "error:" not in told.err


@pytest.mark.parametrize(
    "typed, offered",
    [("raypipe leader", "leaderboard"), ("raypipe pipeline --allow", "--allow-open-cluster")],
)
def test_a_shell_is_offered_what_begins_as_typed(raypipe_cli, typed, offered):
    place = str(len(typed.split()) - 1)
    shell = {"_RAYPIPE_COMPLETE": "complete_bash", "COMP_WORDS": typed, "COMP_CWORD": place}
    done = raypipe_cli(**shell)
    assert (done.returncode, done.stdout.split(), done.stderr) == (0, [offered], "")


@pytest.mark.parametrize("out", ["n" * 300, "/proc/nowhere", "/proc/nowhere/below"])
def test_a_place_where_no_folder_can_be_made_is_bad_input(raypipe_here, out, tmp_path):
    (tmp_path / "passages.tsv").write_text("0\ta text\n")
    passages = ("--format", "msmarco-v1", "--input", tmp_path / "passages.tsv")
    done = raypipe_here("prepare", *passages, "--out", out)
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert out.removesuffix("/below") in done.stderr


def test_no_switch_is_on_unless_asked():
    found = [typer.main.get_command(app())]
    while found:
        command = found.pop()
        found += getattr(command, "commands", {}).values()
        for option in command.params:
            switch = getattr(option, "is_flag", False) and not option.secondary_opts
            assert not switch or not option.default, (command.name, option.opts)


def test_without_a_command_the_help_is_printed_and_the_exit_is_2(raypipe_here):
    done = raypipe_here()
    assert done.returncode == 2 and "Usage: raypipe" in done.stdout + done.stderr


HEAVY = ("torch", "ray", "faiss", "transformers", "jnius", "pyserini", "peft")


def test_nothing_heavy_is_loaded(tmp_path):
    (tmp_path / "run.trec").write_text("1 Q0 a 1 2 x\n1 Q0 b 2 1 x\n")
    (tmp_path / "qrels.txt").write_text("1 0 b 1\n")
    lines = ["--help", "recipes", "recipes msmarco-multistage", "pipeline --help"]
    lines.append("evaluate run.trec --qrels qrels.txt")
    code = (
        "import sys\n"
        "from raypipe.cli.main import run\n"
        f"for line in {lines!r}:\n"
        "    code, reason = run(line.split())\n"
        f"    loaded = [m for m in {HEAVY!r} if m in sys.modules]\n"
        "    print('after', line, code, loaded, file=sys.stderr)"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    told = [line for line in done.stderr.splitlines() if line.startswith("after")]
    assert told == [f"after {line} 0 []" for line in lines], done.stderr


PARTS = (
    *("cluster", "driver.proof", "driver.training", "report", "storage.generations", "training"),
    *("evaluation.measures", "models.hub", "models.library", "stages.reuse", "text.prompts"),
)
"""Folders and modules of raypipe of which a rerun that computes nothing needs none."""
UNLOADED = ("pandas", *(f"raypipe.{part}" for part in PARTS))


@pytest.mark.slow
def test_a_rerun_and_what_reads_its_workspace_load_none_of_them(tmp_path, tiny_model):
    write_files(tmp_path, ["the zebra", "a lease", "of shards"], judged={"1": "p0", "2": "p1"})
    tiny.make_tiny_reranker(tmp_path / "mono", seed=1)
    recipe, work = tmp_path / "tiny.yaml", tmp_path / "work"
    recipe.write_text(dense(tmp_path, tiny_model, judged=True, mono=tmp_path / "mono"))
    run_pipeline(load_recipe(recipe), work, Options(), watcher=Watcher())
    code = (
        "import sys\n"
        "from raypipe.cli.main import run\n"
        "for line in sys.argv[1:]:\n"
        "    code, _ = run(line.split())\n"
        f"    loaded = [m for m in {HEAVY!r} if m in sys.modules]\n"
        "    print('after', line, code, loaded, file=sys.stderr)\n"
        "    if line.startswith('pipeline'):\n"
        f"        loaded = [m for m in {UNLOADED!r} if m in sys.modules]\n"
        "        print('a rerun', loaded, file=sys.stderr)"
    )
    verbs = ["status", "verify", "history", "gc", "table", "report"]
    lines = [f"pipeline {recipe} --out {work}", *(f"{verb} {work}" for verb in verbs)]
    done = subprocess.run([sys.executable, "-c", code, *lines], capture_output=True, text=True)
    told = [line for line in done.stderr.splitlines() if line.startswith("after")]
    assert told == [f"after {line} 0 []" for line in lines], done.stderr
    assert f"device: CPU, torch {torch.__version__}, fp32" in done.stderr
    assert "a rerun []" in done.stderr.splitlines()


def test_a_reason_that_was_not_printed_stands_on_the_last_line():
    assert Ended(0, "complete").line() == "raypipe: exit 0 (complete)"
    assert Ended(3, "as recorded in the workspace").line() == (
        "raypipe: exit 3 (as recorded in the workspace)"
    )


@pytest.mark.parametrize(
    "error, meant",
    [
        (InputError("x"), "bad input or configuration"),
        (CorruptError("x"), "incomplete, corrupt, or storage failed"),
        (RefusedError("x"), "refused"),
        (LimitError("x"), "a limit was exceeded"),
        (Interrupted("x", 143), "interrupted; the same command resumes"),
        (Interrupted("x", 130), "interrupted; the same command resumes"),
        (RuntimeError("x"), "a bug in raypipe"),
    ],
    ids=lambda value: getattr(type(value), "__name__", None),
)
def test_a_reason_that_was_printed_is_not_repeated(error, meant):
    code = getattr(error, "exit_code", 1)
    assert Ended(code, str(error), told=True).line() == f"raypipe: exit {code} ({meant})"
