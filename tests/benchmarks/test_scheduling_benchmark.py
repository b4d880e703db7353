"""The benchmark of scheduling runs in each part; its figures are made by hand, at full size."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARK = Path(__file__).parent / "scheduling.py"


def told(*arguments):
    command = [sys.executable, str(BENCHMARK), *map(str, arguments), "--rounds", "1"]
    environment = {**os.environ, "PYTHONPATH": str(BENCHMARK.parent.parent.parent)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.mark.long
@pytest.mark.ray
@pytest.mark.slow
def test_one_actor_is_measured_beside_inline_and_many_beside_one():
    lines = told("one", "--quick", "--cpu-seconds", 2).splitlines()
    cells = [float(cell) for cell in lines[2].split("|")[2:-1]]
    inline, driver, actor, ratio, again, itself, _ = cells
    assert min(inline, actor, again) > 0 and driver < actor
    assert ratio == pytest.approx((driver + actor) / ((inline + again) / 2), abs=0.01)
    assert itself == pytest.approx(again / inline, abs=0.01)
    rows = told("many", "--quick", "--actors", 1, 2, "--shards", 3).splitlines()[2:]
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in rows]
    assert [row[:2] for row in cells] == [["1", "3"], ["2", "6"]]
    assert all(float(row[2].split()[0]) >= 0.3 and float(row[5]) > 0 for row in cells)
