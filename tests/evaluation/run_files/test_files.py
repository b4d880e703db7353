import bz2
import gzip
import os
import time
import zlib

import pytest
import zstandard

from raypipe import regular
from raypipe.errors import InputError
from raypipe.evaluation.run_files import lines
from raypipe.evaluation.run_files.lines import line_blocks
from raypipe.evaluation.run_files.runs import read_run
from raypipe.storage.compression import replacing_compressed


@pytest.mark.parametrize("size", [1, 2, 3, 5, 8, 100])
def test_blocks_are_whole_lines_whatever_is_read_at_once(tmp_path, size):
    path = tmp_path / "run"
    path.write_bytes(b"\xef\xbb\xbfab\n\ncdefgh\ni\nlast")
    blocks = list(line_blocks(path, block_bytes=max(size, 4)))
    assert b"".join(blocks) == b"ab\n\ncdefgh\ni\nlast"
    assert all(block.endswith(b"\n") for block in blocks[:-1]) and all(blocks)
    path.write_bytes(b"ab\ncd\n")
    assert b"".join(line_blocks(path, block_bytes=size)) == b"ab\ncd\n"


@pytest.mark.parametrize("name", ["a.gz", "a.bz2", "a.zst", "a"])
def test_what_is_written_is_read_again_and_an_old_file_is_replaced(tmp_path, name):
    path = tmp_path / "folder" / name
    for content in (b"old\n", b"new\n" * 1000):
        with replacing_compressed(path) as out:
            out.write(content)
        assert b"".join(line_blocks(path)) == content
    assert [p.name for p in path.parent.iterdir()] == [name]
    plain = name == "a"
    assert (path.stat().st_size == 4000) is plain


def test_the_file_is_flushed_before_it_takes_its_name_and_the_folder_behind(tmp_path, monkeypatch):
    calls = []
    for name in ("fsync", "replace"):
        real = getattr(os, name)

        def told(*arguments, name=name, real=real):
            calls.append(name)
            return real(*arguments)

        monkeypatch.setattr(os, name, told)
    with replacing_compressed(tmp_path / "x") as out:
        out.write(b"1")
    assert calls == ["fsync", "replace", "fsync"]


def test_zlib_data_that_is_damaged_is_refused(tmp_path):
    import gzip

    path = tmp_path / "x.gz"
    packed = bytearray(gzip.compress(b"1 Q0 a 1 1 x\n" * 1000))
    packed[15] ^= 0xFF
    path.write_bytes(packed)
    with pytest.raises(InputError, match="damaged gzip data after byte"):
        list(line_blocks(path))
    assert issubclass(zlib.error, Exception)


def test_an_error_leaves_the_old_file(tmp_path):
    path = tmp_path / "table"
    path.write_bytes(b"old")
    with pytest.raises(RuntimeError), replacing_compressed(path) as out:
        out.write(b"half of the new")
        raise RuntimeError
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["table"]


PACKERS = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "zst": lambda data: zstandard.ZstdCompressor().compress(data),
}


@pytest.mark.fault(36, "6 of 6 bombs of many short lines are refused by the ratio")
@pytest.mark.parametrize("pack", PACKERS.values(), ids=PACKERS)
@pytest.mark.parametrize("content", [b"\n", b"q1 Q0 p1 1 1 x\n"])
def test_a_bomb_is_refused_by_the_ratio_that_the_error_names(tmp_path, monkeypatch, pack, content):
    monkeypatch.setattr(regular, "MIN_UNPACKED_BYTES", 100_000)
    path = tmp_path / "run"
    path.write_bytes(pack(content * (2_000_000 // len(content))))
    with pytest.raises(InputError, match=rf"{path}: expected at most 200 times its [0-9,]+ packed"):
        list(line_blocks(path, block_bytes=1 << 16))


@pytest.mark.parametrize("pack", [PACKERS["gz"], PACKERS["zst"]], ids=["gz", "zst"])
def test_a_bomb_of_equal_lines_is_refused_before_anything_is_made_of_its_first(tmp_path, pack):
    path = tmp_path / "run"
    path.write_bytes(pack(b"q1 Q0 p1 1 1 x\n" * 5_000_000))
    with pytest.raises(InputError, match="expected at most 200 times"):
        next(line_blocks(path))


@pytest.mark.fault(36, "a run file that unpacks to a gigabyte is refused at its first line")
def test_a_real_bomb_of_a_gigabyte_is_refused_at_once(tmp_path):
    path = tmp_path / "run.gz"
    block, packer = bytes(1 << 20), zlib.compressobj(1, zlib.DEFLATED, 31)
    with path.open("wb") as out:
        for _ in range(64):
            out.write(packer.compress(block))
        out.write(packer.flush())
        member = path.read_bytes()
        for _ in range(15):
            out.write(member)
    began = time.process_time()
    with pytest.raises(InputError, match=r"expected at most 200 times its [0-9,]+ packed bytes"):
        read_run(path)
    assert time.process_time() - began < 10


def test_a_line_has_a_limit_and_a_long_one_is_read_in_time(tmp_path, monkeypatch):
    path = tmp_path / "run"
    path.write_bytes(b"q1 Q0 p1 1 2 x\nq1 Q0 p" + b"a" * 70_000_000)
    began = time.process_time()
    with pytest.raises(InputError, match=r"line 2: expected at most 16,777,216 bytes, found more"):
        read_run(path)
    assert time.process_time() - began < 10
    monkeypatch.setattr(lines, "MAX_LINE_BYTES", 10)
    for content, told in (
        (b"ab\n0123456789\n0123456789", None),
        (b"ab\n0123456789\n01234567890", "line 3"),
        (b"ab\n\n01234567890\n\n", "line 3"),
    ):
        path.write_bytes(content)
        if told is None:
            assert b"".join(line_blocks(path, block_bytes=4)) == content
            continue
        with pytest.raises(InputError, match=told):
            list(line_blocks(path, block_bytes=4))


@pytest.mark.parametrize("kind", ["pipe", "device", "folder"])
def test_what_is_no_file_is_refused_and_not_read(tmp_path, kind):
    path = tmp_path / "run"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    else:
        path.mkdir()
    with pytest.raises(InputError, match=rf"{path}: expected a run file, found a {kind}"):
        read_run(path)
    with pytest.raises(InputError, match=rf"{path}: expected a file, found a {kind}"):
        list(line_blocks(path))


def test_a_run_in_utf_16_is_refused_with_the_command_that_converts_it(tmp_path):
    (tmp_path / "run").write_bytes(("1 Q0 a 1 1 t\n" * 3).encode("utf-16"))
    with pytest.raises(InputError, match="run: expected UTF-8, found UTF-16; convert it: iconv"):
        list(line_blocks(tmp_path / "run"))
