"""A pickle that runs code leaves its canary unwritten, whatever wraps it."""

import os
import pickle
import signal
import subprocess
import sys
import zipfile
from contextlib import suppress

import checkpoints as made
import numpy as np
import pytest
import torch

from raypipe.errors import InputError
from raypipe.models.convert import checkpoint as convert_read
from raypipe.models.convert.convert import convert


class Evil:
    """Writes its canary when it is unpickled."""

    def __init__(self, canary):
        self.canary = str(canary)

    def __reduce__(self):
        return os.mkdir, (self.canary,)


def plain(file, evil):
    file.write_bytes(pickle.dumps({"bert.x": evil}))


def legacy(file, evil):
    torch.save({"bert.x": evil}, file, _use_new_zipfile_serialization=False)


def zipped(file, evil):
    torch.save({"w": torch.ones(2), "bert.x": evil}, file)
    assert zipfile.is_zipfile(file)


def nested(file, evil):
    torch.save({"state_dict": {"w": torch.ones(2)}, "optimizer": [evil]}, file)


def archive(file, evil):
    np.savez(file.with_suffix(".npz"), **{"bert/x": np.array([evil], dtype=object)})


@pytest.mark.slow
@pytest.mark.fault(37, "5 of 5 pickles that would run code run none")
@pytest.mark.parametrize("write", [plain, legacy, zipped, nested, archive])
def test_the_canary_stays_unwritten(tmp_path, write, monkeypatch):
    # The variable that loosens torch.load elsewhere does not reach the child.
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")
    folder = made.repbert(tmp_path / "m", made.bert())
    (folder / "pytorch_model.bin").unlink()
    canary = tmp_path / "canary"
    write(folder / "evil.bin", Evil(canary))
    words = made.write_vocabulary(tmp_path / "words")
    with pytest.raises(InputError):
        convert(folder, tmp_path / "out", preset="repbert", tokenizer=words)
    assert not canary.exists()
    assert not (tmp_path / "out").exists()


@pytest.mark.fault(37, "3 of 3 of them do run it under torch's own loose reader")
@pytest.mark.parametrize("write", [plain, legacy, zipped])
def test_the_canary_is_real(tmp_path, write):
    """The same files do run their code where weights_only is off."""
    write(tmp_path / "evil.bin", Evil(tmp_path / "canary"))
    with suppress(RuntimeError):  # a bare pickle is run, then called no checkpoint
        torch.load(tmp_path / "evil.bin", weights_only=False)
    assert (tmp_path / "canary").exists()


@pytest.mark.slow
def test_the_command_line_refuses_with_exit_2_and_says_why(tmp_path, raypipe_cli):
    folder = made.repbert(tmp_path / "m", made.bert())
    zipped(folder / "pytorch_model.bin", Evil(tmp_path / "canary"))
    words = made.write_vocabulary(tmp_path / "words")
    done = raypipe_cli(
        "model",
        "convert",
        folder,
        "--out",
        tmp_path / "out",
        "--preset",
        "repbert",
        "--tokenizer",
        words,
    )
    assert done.returncode == 2
    assert "refused" in done.stderr and "mkdir" in done.stderr  # torch names what it would call
    assert not (tmp_path / "canary").exists()


def test_a_child_that_does_not_end_is_ended(tmp_path, monkeypatch):
    slow = tmp_path / "slow.py"
    slow.write_text("import time\ntime.sleep(60)\n")
    monkeypatch.setattr(convert_read, "CHILD", slow)
    monkeypatch.setattr(convert_read, "CHILD_SECONDS", 0.5)
    torch.save({"w": torch.ones(1)}, tmp_path / "a.bin")
    with pytest.raises(InputError, match="not read within 0.5 seconds"):
        convert_read.read_checkpoint([tmp_path / "a.bin"])


def test_a_child_that_dies_says_how_and_what_it_had_said(tmp_path, monkeypatch):
    dying = tmp_path / "dying.py"
    dying.write_text(
        "import os, sys\nprint('last words', file=sys.stderr, flush=True)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    monkeypatch.setattr(convert_read, "CHILD", dying)
    torch.save({"w": torch.ones(1)}, tmp_path / "a.bin")
    with pytest.raises(InputError, match="by signal 9") as told:
        convert_read.read_checkpoint([tmp_path / "a.bin"])
    assert told.value.__notes__ == ["last words"]


@pytest.mark.slow
def test_what_a_child_says_beside_its_work_is_logged(tmp_path, monkeypatch, caplog):
    talking = tmp_path / "talking.py"
    talking.write_text(
        "import sys\nprint('a warning', file=sys.stderr)\n" + convert_read.CHILD.read_text()
    )
    monkeypatch.setattr(convert_read, "CHILD", talking)
    torch.save({"w": torch.ones(1)}, tmp_path / "a.bin")
    found = convert_read.read_checkpoint([tmp_path / "a.bin"])
    assert list(found.tensors) == ["w"] and "a.bin: a warning" in caplog.text


def test_a_child_whose_parent_is_gone_ends_itself(tmp_path):
    torch.save({"w": torch.ones(1)}, tmp_path / "a.bin")
    command = [
        sys.executable,
        "-I",
        convert_read.CHILD,
        tmp_path / "a.bin",
        tmp_path / "out",
        "1e-6",
    ]
    assert subprocess.run(command).returncode == -signal.SIGALRM
    assert not (tmp_path / "out").exists()


def test_the_child_imports_nothing_of_raypipe():
    assert "raypipe" not in convert_read.CHILD.read_text().split('"""', 2)[2]
