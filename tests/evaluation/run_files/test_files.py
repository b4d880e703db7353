import os
import zlib

import pytest

from raypipe.errors import InputError
from raypipe.evaluation.run_files.files import line_blocks, replacing_run


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
        with replacing_run(path) as out:
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
    with replacing_run(tmp_path / "x") as out:
        out.write(b"1")
    assert calls == ["fsync", "replace", "fsync"]


def test_zlib_data_that_is_damaged_is_refused(tmp_path):
    import gzip

    path = tmp_path / "x.gz"
    packed = bytearray(gzip.compress(b"1 Q0 a 1 1 x\n" * 1000))
    packed[15] ^= 0xFF
    path.write_bytes(packed)
    with pytest.raises(InputError, match="cannot be read"):
        list(line_blocks(path))
    assert issubclass(zlib.error, Exception)


def test_an_error_leaves_the_old_file(tmp_path):
    path = tmp_path / "table"
    path.write_bytes(b"old")
    with pytest.raises(RuntimeError), replacing_run(path) as out:
        out.write(b"half of the new")
        raise RuntimeError
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["table"]
