"""Commands that read text and tables start without the packages that take seconds to load."""

import subprocess
import sys

import pytest

HEAVY = ("torch", "ray", "faiss", "transformers", "jnius", "pyserini", "peft")


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["recipes"],
        ["recipes", "msmarco-multistage"],
        ["pipeline", "--help"],
        ["evaluate", "run.trec", "--qrels", "qrels.txt"],
    ],
    ids=" ".join,
)
def test_nothing_heavy_is_loaded(arguments, tmp_path):
    (tmp_path / "run.trec").write_text("1 Q0 a 1 2 x\n1 Q0 b 2 1 x\n")
    (tmp_path / "qrels.txt").write_text("1 0 b 1\n")
    code = (
        "import sys\n"
        "from raypipe.cli.main import run\n"
        f"code, reason = run({arguments!r})\n"
        f"print(code, [m for m in {HEAVY!r} if m in sys.modules], file=sys.stderr)"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.stderr.splitlines()[-1] == "0 []", done.stderr
