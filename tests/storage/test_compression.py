import bz2
import gzip
import io
import lzma
import os
import tarfile
import tracemalloc
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pytest
import zstandard

from raypipe import regular
from raypipe.data import records
from raypipe.errors import InputError
from raypipe.storage.compression import COMPRESSED_SUFFIXES, is_compressed, open_binary

PACK = {".gz": gzip.compress, ".bz2": bz2.compress, ".zst": zstandard.ZstdCompressor().compress}


TEXT = b"".join(b"%d\tline number %d\n" % (n, n * n) for n in range(20_000))


def write(folder: Path, name: str, content: bytes) -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def read(path: Path) -> bytes:
    with open_binary(path) as stream:
        return stream.read()


@pytest.mark.parametrize("suffix", PACK)
def test_many_members_come_back_as_one_text(tmp_path, suffix):
    pack = PACK[suffix]
    content = pack(TEXT[:100_001]) + pack(b"") + pack(TEXT[100_001:])
    assert read(write(tmp_path, "x.tsv" + suffix, content)) == TEXT


@pytest.mark.parametrize("suffix", PACK)
def test_the_content_decides_not_the_name(tmp_path, suffix):
    packed = write(tmp_path, "x.tsv", PACK[suffix](TEXT))
    assert read(packed) == TEXT and is_compressed(packed)
    plain = write(tmp_path, "y.tsv" + suffix, TEXT)
    assert read(plain) == TEXT and not is_compressed(plain)


def archive(kind: str) -> bytes:
    """A text in a packing that is not read."""
    out, text = io.BytesIO(), TEXT[:1000]
    if kind == "xz":
        return lzma.compress(text)
    if kind == "zip":
        with zipfile.ZipFile(out, "w") as packed:
            packed.writestr("x.tsv", text)
    elif kind == "tar":
        with tarfile.open(fileobj=out, mode="w") as files:
            entry = tarfile.TarInfo("x.tsv")
            entry.size = len(text)
            files.addfile(entry, io.BytesIO(text))
    return out.getvalue()


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("xz", "found xz data; unpack it: xz -d FILE"),
        ("zip", "found a zip archive; unpack it: unzip FILE"),
        ("tar", "found a tar archive of files; unpack it: tar xf FILE"),
    ],
)
@pytest.mark.parametrize("suffix", ["", *PACK])
def test_archives_and_other_packings_are_named_whatever_the_files_name(
    tmp_path, kind, told, suffix
):
    content = archive(kind)
    path = write(tmp_path, "x.tsv", PACK[suffix](content) if suffix else content)
    with pytest.raises(InputError, match=rf"x\.tsv: expected .*{told}"):
        read(path)


@pytest.mark.parametrize(("head", "name"), [(b"ARROW1\0\0", "file"), (b"\xff" * 4, "stream")])
def test_arrows_own_files_are_named_with_what_writes_parquet(tmp_path, head, name):
    path = write(tmp_path, "data.arrow", head + b"\x10\0\0\0" * 100)
    with pytest.raises(InputError, match=rf"data\.arrow: .*found an Arrow {name}; write it as Par"):
        read(path)


def test_a_plain_text_that_begins_like_bzip2_is_plain(tmp_path):
    assert read(write(tmp_path, "x.tsv", b"BZh9 is\ta header")) == b"BZh9 is\ta header"


@pytest.mark.parametrize("suffix", PACK)
@pytest.mark.parametrize("kept", [0.999, 0.5, 12])
def test_a_truncated_file_is_refused_with_its_name_and_the_byte_reached(tmp_path, suffix, kept):
    packed = PACK[suffix](TEXT)
    kept_bytes = kept if isinstance(kept, int) else int(len(packed) * kept)
    path = write(tmp_path, "cut.tsv" + suffix, packed[:kept_bytes])
    with pytest.raises(InputError, match=r"cut\.tsv.*cut off.*after byte [\d,]+ of"):
        read(path)


@pytest.mark.parametrize("suffix", PACK)
def test_a_truncated_second_member_is_refused(tmp_path, suffix):
    pack = PACK[suffix]
    path = write(tmp_path, "cut" + suffix, pack(b"a\tb\n") + pack(TEXT)[:-9])
    with pytest.raises(InputError, match="cut off"):
        read(path)


@pytest.mark.parametrize("suffix", PACK)
def test_other_bytes_behind_the_last_member_are_refused_not_dropped(tmp_path, suffix):
    path = write(tmp_path, "tail" + suffix, PACK[suffix](b"a\tb\n") + b"3\tnot packed\n")
    with pytest.raises(InputError, match="damaged .* data after byte 4 "):
        read(path)


@pytest.mark.parametrize("suffix", PACK)
def test_zero_padding_behind_the_last_member_is_allowed(tmp_path, suffix):
    path = write(tmp_path, "pad" + suffix, PACK[suffix](b"a\tb\n") + bytes(100_000))
    assert read(path) == b"a\tb\n"


