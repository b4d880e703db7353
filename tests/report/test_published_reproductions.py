"""What is reproduced: every name's steps, rows and inputs fit the recipes and the tables."""

from functools import cache

import pytest
from packaged_recipes import ENV

from raypipe.config import Recipe, named_recipe, named_training, recipe_text, verb_of
from raypipe.config.paths import recipe_inputs, training_inputs
from raypipe.errors import InputError
from raypipe.report.published import TIME, cells, inputs, names, reproduction, sources

NAMES = ["bm25", "car", "cip", "duobert", "monobert", "multistage", "repbert"]
TOLERANCES = {"the authors' weights": 0.001, "retrained": 0.01, "their run, measured here": 0.001}


@cache
def recipes_of(name):
    """Each step's recipe, and the paths that it reads."""
    env = ENV | {name: f"${{{name}}}" for name in inputs().folders} | {"OUT": "/out"}
    found = {}
    for step in reproduction(name).steps:
        trains = verb_of(recipe_text(step.recipe)) == "train"
        own = {key: value.replace("${OUT}", "/out") for key, value in step.environment.items()}
        load = named_training if trains else named_recipe
        recipe = load(step.recipe, overrides=step.settings, env=env | own)
        read = training_inputs(recipe) if trains else recipe_inputs(recipe)
        found[step.called] = recipe, [told[1] for told in read]
    return found


def test_there_is_one_for_every_name():
    assert names() == NAMES
    assert all(reproduction(name).name == name for name in NAMES)


def test_an_unknown_name_is_told_with_the_nearest():
    with pytest.raises(InputError, match="no 'monobart'; did you mean monobert. expected one of"):
        reproduction("monobart")


@pytest.mark.parametrize("name", NAMES)
def test_what_is_compared_is_measured_by_the_recipe_and_shown(name):
    of = reproduction(name)
    steps = {step.called: step for step in of.steps}
    assert len(steps) == len(of.steps)
    shown = {(each.source, each.table): each for each in of.tables}
    seen = set()
    for each in of.compared:
        recipe, _ = recipes_of(name)[each.step]
        table = shown[each.source, each.table]
        published = {(c.row, c.column): c for c in cells(each.source, each.table, table.collection)}
        for row, systems in each.systems.items():
            for column, system in systems.items():
                cell = published[row, column]
                assert not cell.about.board_only
                assert (each.source, each.table, row, column) not in seen
                seen.add((each.source, each.table, row, column))
                measure = each.measures.get(column, cell.about.measure)
                if isinstance(recipe, Recipe):
                    assert recipe.queries[each.queries].judged
                    assert recipe.stages[system].produces == "run"
                    assert measure in (*recipe.evaluate.measures, TIME)
                else:
                    phase, dev = system.split("/")
                    (training,) = [p.training for p in recipe.phases if p.name == phase]
                    assert dev in training.dev and training.validate_.measure == measure


@pytest.mark.parametrize("name", NAMES)
def test_a_tolerance_is_that_of_how_the_value_comes_about_and_has_a_reason(name):
    for each in reproduction(name).compared:
        assert each.why
        if each.how == "our own baseline":
            assert each.within in (0.001, 0.002, 0.003)
        else:
            assert each.within == TOLERANCES[each.how]


@pytest.mark.parametrize("name", NAMES)
def test_every_input_is_described_or_made_by_an_earlier_step(name):
    made = []
    for step in reproduction(name).steps:
        _, found = recipes_of(name)[step.called]
        for path in found:
            if not path.startswith(tuple(made)):
                assert path[path.index("${") :] in inputs().inputs, path
        made.append(f"/out/{step.folder}/")


def test_no_description_is_of_a_file_that_nothing_reads():
    read = {path for name in NAMES for _, found in recipes_of(name).values() for path in found}
    assert {path[path.index("${") :] for path in read if "${" in path} == set(inputs().inputs)


def test_every_paper_table_is_shown_under_some_name():
    shown = {(t.source, t.table) for name in NAMES for t in reproduction(name).tables}
    assert shown == {(name, t.name) for name, source in sources().items() for t in source.tables}


def test_every_column_of_every_paper_is_shown_whole_under_some_name():
    whole = {
        (cell.source, cell.table, cell.row, cell.column)
        for name in NAMES
        for t in reproduction(name).tables
        if t.others
        for cell in cells(t.source, t.table, t.collection)
    }
    every = {
        (cell.source, cell.table, cell.row, cell.column)
        for name, source in sources().items()
        for table in source.tables
        for cell in cells(name, table.name)
    }
    assert every == whole
