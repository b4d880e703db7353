"""A training whose environment, recipe and workspace have a blank in their paths."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
@pytest.mark.ray
def test_a_training_on_ray_starts_where_every_path_has_a_blank(small_recipe, tmp_path):
    place = tmp_path / "a b"
    place.mkdir()
    (place / "env").symlink_to(Path(sys.executable).parent.parent)
    recipe = place / "my recipe.yaml"
    resources = {"backend": "ray", "workers": 2}
    recipe.write_text(small_recipe(resources=resources).read_text())
    python = place / "env" / "bin" / Path(sys.executable).name
    command = [python, "-m", "raypipe", "train", recipe, "--out", place / "the work"]
    kept = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}
    done = subprocess.run(command, env=kept, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads((place / "the work" / "summary.json").read_text())["status"] == "complete"
    assert (place / "the work" / "models" / "small" / "model.safetensors").exists()
