"""The ceilings of memory hold at 10,000 and 100,000 rows, and at a run of 7 million lines."""

import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARK = Path(__file__).parent / "memory.py"


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("trials", [[], ["--only", "evaluate", "--sizes", "7000000"]])
def test_no_work_takes_more_memory_than_stated(tmp_path, trials):
    sizes = trials or ["--sizes", "10000", "100000"]
    command = [sys.executable, str(BENCHMARK), *sizes, "--scratch", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    assert "0 above the ceiling" in done.stdout
