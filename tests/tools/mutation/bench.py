"""Tests run against one mutant, in a copy of a tree: forked from a process with heavy imports."""

import contextlib
import importlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from contexts import CONFIGURATION, SECONDS, SETTINGS
from coverage import CoverageData
from draw import Mutant

NOT_COUNTED = ("tests/test_architecture.py", "tests/test_mutants.py")
"""They read the source and would fail for its form alone; the last one draws mutants."""
WARM = ("pytest", "numpy", "pyarrow.parquet", "pydantic", "torch", "transformers", "tokenizers")
WARM += ("hypothesis", "scipy.stats", "ir_measures", "safetensors.torch", "typer.testing", "yaml")
LEAST_SECONDS = 300
A_TEST_SECONDS = 120


@dataclass(frozen=True)
class Reached:
    """What a suite reaches, and what its tests cost."""

    lines: dict[str, dict[int, list[str]]]
    """File -> line -> the tests that reach it."""
    seconds: dict[str, float]

    def by(self, mutant: Mutant) -> list[str]:
        """The tests that reach the mutant's statement, the cheapest first.

        A line that only the import runs, as that of a default is, is reached by whoever runs any
        line of its file.
        """
        lines = self.lines.get(mutant.file, {})
        wanted = lines if mutant.imported else range(mutant.first, mutant.last + 1)
        tests = {test for line in wanted for test in lines.get(line, ())} & self.seconds.keys()
        return sorted(tests, key=lambda test: (self.seconds[test], test))

    def beside(self, mutant: Mutant, tests: Sequence[str]) -> list[str]:
        """The other tests of the same files: what a fixture reaches is its first test's.

        Of a line that the import runs also those of the same folder: the first import is of one.
        """
        files, found = {test.partition("::")[0] for test in tests}, {*tests}
        folder = f"tests/{mutant.file.split('/')[1]}/"
        others = [
            test
            for test in self.seconds.keys() - found
            if test.partition("::")[0] in files or (mutant.imported and test.startswith(folder))
        ]
        return sorted(others, key=lambda test: (self.seconds[test], test))


