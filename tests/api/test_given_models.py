"""A model given to the API: the mode of matrix products is a pipeline's."""

import os
import subprocess
import sys

import pytest

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
