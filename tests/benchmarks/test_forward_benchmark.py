"""The benchmark counts operations and padding by hand, and runs whole on a CPU."""

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import forward_work as work
import numpy as np
import pytest
import search_rates as rates

HANGS = """
import sys, threading
from importlib.machinery import PathFinder

hangs = threading.Event()

class Watch(threading.Timer):
    def run(self):
        hangs.wait()
        if self.interval > 3600 * 1000:
            self.function()

threading.Timer = Watch

class Hook(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        spec = super().find_spec(name, path, target) if name == "forward" else None
        if spec is not None:
            execute = spec.loader.exec_module
            def exec_module(module):
                execute(module)
                measured = module.measured
                def hanging(case, *more):
                    if case.kind == "duo":
                        hangs.set()
                        threading.Event().wait()
                    return measured(case, *more)
                module.measured = hanging
            spec.loader.exec_module = exec_module
        return spec

sys.meta_path.insert(0, Hook)
"""
UNLIMITED = ("--minutes", "100000")
"""A limit that no machine reaches: what a test asserts does not hang on its load."""
FOLDER = Path(__file__).parent
ROOT = FOLDER.parent.parent


def test_operations_by_hand():
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


def test_inputs_have_the_lengths_that_are_said(tmp_path):
    case = work.Case("mono, full", "mono", work.TINY, 3, full=True)
    made = work.Work(case, work.QUICK, "cpu", tmp_path / "model")
    assert made.lengths.tolist() == [512, 512, 512]
    query, passage = made.texts()[0]
    assert len(query.split()) + len(passage.split()) == 512 - 3
    np.testing.assert_array_equal(made.ours(), made.from_text()())


def test_padding_by_hand():
    """Sorted, batches of two hold 3 and 4, 5 and 9: 2 * 4 + 2 * 9 tokens for 21 real ones."""
    assert work.padding_of(np.array([9, 3, 5, 4]), 2) == 26 / 21
    assert work.padding_of(np.array([9, 3, 5]), 1) == 1.0


