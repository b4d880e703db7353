"""What a person meets first: help, the version, completion, and a line that is not understood."""

import re

import pytest
import typer

from raypipe.cli.main import app, run_and_tell
from raypipe.package import VERSION
from raypipe.vocabulary import Format, words


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


@pytest.mark.parametrize("option", ["--k0", "--k1"])
def test_the_papers_names_of_scores_depth_are_answered_with_its_option(raypipe_here, option):
    told = raypipe_here("score", option, "9").stderr
    assert "write --depth: it is k0 of a monoBERT model, and k1 of a duoBERT model" in told


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


def test_a_command_without_its_verb_prints_the_help_and_no_error(raypipe_cli):
    done = raypipe_cli("analyse")
    assert done.returncode == 2
    assert "Usage: raypipe analyse" in done.stdout + done.stderr
    assert done.stderr.splitlines()[-1] == "raypipe: exit 2 (no command was given)"
    assert "error:" not in done.stderr


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
