"""The benchmark counts operations and padding by hand, and runs whole on a CPU."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

FOLDER = Path(__file__).parent
ROOT = FOLDER.parent.parent


@pytest.fixture(scope="module")
def work():
    """The module forward_work, which finds its neighbours as a script's does."""
    places = [str(FOLDER), str(FOLDER.parent / "helpers")]
    sys.path[:0] = places
    try:
        spec = importlib.util.spec_from_file_location("forward_work", FOLDER / "forward_work.py")
        module = importlib.util.module_from_spec(spec)
        sys.modules["forward_work"] = module
        spec.loader.exec_module(module)
        yield module
    finally:
        for place in places:
            sys.path.remove(place)
        sys.modules.pop("forward_work", None)


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


def test_padding_by_hand(work):
    """Sorted, batches of two hold 3 and 4, 5 and 9: 2 * 4 + 2 * 9 tokens for 21 real ones."""
    assert work.padding_of(np.array([9, 3, 5, 4]), 2) == 26 / 21
    assert work.padding_of(np.array([9, 3, 5]), 1) == 1.0


def run(folder, *more):
    command = [sys.executable, str(ROOT / "jobs" / "benchmark.py"), "--device", "cpu", "--quick"]
    tuned = ("--tuned", str(folder / "tuned.json"))
    return subprocess.run([*command, *tuned, *more], cwd=folder, capture_output=True, text=True)


def test_a_part_runs_on_a_cpu_and_is_tuned_once(tmp_path):
    first = run(tmp_path, "--part", "duo", "--precision", "fp32", "--out", "one")
    assert first.returncode == 0, first.stderr
    (row,) = json.loads((tmp_path / "one.json").read_text())["rows"]
    assert (row["case"], row["precision"], row["rounds"]) == ("duo, tiny", "fp32", 2)
    assert row["largest_difference"] < 1e-3
    assert row["tokens_per_second"] > row["items_per_second"] > 0
    assert row["beside"][0]["from"] == "pieces"
    low, high = row["beside"][0]["range"]
    assert low <= row["beside"][0]["times_as_fast"] <= high
    assert (tmp_path / "one.md").read_text().count("| duo, tiny | fp32 |") == 1
    tried = [way for way in row["one_run_each"] if "transformers, padded" in way]
    assert len(tried) == 2
    again = run(tmp_path, "--part", "duo", "--precision", "fp32", "--out", "two")
    assert again.returncode == 0, again.stderr
    (row,) = json.loads((tmp_path / "two.json").read_text())["rows"]
    (peer,) = [way for way in row["one_run_each"] if "transformers, padded" in way]
    assert peer in tried and peer.startswith(row["beside"][0]["peer"])


def test_what_there_is_no_time_for_is_named(tmp_path):
    spent = run(tmp_path, "--minutes", "0", "--precision", "fp32")
    assert spent.returncode == 0, spent.stderr
    assert spent.stdout.count("Not run, out of time") == 4


@pytest.mark.long
def test_the_benchmark_runs_whole_on_a_cpu(tmp_path):
    done = run(tmp_path, "--out", "found")
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "found.json").read_text())
    cases = {row["case"].split(",")[0] for row in found["rows"]}
    assert cases == {"encode", "mono", "duo"} and found["not_run"] == []
    assert all(row["largest_difference"] < 0.1 for row in found["rows"])