@pytest.mark.parametrize("suffix", [".gz", ".bz2"])
def test_a_flipped_bit_is_refused(tmp_path, suffix):
    packed = bytearray(PACK[suffix](TEXT))
    packed[len(packed) // 2] ^= 4
    with pytest.raises(InputError, match="damaged|cut off"):
        read(write(tmp_path, "flip" + suffix, bytes(packed)))


def test_a_skippable_zstd_frame_comes_first(tmp_path):
    skippable = b"\x50\x2a\x4d\x18" + (4).to_bytes(4, "little") + b"note"
    assert read(write(tmp_path, "x.zst", skippable + PACK[".zst"](TEXT))) == TEXT


@pytest.mark.parametrize("suffix", PACK)
def test_an_empty_compressed_file_is_refused_and_an_empty_text_is_not(tmp_path, suffix):
    with pytest.raises(InputError, match="empty, 0 bytes"):
        read(write(tmp_path, "x" + suffix, b""))
    assert read(write(tmp_path, "y" + suffix, PACK[suffix](b""))) == b""
    assert read(write(tmp_path, "z.tsv", b"")) == b""


def test_a_missing_file_and_a_folder_are_input_errors(tmp_path):
    for path in (tmp_path / "none.tsv", tmp_path):
        with pytest.raises(InputError, match="cannot be read|expected a file, found a folder"):
            open_binary(path)


@pytest.mark.parametrize("suffix", ["", *PACK])
def test_the_observer_sees_every_raw_byte_once_and_in_order(tmp_path, suffix):
    content = PACK[suffix](TEXT) * 3 + bytes(9) if suffix else TEXT
    path = write(tmp_path, "x" + suffix, content)
    seen: list[bytes] = []
    with open_binary(path, observe=lambda block: seen.append(bytes(block))) as stream:
        while stream.read(1000):
            pass
    assert b"".join(seen) == content


@pytest.mark.parametrize("suffix", PACK)
@pytest.mark.parametrize("num_bytes", [(1 << 20) - 1, 1 << 20, (1 << 20) + 1, 3 << 20])
def test_texts_about_as_long_as_the_buffer_end_where_they_end(tmp_path, suffix, num_bytes):
    text = b"x" * num_bytes
    path = write(tmp_path, "x" + suffix, PACK[suffix](text) * 2)
    assert read(path) == text * 2


@pytest.mark.slow
@pytest.mark.fault(36, "200 MB out of a small file take below 80 MiB")
@pytest.mark.parametrize("suffix", PACK)
def test_a_bomb_is_unpacked_in_bounded_blocks(tmp_path, suffix):
    path = write(tmp_path, "bomb" + suffix, PACK[suffix](bytes(200 << 20)))
    assert path.stat().st_size < 250_000
    tracemalloc.start()
    with open_binary(path) as stream:
        assert stream.read(1 << 20) == bytes(1 << 20)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < 80 << 20


def test_the_bounds_of_what_is_read_at_once():
    assert records.MAX_LINE_BYTES == 64 * 1024 * 1024 and records.CHUNK_BYTES == 1024 * 1024
    assert COMPRESSED_SUFFIXES == (".gz", ".bz2", ".zst")


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
        with pytest.raises(InputError, match="empty, 0 bytes, not a .gz file"):
            open_binary(tmp_path / "x.gz")
    held = [path.resolve() for path in Path("/proc/self/fd").iterdir() if path.exists()]
    assert tmp_path / "x.gz" not in held


@pytest.mark.parametrize("suffix", PACK)
def test_a_bomb_of_many_lines_is_refused_by_the_ratio_that_the_error_names(
    tmp_path, monkeypatch, suffix
):
    monkeypatch.setattr(regular, "MIN_UNPACKED_BYTES", 100_000)
    path = write(tmp_path, f"a{suffix}", PACK[suffix](b"\n" * 4_000_000))
    with pytest.raises(InputError, match=rf"{path}: expected at most 200 times its [0-9,]+ packed"):
        read(path)


@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_a_pipe_and_a_device_are_refused_and_not_read(tmp_path, kind):
    path = tmp_path / "a.tsv"
    os.mkfifo(path) if kind == "pipe" else path.symlink_to("/dev/zero")
    for act in (open_binary, is_compressed):
        with pytest.raises(InputError, match=rf"{path}: expected a file, found a {kind}"):
            act(path)


def test_a_file_of_an_ordinary_ratio_is_unpacked_once_also_by_a_wary_reader(tmp_path):
    content = np.random.default_rng(0).integers(48, 58, 15 << 20, np.uint8).tobytes()
    path = tmp_path / "run"
    path.write_bytes(gzip.compress(content, 1))
    with open_binary(path, wary=True) as stream:
        first = stream.read(1)
        path.unlink()  # a second look at it would fail
        assert first + stream.read() == content


def test_a_frame_with_a_window_beyond_128_mib_is_refused_with_what_packs_it_again(tmp_path):
    """As `zstd --long=28` writes it; 2**27 bytes are what `zstd -d` takes without an option."""
    for exponent, num_frames in ((27, 1), (28, 1), (31, 2)):
        params = zstandard.ZstdCompressionParameters(window_log=exponent, strategy=1, hash_log=6)
        frame = zstandard.ZstdCompressor(compression_params=params).compressobj()
        first = PACK[".zst"](TEXT) if num_frames == 2 else b""
        path = write(tmp_path, "x.zst", first + frame.compress(TEXT) + frame.flush())
        if exponent == 27:
            assert read(path) == TEXT
            continue
        found = f"{1 << exponent - 20:,} MiB"
        told = rf"x\.zst: expected zstd .* at most 128 MiB, found {found}, .*--long=31"
        with pytest.raises(InputError, match=told):
            read(path)
