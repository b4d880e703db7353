import warnings
from pathlib import Path

import pytest

from raypipe.data.files import compression, records
from raypipe.data.files.compression import open_binary
from raypipe.errors import InputError


def test_the_bounds_of_what_is_read_at_once():
    assert records.MAX_LINE_BYTES == 64 * 1024 * 1024 and records.CHUNK_BYTES == 1024 * 1024
    assert compression.COMPRESSED_SUFFIXES == (".gz", ".bz2", ".zst")


def test_damage_is_told_with_the_byte_reached(tmp_path):
    import gzip

    path = tmp_path / "x.gz"
    path.write_bytes(gzip.compress(b"0123456789") + b"rest")
    with pytest.raises(InputError, match="damaged gzip data after byte 10 of"):
        open_binary(path).read()
    path.write_bytes(gzip.compress(b"x" * 1234)[:-3])
    with pytest.raises(InputError, match="cut off: the gzip data stop after byte 1,234 of"):
        open_binary(path).read()


def test_an_empty_file_with_a_compressed_name_is_closed_when_it_is_refused(tmp_path):
    (tmp_path / "x.gz").write_bytes(b"")
    with warnings.catch_warnings():
        warnings.simplefilter("error", ResourceWarning)
        with pytest.raises(InputError, match="empty, 0 bytes, which is no .gz file"):
            open_binary(tmp_path / "x.gz")
    held = [path.resolve() for path in Path("/proc/self/fd").iterdir() if path.exists()]
    assert tmp_path / "x.gz" not in held
