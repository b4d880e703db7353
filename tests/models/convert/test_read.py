import subprocess
import sys

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from raypipe.errors import InputError
from raypipe.models.convert.checkpoint import CHILD, read_checkpoint


@pytest.mark.slow
def test_the_child_exits_with_3_and_says_why(tmp_path):
    torch.save({"n": 1}, tmp_path / "a.bin")
    command = [sys.executable, "-I", CHILD, tmp_path / "a.bin", tmp_path / "out", "60"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == "ValueError: expected tensors by name, found none\n"


def test_two_files_may_not_hold_one_name_and_archives_hold_numbers_alone(tmp_path):
    one, two, archive = (tmp_path / name for name in ("1.safetensors", "2.safetensors", "a.npz"))
    save_file({"a": torch.ones(1), "b": torch.ones(2)}, one)
    save_file({"c": torch.ones(3)}, two)
    np.savez(archive, d=np.arange(4), e=np.array([True]), f=np.ones((1, 2), "f4"))
    found = read_checkpoint([one, two, archive])
    assert {name: tuple(t.shape) for name, t in found.tensors.items()} == {
        "a": (1,), "b": (2,), "c": (3,), "d": (4,), "e": (1,), "f": (1, 2),
    }  # fmt: skip
    assert found.others == [] and [told["format"] for told in found.files] == [
        "safetensors",
        "safetensors",
        "npz",
    ]
    save_file({"a": torch.ones(1), "b": torch.ones(2), "x": torch.ones(1)}, two)
    with pytest.raises(InputError, match=r"2\.safetensors: a and 1 more are in another file"):
        read_checkpoint([one, two])
    np.savez(archive, x=np.array(["a"]), y=np.array([1j]), z=np.arange(2))
    with pytest.raises(InputError) as told:
        read_checkpoint([archive])
    assert told.value.problems == [
        f"{archive}: {name}: expected an array of numbers" for name in "xy"
    ]
    for broken in (one, archive):
        broken.write_bytes(b"no archive")
        with pytest.raises(InputError, match=r"not a safetensors file|expected arrays of numbers"):
            read_checkpoint([broken])
