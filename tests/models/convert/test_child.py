import os
import signal
import subprocess
import sys

import pytest
import torch

from raypipe.models.convert import child
from raypipe.models.convert.child import _plain, _tensors


def test_tensors_are_found_under_the_keys_of_trainers_and_the_rest_is_named():
    w, v = torch.ones(1), torch.zeros(2)
    assert _tensors({"b": w, "a": 3}) == ({"b": w}, ["a"])
    assert _tensors({"epoch": 3, "arm": 1, "state_dict": {"w": w, "y": 1, "x": 2}}) == (
        {"w": w},
        ["arm", "epoch", "x", "y"],
    )
    both = {"model": {"v": v}, "model_state_dict": {"w": w}}
    assert _tensors(both) == ({"w": w}, ["model"])
    nested = {"model": {"state_dict": {"v": v}, "z": 1}}
    assert _tensors(nested) == ({"v": v}, ["z"])
    assert _tensors({"model": w}) == ({"model": w}, [])
    for bad, told in (({"a": 1}, "found none"), ([w], "found list"), ({}, "found none")):
        with pytest.raises(ValueError, match=told):
            _tensors(bad)


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor")
def test_sparse_and_quantised_tensors_are_refused_by_name():
    transposed = torch.arange(6.0).view(2, 3).T
    plain = _plain("t", transposed)
    assert plain.is_contiguous() and torch.equal(plain, transposed)
    assert plain.data_ptr() != transposed.data_ptr()
    quantised = torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8)
    for bad in (torch.ones(2).to_sparse(), quantised):
        with pytest.raises(ValueError, match="^t: expected a dense tensor"):
            _plain("t", bad)


@pytest.mark.slow
def test_a_child_whose_file_never_ends_ends_itself(tmp_path):
    os.mkfifo(tmp_path / "weights.bin")  # nobody writes into it
    command = [sys.executable, "-I", child.__file__, tmp_path / "weights.bin", tmp_path / "out"]
    done = subprocess.run([*command, "0.1"], stdin=subprocess.DEVNULL, capture_output=True)
    assert done.returncode == -signal.SIGALRM, done.stderr
    assert not (tmp_path / "out").exists()
