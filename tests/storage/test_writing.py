"""A disk on which no more can be written, made by a limit of this process."""

import errno
import resource
from contextlib import contextmanager

import numpy as np
import pytest
import torch
from safetensors import SafetensorError

from raypipe.data.ids import build_id_index
from raypipe.errors import ending_of
from raypipe.storage.payloads import write_tokens, write_vectors, writing
from raypipe.storage.posix import PosixStorage
from raypipe.training.checkpoints import Checkpoints


@contextmanager
def at_most(num_bytes):
    """No file of this process grows beyond so many bytes: a write ends short, then fails."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def vectors(folder):
    write_vectors(folder / "x", np.zeros((5000, 8), np.float16))


def tokens(folder):
    write_tokens(folder / "x", np.zeros(5000, np.uint16), np.array([0, 5000]))


def ids(folder):
    build_id_index([[f"p{row}" for row in range(5000)]], folder / "x", ids_of_rows=None)


def checkpoint(folder):
    Checkpoints(PosixStorage(folder), "train/f").save(1, {"w": torch.zeros(5000)}, {})


@pytest.mark.parametrize("write", [vectors, tokens, ids, checkpoint])
def test_a_file_that_cannot_grow_is_storage_that_failed_and_not_a_bug(write, tmp_path):
    with at_most(4096), pytest.raises(OSError) as failed:
        write(tmp_path)
    assert failed.value.errno in (errno.EFBIG, errno.EIO)
    ending = ending_of(failed.value)
    assert ending.exit_code == 3 and str(tmp_path) in ending.reason
    assert "mend this and run the same command again" in ending.reason


def test_an_error_that_is_not_the_systems_stays_what_it_is(tmp_path):
    with pytest.raises(SafetensorError, match="not a tensor"), writing(tmp_path):
        raise SafetensorError("not a tensor")
    with pytest.raises(IsADirectoryError), writing(tmp_path):
        tmp_path.write_bytes(b"")
