"""The GPU's benchmark counts operations by its formula, and runs whole on a CPU."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

FOLDER = Path(__file__).parent


@pytest.fixture(scope="module")
def work():
    """The module gpu_work, which finds its neighbours as a script's does."""
    places = [str(FOLDER), str(FOLDER.parent / "helpers")]
    sys.path[:0] = places
    try:
        spec = importlib.util.spec_from_file_location("gpu_work", FOLDER / "gpu_work.py")
        module = importlib.util.module_from_spec(spec)
        sys.modules["gpu_work"] = module
        spec.loader.exec_module(module)
        yield module
    finally:
        for place in places:
            sys.path.remove(place)
        sys.modules.pop("gpu_work", None)


def test_operations_by_hand(work):
    """Two layers of 4 with an inner layer of 16; inputs of 3 and 5 tokens.

    A token's linear layers take 2 * 12 * 4^2 = 384 a layer, of which query, key and value 96.
    Attention takes 4 * 4 * L * L: 144 and 400 a layer.
    """
    shape = work.Shape(layers=2, hidden=4, heads=2)
    lengths = np.array([3, 5])
    encoder = work.Case("e", "encoder", shape, 2)
    assert work.operations(encoder, lengths) == 2 * (8 * 384 + 144 + 400)
    mono = work.Case("m", "mono", shape, 2)
    # After the last attention two [CLS] alone; pooler 4 x 4 and two units.
    in_last = 8 * 96 + 144 + 400 + 2 * (384 - 96)
    head = 2 * 2 * (4 * 4 + 4 * 2)
    assert work.operations(mono, lengths) == 8 * 384 + 144 + 400 + in_last + head


def test_inputs_have_the_lengths_that_are_said(work, tmp_path):
    case = work.Case("mono, full", "mono", work.TINY, 3, full=True)
    made = work.Work(case, work.QUICK, "cpu", tmp_path / "model")
    assert made.lengths.tolist() == [512, 512, 512]
    query, passage = made.texts()[0]
    assert len(query.split()) + len(passage.split()) == 512 - 3
    np.testing.assert_array_equal(made.ours(), made.from_text()())


@pytest.mark.long
def test_the_benchmark_runs_whole_on_a_cpu(tmp_path):
    command = [sys.executable, str(FOLDER / "gpu.py"), "--device", "cpu", "--quick"]
    done = subprocess.run(
        [*command, "--out", str(tmp_path / "found")], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "found.json").read_text())
    assert [row["case"].split(",")[0] for row in found["rows"]] == ["encode", "mono", "mono", "duo"]
    assert found["not_run"] == []
    for row in found["rows"]:
        assert row["largest_difference"] < 1e-3
        assert row["tokens_per_second"] > row["items_per_second"] > 0
        assert row["beside"][0]["from"] == "pieces"
    assert (tmp_path / "found.md").read_text().count("tiny") == 4
    spent = subprocess.run([*command, "--minutes", "0"], capture_output=True, text=True)
    assert spent.returncode == 0, spent.stderr
    assert spent.stdout.count("Not run, out of time") == 4
