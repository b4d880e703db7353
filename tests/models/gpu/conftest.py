"""Models and texts for passes of fixed shape."""

import numpy as np
import pytest
import random_bert

from raypipe.models.folder.model_folder import resolve_model
from raypipe.text.inputs import TextSlice

SHAPE = random_bert.Shape(layers=3, hidden=64, heads=4, words=1000)


@pytest.fixture(scope="session")
def model_of(tmp_path_factory):
    """A function that gives a random model of a kind, made once."""
    made = {}

    def model(kind="encoder", **settings):
        key = (kind, *sorted(settings.items()))
        if key not in made:
            folder = tmp_path_factory.mktemp("models") / "m"
            made[key] = random_bert.make_random_bert(folder, SHAPE, kind=kind, **settings)
        return resolve_model(str(made[key]))

    return model


@pytest.fixture
def part_of():
    """A function that gives texts of these numbers of pieces."""

    def part(counts, seed):
        flat, offsets = random_bert.pieces_of(counts, SHAPE, seed=seed)
        return TextSlice(flat, offsets[:-1], np.asarray(counts))

    return part
