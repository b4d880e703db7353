"""The trainings that phases become, before any of them trains."""

import json

import pytest
from small_training import phases_of

from raypipe.config.load import load_training
from raypipe.driver.training import phases
from raypipe.errors import InputError

SHORT = {"steps": 4, "validate": {"every": 2}, "checkpoint_every": 1}
DUO = {**SHORT, "model": {"preset": "duobert", "passage_limit": 20}}


@pytest.fixture
def three(small_recipe):
    """A recipe of three phases, of which the last one trains another kind of model."""
    return phases_of(small_recipe(), SHORT, SHORT, DUO)


def test_the_dev_queries_of_all_phases_are_guarded_in_each(three, tmp_path):
    recipe = load_training(three)
    part = next(phases.parts_of(recipe, {}))
    assert [*part.recipe.guard] == ["test", "part-2.docs", "part-3.docs"]
    assert next(phases.parts_of(recipe.first, {})).recipe.guard == recipe.first.guard


def test_a_head_is_drawn_anew_only_after_a_phase_of_another_kind(small_recipe, tmp_path):
    given = (SHORT, DUO, DUO, {**SHORT, "after": "part-1"}, {**SHORT, "after": "part-2"})
    recipe, models = load_training(phases_of(small_recipe(), *given)), {}
    parts = []
    for part in phases.parts_of(recipe, models):
        models[part.phase] = tmp_path / part.phase
        models[part.phase].mkdir()
        told = {"start_weights_saw": f"what {part.phase} saw"}
        (models[part.phase] / "raypipe.json").write_text(json.dumps(told))
        parts.append(part)
    assert [part.new_head for part in parts] == [False, True, False, False, True]
    seen = [None, *(f"what part-{n} saw" for n in (1, 2, 1, 2))]
    assert [part.seen for part in parts] == seen
    starts = [part.recipe.model.start for part in parts[1:]]
    assert starts == [str(tmp_path / f"part-{n}") for n in (1, 2, 1, 2)]
    assert [[*part.models] for part in parts] == [list(models)[:n] for n in range(5)]
    assert [part.is_last for part in parts] == [False] * 4 + [True]


def test_phases_on_other_nodes_need_a_folder_that_they_share(three, tmp_path):
    recipe, mirror = load_training(three), tmp_path / "mirror"
    mirror.mkdir()
    phases.check_reachable(recipe, mirror, joins=True)
    (mirror / ".mirrors").write_text("s3://bucket/work")
    phases.check_reachable(recipe, mirror, joins=False)
    phases.check_reachable(recipe.first, mirror, joins=True)
    with pytest.raises(InputError, match="s3://bucket/work: a later phase"):
        phases.check_reachable(recipe, mirror, joins=True)