def run(folder, *more, **environment):
    command = [sys.executable, str(ROOT / "jobs" / "benchmark.py"), "--device", "cpu", "--quick"]
    command += ["--tuned", str(folder / "tuned.json"), *UNLIMITED]
    return subprocess.run(
        [*command, *more],
        cwd=folder,
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
    )


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The folder in which the whole has run, at 3.60 dollars an hour: its report and its tuning."""
    folder = tmp_path_factory.mktemp("whole")
    done = run(folder, "--precision", "fp32", "--price", "3.6", "--out", "whole")
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def again(whole):
    """What two parts of it say once they run again in that folder."""
    parts = ("--part", "duo", "--part", "search", "--precision", "fp32")
    done = run(whole, *parts, "--out", "part")
    assert done.returncode == 0, done.stderr
    return report_of(whole, "part")


def report_of(folder, name):
    return json.loads((folder / f"{name}.json").read_text())


@pytest.mark.slow
def test_a_part_runs_on_a_cpu_and_is_tuned_once(whole, again):
    (row,) = (each for each in report_of(whole, "whole")["rows"] if each["case"] == "duo, tiny")
    tried = [way for way in row["one_run_each"] if "transformers, padded" in way]
    assert len(tried) == 2
    (row,) = again["rows"]
    assert (row["case"], row["precision"], row["rounds"]) == ("duo, tiny", "fp32", 2)
    assert row["largest_difference"] < 1e-3
    assert row["tokens_per_second"] > row["items_per_second"] > 0
    assert row["beside"][0]["from"] == "pieces"
    low, high = row["beside"][0]["range"]
    assert low <= row["beside"][0]["times_as_fast"] <= high
    assert (whole / "part.md").read_text().count("| duo, tiny | fp32 |") == 1
    (peer,) = [way for way in row["one_run_each"] if "transformers, padded" in way]
    assert peer in tried and peer.startswith(row["beside"][0]["peer"])


@pytest.mark.long
def test_the_ways_between_products_agree_and_a_pass_is_profiled(tmp_path):
    done = run(tmp_path, "--part", "encode", "--precision", "bf16", "--out", "one")
    assert done.returncode == 0, done.stderr
    (row,) = json.loads((tmp_path / "one.json").read_text())["rows"]
    fused = {"fused"} if find_spec("triton") and "TRITON_INTERPRET" in os.environ else set()
    assert row["between"].keys() == {"compiled"} | fused
    for median, low, high in row["between"].values():
        assert 0 < low <= median <= high
    assert 0 < row["between_difference"] < 0.05
    shares = [share for _, share in row["profile"]]
    assert shares == sorted(shares, reverse=True) and 0.5 < sum(shares) <= 1
    text = (tmp_path / "one.md").read_text()
    assert "| encode, tiny | bf16 | compiled |" in text and "aten::" in text


@pytest.mark.long
def test_a_row_that_fails_is_named_and_the_others_are_measured(tmp_path):
    """The hook lets the second case fail."""
    (tmp_path / "sitecustomize.py").write_text(
        HANGS.replace("hangs.set()", "raise SystemExit('numbers that cannot be told apart')")
    )
    parts = ("--part", "duo", "--part", "mono", "--precision", "fp32")
    done = run(tmp_path, *parts, "--out", "failed", PYTHONPATH=str(tmp_path))
    assert done.returncode == 1
    report = json.loads((tmp_path / "failed.json").read_text())
    assert [row["case"] for row in report["rows"]] == ["mono, tiny", "mono, tiny, 512 tokens"]
    said = "duo, tiny, fp32: SystemExit: numbers that cannot be told apart"
    assert report["failed"] == [said] and f"Failed: {said}" in done.stdout
    assert report["not_run"] == []


@pytest.mark.long
def test_what_there_is_no_time_for_is_named(tmp_path):
    spent = run(tmp_path, "--minutes", "0", "--precision", "fp32")
    assert spent.returncode == 0, spent.stderr
    assert spent.stdout.count("Not run, out of time") == 12
    for name in (
        "tests",
        "the machine",
        "encode, tiny, fp32",
        "train duo, tiny, fp32",
        "search",
        "shared",
    ):
        assert f"Not run, out of time: {name}" in spent.stdout


@pytest.mark.long
def test_a_row_that_passes_the_limit_is_cut_off_and_the_rows_before_it_are_written(tmp_path):
    """The hook makes the second case hang for ever; the limit, of weeks, is reached there."""
    (tmp_path / "sitecustomize.py").write_text(HANGS)
    parts = ("--part", "encode", "--part", "duo", "--precision", "fp32")
    done = run(tmp_path, *parts, "--out", "cut", PYTHONPATH=str(tmp_path))
    assert done.returncode == 0, done.stderr
    report = json.loads((tmp_path / "cut.json").read_text())
    assert [row["case"] for row in report["rows"]] == ["encode, tiny"]
    assert report["not_run"] == ["duo, tiny, fp32 (cut off)"]
    assert "Not run, out of time: duo, tiny, fp32 (cut off)." in done.stdout


@pytest.mark.slow
def test_search_is_set_beside_its_products_and_faiss_and_its_products_are_tuned_once(whole, again):
    report = report_of(whole, "whole")
    found = report["search"]
    assert [*found["faiss"]["batches"]] == ["2", "8"] and len(found["products"]["tried"]) == 2
    for both in (found["products"], *found["faiss"]["batches"].values()):
        assert both["rounds"] == 2
        for told in (both["cpu"], both["wall"]):
            for name in ("raypipe_seconds", "other_seconds", "other_takes", "against_itself"):
                median, low, high = told[name]
                assert 0 < low <= median <= high
    there = report["search_on_device"]
    assert there["rounds"] == 2 and there["size"]["rows"] == 3000
    assert 0 < there["on_device_seconds"] < there["seconds"] and there["products_seconds"] > 0
    text = (whole / "whole.md").read_text()
    assert "40 queries over 3,000 fp16 vectors of 32, depth 20" in text
    assert text.count("| faiss, IndexFlatIP |") == 2 and "| the products alone (" in text
    assert again["left_out"] == again["not_run"] == []
    later = again["search"]["products"]
    assert later["way"] == found["products"]["way"] and later["tried"] == {}


@pytest.mark.long
def test_without_faiss_it_is_left_out_by_name(tmp_path):
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['faiss'] = None\n")
    done = run(tmp_path, "--part", "search", "--out", "one", PYTHONPATH=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "Left out: search beside IndexFlatIP: faiss is not installed." in done.stdout
    assert "faiss" not in json.loads((tmp_path / "one.json").read_text())["search"]


def test_a_search_that_is_not_float64s_is_not_timed(tmp_path, monkeypatch):
    wrong = lambda *given, **named: tuple(part[:, ::-1] for part in search(*given, **named))  # noqa: E731
    search = rates.topk_block_stream
    monkeypatch.setattr(rates, "topk_block_stream", wrong)
    with pytest.raises(SystemExit, match="not those in float64; not timed"):
        rates.measured_search(rates.QUICK, tmp_path)


def test_a_ratio_is_that_of_one_round_and_a_comparison_has_one_at_least():
    """Three rounds: 4 / 2, 9 / 3 and 5 / 5; the search again takes half, all and twice."""
    took = {
        side: [{"cpu": cpu, "wall": 1.0} for cpu in seconds]
        for side, seconds in {"own": (2, 3, 5), "other": (4, 9, 5), "again": (1, 3, 10)}.items()
    }
    told = rates.compared(took)["cpu"]
    assert told["other_takes"] == [2.0, 1.0, 3.0] and told["against_itself"] == [1.0, 0.5, 2.0]
    assert told["raypipe_seconds"] == [3, 2, 5]
    turns = []
    work = {"a": lambda: turns.append("a"), "b": lambda: turns.append("b")}
    assert [*map(len, rates.rounds(work, 3).values())] == [3, 3]
    assert turns == ["a", "b", "b", "a", "a", "b"]
    assert [*map(len, rates.rounds(work, 3, until=0.0).values())] == [1, 1]


@pytest.mark.slow
def test_the_whole_runs_in_small_on_a_cpu(whole):
    """An hour at 3.60 dollars: a million inputs at r a second cost 1000 / r dollars."""
    report = report_of(whole, "whole")
    cases = {row["case"].split(",")[0] for row in report["rows"]}
    assert cases == {"encode", "mono", "duo"} and report["not_run"] == []
    assert all(row["largest_difference"] < 0.1 for row in report["rows"])
    assert [row["case"] for row in report["training"]] == [
        f"train {kind}, tiny" for kind in ("encoder", "mono", "duo")
    ]
    assert report["tests"]["exit"] == 0, report["tests"]
    assert any("gradients" in line for line in report["tests"]["said"])
    shared = report["shared"]
    assert shared["rounds"] == 1 and [*shared["ways"]] == ["1", "2"]
    assert all(rate > 0 for rate, _ in shared["ways"].values())
    text = (whole / "whole.md").read_text()
    assert "On Ray, 600 passages into vectors" in text
    assert f"On {report['machine']['device']}, ratios to peers" in text
    first = report["rows"][0]
    assert f"| {1000 / first['items_per_second']:.2f} |" in text
