"""Test files run against one mutant: forked from a process that holds the heavy imports.

Which functions of raypipe each test file runs is traced once, in the calm run that also shows
the file green and how long it takes. A mutant is tried on the files that run its function, the
quickest first. A mutant outside of functions is tried on the
files that run any function of its module.
"""

import contextlib
import hashlib
import importlib
import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path

from draw import Mutant
from traced import SITE, TRACE, Calm

COPIED = ("raypipe", "tests", "docs", "jobs", "README.md", "LICENSE", "pyproject.toml")
COPIED += ("cluster.yaml", "requirements.lock", "CITATION.cff", ".pre-commit-config.yaml")
COPIED += ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
NOT_COUNTED = {"tests/test_architecture.py"}
NOT_COUNTED |= {"tests/test_structure.py", "tests/test_mutants.py"}
"""They read the source and would fail for its form alone; the last one draws mutants."""
WARM = ("pytest", "numpy", "pyarrow.parquet", "pydantic", "torch", "transformers", "tokenizers")
WARM += ("hypothesis", "scipy.stats", "ir_measures", "safetensors.torch", "typer.testing", "yaml")
CALM_SECONDS = 1200
LEAST_SECONDS = 300
LEAST_SECONDS_A_TEST = 60
"""A test that hangs is ended after this long, or after twice its whole file's calm time."""


class Bench:
    """A scratch copy of the repository that test files are run in."""

    def __init__(self, root: Path, scratch: Path, marks: str, deselected: Sequence[str]) -> None:
        self.root, self.scratch = root, scratch / "tree"
        self.marks, self.deselected = marks, list(deselected)
        self._clock = int(time.time())
        self._traced = scratch / "traced"
        site = scratch / "site"
        site.mkdir(parents=True)
        (site / "sitecustomize.py").write_text(SITE)
        (site / "mutants_trace.py").write_text(TRACE)
        for name in COPIED:
            source = root / name
            copy = shutil.copytree if source.is_dir() else shutil.copy2
            self.scratch.mkdir(exist_ok=True)
            copy(source, self.scratch / name)
        os.environ["PYTHONPATH"] = f"{self.scratch}:{site}"
        os.environ["MUTANTS_ROOT"] = f"{self.scratch}/"
        # conftest.py looks beside the repository, which the copy is not.
        os.environ.setdefault("RAYPIPE_DATA", str(root.parent / "shared" / "data"))
        sys.path[:0] = [str(self.scratch), str(site)]
        for name in WARM:
            with contextlib.suppress(ImportError):
                importlib.import_module(name)

    def files(self) -> list[str]:
        """The test files that count, relative to the repository."""
        paths = (self.scratch / "tests").rglob("test_*.py")
        return sorted({p.relative_to(self.scratch).as_posix() for p in paths} - NOT_COUNTED)

    def calm(self, file: str, kept: Path | None = None) -> Calm:
        """The file's run without a mutant, kept by the content of raypipe and of the file."""
        key = _digest([*(self.scratch / "raypipe").rglob("*.py"), self.scratch / file])
        key = hashlib.sha256(f"{key} {self.marks} {self.deselected}".encode()).hexdigest()
        held = kept / f"{key}.json" if kept else None
        if held and held.exists():
            return Calm(**json.loads(held.read_text()))
        shutil.rmtree(self._traced, ignore_errors=True)
        self._traced.mkdir()
        start = time.monotonic()
        code, said = self._pytest([file], CALM_SECONDS, trace=True)
        seconds = time.monotonic() - start
        ran = {tuple(pair) for p in self._traced.iterdir() for pair in json.loads(p.read_text())}
        found = Calm(code in (0, 5), seconds, sorted(map(list, ran)), said)
        if held and found.green:
            held.parent.mkdir(parents=True, exist_ok=True)
            held.write_text(json.dumps(asdict(found)))
        return found

    def kills(self, mutant: Mutant, files: Sequence[str], calm: dict[str, Calm]) -> str:
        """The first test that fails against the mutant, "timeout", or "" where none does."""
        seconds = [calm[file].seconds for file in files]
        each = int(max(LEAST_SECONDS_A_TEST, 2 * max(seconds)))
        path = self.scratch / mutant.file
        whole = path.read_bytes()
        try:
            self._write(path, mutant.apply(whole))
            code, said = self._pytest(files, max(LEAST_SECONDS, 2 * sum(seconds)), each=each)
        finally:
            self._write(path, whole)
        if code in (0, 5):
            return ""
        if code is None:
            return "timeout"
        named = [line for line in said.splitlines() if line.startswith(("FAILED", "ERROR"))]
        return named[0].split(" ")[1] if named else f"pytest's exit {code}"

    def imports(self, mutant: Mutant) -> bool:
        """Whether the mutant's module can be imported; told apart for code outside of functions."""
        if mutant.function != "<module>":
            return True
        path = self.scratch / mutant.file
        whole = path.read_bytes()
        module = mutant.file.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
        try:
            self._write(path, mutant.apply(whole))
            return self._forked(lambda: bool(importlib.import_module(module)) - 1, 120)[0] == 0
        finally:
            self._write(path, whole)

    def _write(self, path: Path, content: bytes) -> None:
        """Write with a time of its own, so that no compiled copy of another content is used."""
        path.write_bytes(content)
        self._clock += 2
        os.utime(path, (self._clock, self._clock))

    def _pytest(
        self, files: Sequence[str], seconds: float, *, each: int = 240, trace: bool = False
    ) -> tuple[int | None, str]:
        def work() -> int:
            import hypothesis
            import pytest

            phases = [hypothesis.Phase.explicit, hypothesis.Phase.generate]
            hypothesis.settings.register_profile(
                "mutants", derandomize=True, database=None, deadline=None, phases=phases
            )
            hypothesis.settings.load_profile("mutants")
            if trace:
                os.environ["MUTANTS_TRACE"] = str(self._traced)
                mutants_trace = importlib.import_module("mutants_trace")
            code = pytest.main(
                [*files, "-x", "-q", "-p", "no:cacheprovider", "-m", self.marks, "--durations=0"]
                + ["--tb=line", f"--timeout={each}", "-o", "console_output_style=classic"]
                + [f"--deselect={name}" for name in self.deselected]
            )
            if trace:
                mutants_trace.save()
            return int(code)

        return self._forked(work, seconds)

    def _forked(self, work, seconds: float) -> tuple[int | None, str]:
        """(exit status, output) of work in a child; None where it took longer."""
        said = self.scratch.parent / "output.txt"
        child = os.fork()
        if child == 0:
            code = 70
            try:
                os.setsid()
                os.chdir(self.scratch)
                out = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
                for stream in (1, 2):
                    os.dup2(out, stream)
                os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
                code = work()
            finally:
                with contextlib.suppress(Exception):
                    sys.stdout.flush()
                    sys.stderr.flush()
                os._exit(code)
        stop = time.monotonic() + seconds
        code: int | None = None
        while time.monotonic() < stop:
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                code = os.waitstatus_to_exitcode(status)
                break
            time.sleep(0.02)
        with contextlib.suppress(ProcessLookupError):  # what the tests left behind
            os.killpg(child, signal.SIGKILL)
        if code is None:
            os.waitpid(child, 0)
        return code, said.read_text(errors="replace")


def _digest(paths: Iterable[Path]) -> str:
    return hashlib.sha256(b"".join(path.read_bytes() for path in sorted(paths))).hexdigest()
