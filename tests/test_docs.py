"""What docs/ shows of the command line is there: verbs, options, packaged recipes."""

import re
import shlex
from pathlib import Path

import typer
from packaged_recipes import EXPERIMENTS

from raypipe.cli.main import app
from raypipe.config.load import recipe_names
from raypipe.config.load import verb_of as recipe_verb

ROOT = Path(__file__).parent.parent
PAGES = sorted((ROOT / "docs").rglob("*.md"))
TABLE = re.findall(r"^\| `raypipe ([^`]*)` \|(.*)", (ROOT / "docs/commands.md").read_text(), re.M)


def leaves(command, words=()):
    """Each verb, as the words that call it -> its options."""
    if hasattr(command, "commands"):
        return {
            k: v for n, c in command.commands.items() for k, v in leaves(c, (*words, n)).items()
        }
    return {words: {option for each in command.params for option in each.opts}}


RECIPES = {verb: recipe_names(verb) for verb in ("pipeline", "train")}
OPTIONS = leaves(typer.main.get_command(app()))


def verb_of(words):
    return tuple(words[: 2 if words[0] in ("analyse", "leaderboard", "model") else 1])


def test_the_table_of_commands_has_every_verb_once():
    assert sorted(verb_of(shown.split()) for shown, _ in TABLE) == sorted(OPTIONS)


def test_every_option_in_the_table_is_there():
    for shown, said in TABLE:
        found = re.findall(r"--[a-z][a-z0-9.-]*", shown + said)
        assert set(found) <= OPTIONS[verb_of(shown.split())]


def commands(page):
    """Lines `    [NAME=value ...] raypipe VERB ...`, also after `do` in a loop of the shell."""
    found = re.findall(
        r"^    (?:.*?; do )?(?:[A-Z_]+=\S+ )*raypipe ([a-z][^;#\n]*)", page.read_text(), re.M
    )
    return [shlex.split(line) for line in found]


def test_every_command_in_a_page_is_there_with_its_options_and_recipe():
    experiments = [
        (recipe_verb(path.read_text()), f"docs/experiments/{path.name}") for path in EXPERIMENTS
    ]
    for page in PAGES:
        written = re.findall(r"^```yaml\n# (\S+)$", page.read_text(), re.M)
        for words in commands(page):
            options = OPTIONS[verb_of(words)]
            assert {word for word in words if word.startswith("--")} <= options, words
            own = words[1:] and ("$" in words[1] or words[1].startswith("my-"))
            if words[0] in ("pipeline", "train") and not own:
                known = {*RECIPES[words[0]], *written}
                assert words[1] in known or (words[0], words[1]) in experiments, words


def test_commands_are_found_in_the_pages():
    count = {page.name: len(commands(page)) for page in PAGES}
    assert count["training.md"] == 4 and count["reindexing.md"] > 15 and count["nfcorpus.md"] == 4
