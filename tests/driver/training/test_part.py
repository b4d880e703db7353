"""Where the files of a training, or of a phase, are."""

from pathlib import Path
from types import SimpleNamespace

from training_body import recipe

from raypipe.driver.training.phases import Part

PLACE = SimpleNamespace(folder=Path("/w"))


def names(part):
    found = part.folder(PLACE, "train"), part.of_collection(PLACE, "docs"), part.model_name()
    return part.named, *map(str, found)


def test_a_training_without_phases_has_the_workspace_for_itself():
    assert names(Part(recipe())) == ("mine", "/w/train", "/w/collections/docs", "mine")


def test_a_phase_has_folders_of_its_own_and_the_last_one_has_the_recipes_model():
    own = ("mine.one", "/w/train/one", "/w/collections/one.docs")
    assert names(Part(recipe(), "one", is_last=False)) == (*own, "mine.one")
    assert names(Part(recipe(), "one")) == (*own, "mine")
