"""The tables in refusals/: a recipe, changes to it, and below each what loading makes of it then.

`PYTHONPATH=tests/helpers python tests/config/test_refusals.py --write` writes that anew.
"""

from pathlib import Path

import pytest
from tables_of_text import cases, write_anew, written

from raypipe.config.load import load_recipe, load_training, verb_of
from raypipe.config.phases import resolved_training
from raypipe.config.resolved import resolved_yaml
from raypipe.errors import InputError
from raypipe.kinds.registry import KINDS, labels_of

TABLES = sorted((Path(__file__).parent / "refusals").glob("*.txt"))
RULE, UNCHANGED = "\n----\n", "(as it is)"
LISTS = {"<kinds>": ", ".join(sorted(KINDS)), "<runs>": " or ".join(labels_of("run"))}
"""Words of a table for lists that grow with the kinds of stages."""


def now(text: str) -> str:
    """The table with what loading makes of each change now."""
    recipe, _, rest = text.partition(RULE)
    names = dict(case[1:].split(" = ", 1) for case in cases(rest) if case.startswith("#"))

    def of(case: str) -> list[str] | None:
        if case.startswith("#"):  # a name for changes that come together
            return None
        parts = [names.get(part, part) for part in case.split(" | ")]
        return outcome(recipe, " | ".join(parts).split(" | "))

    return f"{recipe}{RULE}{written(rest, of)}"


def outcome(recipe: str, changes: list[str]) -> list[str]:
    """The problems after the changes, each `OLD => NEW` or an override.

    Where there are none, `taken` and the lines by which the resolved recipe differs then; of the
    recipe as it is, all its lines.
    """
    text, overrides = recipe, []
    for change in changes:
        old, replaces, new = change.partition(" =>")
        if replaces:
            assert old in text
            text = text.replace(old, new.removeprefix(" ").replace("\\n", "\n"), 1)
        elif change != UNCHANGED:
            overrides.append(change)
    try:
        lines = resolved(text, overrides)
    except InputError as error:
        lines = [problem.removeprefix("a.yaml: ") for problem in error.problems]
        for word, values in LISTS.items():
            lines = [line.replace(values, word) for line in lines]
        return lines
    as_it_is = resolved(recipe, []) if changes != [UNCHANGED] else []
    return ["taken", *(line for line in lines if line not in as_it_is)]


def resolved(text: str, overrides: list[str]) -> list[str]:
    """The lines of the resolved recipe, which is the same recipe when it is read again."""
    training = verb_of(text) == "train"
    load, write = (load_training, resolved_training) if training else (load_recipe, resolved_yaml)
    recipe = load(text, overrides=overrides, base=Path("/r"), env={}, source="a.yaml")
    assert load(write(recipe), base=Path("/elsewhere"), env={}) == recipe
    return [line for line in write(recipe).split("\noverrides:")[0].splitlines() if line]


@pytest.mark.parametrize("table", TABLES, ids=lambda path: path.stem)
def test_a_recipe_is_taken_with_its_defaults_or_refused_with_every_problem_where_it_is(table):
    assert now(table.read_text()) == table.read_text()


if __name__ == "__main__":
    for path in TABLES:
        write_anew(path, now)
