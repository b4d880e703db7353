"""`model convert` of numpy's archives that are damaged, or lie about what they hold."""

import io
import shutil
import zipfile

import numpy as np
import pytest

MEMBER = "a.npy"


def array(shape, body=b"\0" * 64):
    """A file of numpy whose head says this shape."""
    head = repr({"descr": "<f4", "fortran_order": False, "shape": shape}).encode() + b"\n"
    return b"\x93NUMPY\x01\0" + len(head).to_bytes(2, "little") + head + body


def archive(data, name=MEMBER):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr(name, data)
    return packed.getvalue()


def damaged_stream():
    """Compressed bytes that are no such stream."""
    whole = archive(np.random.default_rng(0).bytes(500) * 9)
    at = 30 + len(MEMBER)
    return whole[:at] + b"\xff" * 20 + whole[at + 20 :]


def objects():
    packed = io.BytesIO()
    np.savez(packed, a=np.array([{}], object))
    return packed.getvalue()


def lies():
    """The bytes of each, made when they are wanted: the zeros take a second."""
    return {
        "a shape of 4 PiB": archive(array((1 << 50,))),
        "a shape that overflows": archive(array((1 << 62, 1 << 62))),
        "a shape below 0": archive(array((-5,))),
        "an array that is cut off": archive(array((100,))),
        "an open bracket": archive(b"\x93NUMPY\x01\0" + (200).to_bytes(2, "little") + b"(" * 200),
        "a text": archive(b"hello", "a.txt"),
        "a damaged stream": damaged_stream(),
        "objects": objects(),
        "80 MB of zeros": archive(array((20 << 20,), b"\0" * (80 << 20))),
        "no archive": b"\0" * 100,
    }


@pytest.mark.fault(50, "10 of 10 archives of numpy that lie or are damaged are refused by name")
def test_each_is_refused_by_its_name_and_nothing_is_made(tiny_model, raypipe_here, tmp_path):
    folder = shutil.copytree(tiny_model, tmp_path / "model")
    (folder / "model.safetensors").unlink()
    (folder / "raypipe.json").unlink()
    for lie, data in lies().items():
        (folder / "model.npz").write_bytes(data)
        made = ["--preset", "minilm", "--out", tmp_path / "made"]
        done = raypipe_here("model", "convert", folder, *made)
        assert done.returncode == 2, f"{lie}: {done.stderr}"
        assert f"{folder / 'model.npz'}: " in done.stderr, f"{lie}: {done.stderr}"
    assert not (tmp_path / "made").exists()
