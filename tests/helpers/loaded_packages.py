"""What code loads in a process of its own."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import raypipe

ROOT = Path(raypipe.__file__).parent
HEAVY = ["torch", "ray", "faiss", "transformers", "tokenizers", "jnius", "peft", "typer"]


def loaded_after(code, *packages):
    told = f"{code}\nimport sys\nprint([p for p in {list(packages)} if p in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", told],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT.parent)},
    )
    assert done.returncode == 0, done.stderr
    return ast.literal_eval(done.stdout.splitlines()[-1])
