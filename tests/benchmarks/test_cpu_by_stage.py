"""How the benchmark of a quickstart's CPU time counts; it runs in full by hand."""

import json
from types import SimpleNamespace

import pytest
from cpu_by_stage import _counted as counted
from cpu_sampler import where


def stack(*frames):
    """Frames from the innermost outwards: (file, function, local variables)."""
    found = None
    for file, function, *local in reversed(frames):
        code = SimpleNamespace(co_filename=file, co_name=function)
        found = SimpleNamespace(f_code=code, f_locals=dict(*local), f_back=found)
    return found


TASK = SimpleNamespace(ledger=SimpleNamespace(store="mono.test"))
PERFORM = ("/x/raypipe/cluster/worker.py", "perform", {"task": TASK})
FIND = "<frozen importlib._bootstrap>"


@pytest.mark.parametrize(
    ("frames", "found"),
    [
        ([("/t/torch/linear.py", "f"), ("/x/raypipe/models/encoder.py", "encode"), PERFORM],
         ("mono.test", "model forward")),
        ([("/x/raypipe/models/encoder.py", "load_encoder"), PERFORM],
         ("mono.test", "opening models")),
        ([("/x/raypipe/text/inputs.py", "make"), ("/x/raypipe/models/scorer.py", "score"), PERFORM],
         ("mono.test", "model forward")),
        ([("/x/raypipe/models/machine/device.py", "f")], ("", "probe of rows in company")),
        ([("/x/raypipe/ranking/fuse.py", "f"), ("/x/raypipe/driver/execute.py", "ensure",
                                                 {"name": "fused"})], ("fused", "ranking/fuse.py")),
        ([(FIND, "_find_and_load", {"name": "torch._C"}), ("/t/torch/__init__.py", "<module>"),
          (FIND, "_find_and_load", {"name": "torch"}), ("/x/raypipe/stages/encode.py", "<module>"),
          (FIND, "_find_and_load", {"name": "raypipe.stages.encode"}), PERFORM],
         ("mono.test", "import of torch")),
        ([("/v/site-packages/ray/worker.py", "main_loop")], ("", "Ray's Python")),
        ([("/usr/lib/threading.py", "wait")], ("", "other")),
    ],
)  # fmt: skip
def test_a_thread_is_where_its_innermost_known_frame_is(frames, found):
    assert where(stack(*frames)) == found


def test_times_are_added_up_and_those_that_a_process_did_not_count_are_told(tmp_path):
    counts = [["mono", "model forward", 2.0], ["", "sampler", 0.5], ["", "import of torch", 1.0]]
    (tmp_path / "7.json").write_text(json.dumps({"process": "worker", "counts": counts}))
    (tmp_path / "8.json").write_text(json.dumps({"process": "Lucene", "counts": [["", "x", 3.0]]}))
    whole = {7: ("short processes", 4.25), 8: ("short processes", 3.0), 9: ("reaper", 0.75)}
    by_kind, by_stage = counted(tmp_path, whole)
    assert by_kind == {
        "model forward": 2.0, "import of torch": 1.0, "Lucene": 3.0, "reaper": 0.75,
        "after the last look": 0.75,
    }  # fmt: skip
    assert by_stage == {
        "worker: mono": 2.0, "worker: between stages": 1.0, "Lucene: between stages": 3.0,
        "reaper": 0.75,
    }  # fmt: skip
