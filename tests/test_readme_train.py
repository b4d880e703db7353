"""The training commands of docs/training.md, run as shown."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "training.md").read_text()


@pytest.mark.slow
def test_the_training_commands_run_as_shown(small_recipe, tmp_path):
    section = PAGE.partition("\n## ")[0]
    commands = re.findall(r"^    raypipe (.*)$", section, re.MULTILINE)
    assert [command.split()[0] for command in commands] == ["recipes", "train", "train", "model"]
    path = small_recipe("my-training", name_="unused")
    text = path.read_text().replace("name: small", "name: my-training")
    lines = [line for line in text.splitlines() if not line.startswith("name_:")]
    path.write_text("\n".join(lines))
    for command in commands:
        done = subprocess.run(
            [sys.executable, "-m", "raypipe", *shlex.split(command)],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        assert done.returncode == 0, done.stderr
        if command.startswith("train"):
            assert done.stdout == (tmp_path / "trained" / "table.md").read_text().rstrip() + "\n"
            assert done.stderr.splitlines()[-2].endswith("model: trained/models/my-training")
    assert "mono" in done.stdout
