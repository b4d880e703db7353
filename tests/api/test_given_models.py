"""A model given to the API: the mode of matrix products is a pipeline's."""

import json
import os
import shutil
import subprocess
import sys

import pytest

import raypipe
from raypipe.api.inputs import model_of
from raypipe.errors import InputError
from raypipe.numerics import STRICT, VARIABLE

CODE = """
import os, sys
from raypipe.api.inputs import model_of
assert {variable!r} not in os.environ or os.environ[{variable!r}] == "COMPATIBLE"
model_of(sys.argv[1], None)
print(os.environ[{variable!r}])
"""


def mode(model, **environment):
    kept = {name: value for name, value in os.environ.items() if name != VARIABLE}
    command = [sys.executable, "-c", CODE.format(variable=VARIABLE), str(model)]
    done = subprocess.run(command, capture_output=True, text=True, env={**kept, **environment})
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.slow
def test_opening_a_model_sets_the_strict_mode_unless_one_is_set(tiny_model):
    assert mode(tiny_model) == STRICT
    assert mode(tiny_model, **{VARIABLE: "COMPATIBLE"}) == "COMPATIBLE"


def test_a_model_whose_settings_allow_more_than_its_positions_is_refused(tiny_model, tmp_path):
    longer = shutil.copytree(tiny_model, tmp_path / "longer")
    positions = json.loads((longer / "config.json").read_text())["max_position_embeddings"]
    settings = json.loads((longer / "raypipe.json").read_text())
    limit = settings["passage_limit"] = positions - 1
    (longer / "raypipe.json").write_text(json.dumps(settings))
    for refusing in (lambda: model_of(longer, None), lambda: raypipe.encode([], longer)):
        with pytest.raises(InputError) as refused:
            refusing()
        assert str(refused.value) == (
            f"{longer}: the settings allow {limit + 2} tokens, the model has {positions} positions;"
            " lower the limits in raypipe.json or under models.NAME.settings of a recipe"
        )
    settings["passage_limit"] = positions - 2  # and the two tokens around a text
    (longer / "raypipe.json").write_text(json.dumps(settings))
    assert len(raypipe.encode(["a zebra"], longer)) == 1