class Bench:
    """A copy of a tree that tests are run in."""

    def __init__(self, root: Path, scratch: Path, marks: str) -> None:
        self.scratch, self.marks = scratch / "tree", marks
        self._clock = int(time.time())
        listed = ["git", "-C", str(root), "ls-files", "-z"]
        for name in subprocess.run(listed, capture_output=True, check=True).stdout.split(b"\0"):
            source, to = root / os.fsdecode(name), self.scratch / os.fsdecode(name)
            if source.is_file():
                to.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, to)
        os.environ["PYTHONPATH"] = f"{self.scratch}:{Path(__file__).parent}"
        # conftest.py looks beside the repository, which the copy is not.
        os.environ.setdefault("RAYPIPE_DATA", str(root.parent / "shared" / "data"))
        sys.path.insert(0, str(self.scratch))

    def reached(self, keep: Path, tests: Sequence[str], workers: int) -> Reached:
        """The suite without a mutant; it must be green. `keep` holds what was found."""
        if not (keep / "seconds.jsonl").exists():
            shutil.rmtree(keep, ignore_errors=True)
            keep.mkdir(parents=True)
            settings, seconds = keep / "coveragerc", keep / "seconds"
            data = {"raypipe": self.scratch / "raypipe", "data": keep / "data"}
            settings.write_text(CONFIGURATION.format(**data))
            command = [
                sys.executable,
                "-m",
                "coverage",
                "run",
                f"--rcfile={settings}",
                "-m",
                "pytest",
            ]
            command += ["-q", "-p", "contexts", "-p", "no:cacheprovider", "-m", self.marks]
            command += [f"--ignore={name}" for name in NOT_COUNTED]
            command += ["-n", str(workers), "--dist", "loadfile"] if workers > 1 else ["-n0"]
            environment = {**os.environ, SECONDS: str(seconds), SETTINGS: str(settings)}
            done = subprocess.run([*command, *tests], cwd=self.scratch, env=environment)
            if done.returncode:
                raise SystemExit("the suite is not green without a mutant")
            combine = ["-m", "coverage", "combine", "-q", f"--rcfile={settings}"]
            subprocess.run([sys.executable, *combine], cwd=keep, check=True)
            seconds.rename(keep / "seconds.jsonl")
        cost = [json.loads(line) for line in (keep / "seconds.jsonl").read_text().splitlines()]
        data, lines = CoverageData(str(keep / "data")), dict[str, dict[int, list[str]]]()
        data.read()
        for file in data.measured_files():
            name = "raypipe/" + file.partition("/tree/raypipe/")[2]
            by_line = data.contexts_by_lineno(file)
            lines[name] = {n: sorted({*map(_test, tests)}) for n, tests in by_line.items()}
        if not any(any(by_line.values()) for by_line in lines.values()):
            raise SystemExit(f"{keep}: no test reached a line; coverage measures no child process")
        return Reached(lines, dict(cost))

    def kills(self, mutant: Mutant, reached: Reached) -> str:
        """The first test that fails against the mutant, "timeout", or "" where none does."""
        exact = reached.by(mutant)
        path = self.scratch / mutant.file
        whole = path.read_bytes()
        try:
            self._write(path, mutant.apply(whole))
            return self._first(exact, reached) or self._first(
                reached.beside(mutant, exact), reached
            )
        finally:
            self._write(path, whole)

    def _first(self, tests: Sequence[str], reached: Reached) -> str:
        if not tests:
            return ""
        seconds = max(LEAST_SECONDS, 4 * sum(reached.seconds[test] for test in tests))
        code, said = self._forked(lambda: self._pytest(tests), seconds)
        if code in (0, 5):
            return ""
        if code is None:
            return "timeout"
        named = [line for line in said.splitlines() if line.startswith(("FAILED", "ERROR"))]
        return named[0].split(" ")[1] if named else f"pytest's exit {code}"

    def _pytest(self, tests: Sequence[str]) -> int:
        import hypothesis
        import pytest

        phases = [hypothesis.Phase.explicit, hypothesis.Phase.generate]  # no time for shrinking
        hypothesis.settings.register_profile(
            "mutants", derandomize=True, database=None, deadline=None, phases=phases
        )
        hypothesis.settings.load_profile("mutants")
        options = ["-x", "-q", "-n0", "-p", "no:cacheprovider", "--tb=line", "-m", self.marks]
        return int(pytest.main([*tests, *options, f"--timeout={A_TEST_SECONDS}"]))

    def imports(self, mutant: Mutant) -> bool:
        """Whether the mutant's module can be imported; asked of what the import runs."""
        if not mutant.imported:
            return True
        path = self.scratch / mutant.file
        whole = path.read_bytes()
        module = mutant.file.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
        try:
            self._write(path, mutant.apply(whole))
            return self._forked(lambda: bool(importlib.import_module(module)) - 1, 120)[0] == 0
        finally:
            self._write(path, whole)

    def warm(self) -> None:
        """Import what tests import, for the children to have."""
        if not Path("/dev/nvidiactl").exists():
            os.environ.setdefault("TRITON_INTERPRET", "1")  # read once, as transformers is imported
        for name in WARM:
            with contextlib.suppress(ImportError):
                importlib.import_module(name)

    def _write(self, path: Path, content: bytes) -> None:
        """Write with a time of its own, so that no compiled copy of another content is used."""
        path.write_bytes(content)
        self._clock += 2
        os.utime(path, (self._clock, self._clock))

    def _forked(self, work: Callable[[], int], seconds: float) -> tuple[int | None, str]:
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


def _test(context: str) -> str:
    """The test of a context: `NODE`, or of a child process `NODE (call)`."""
    return context.removesuffix(" (setup)").removesuffix(" (call)").removesuffix(" (teardown)")
