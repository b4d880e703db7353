import os
import socket
from pathlib import Path

import pytest

from raypipe.errors import InputError
from raypipe.regular import MAX_RATIO, MIN_UNPACKED_BYTES, check_folder, check_ratio, check_regular


def test_a_file_a_link_to_one_and_nothing_at_all_pass(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "link").symlink_to("file")
    for path in ("file", "link", "missing", "file/inside"):
        check_regular(tmp_path / path)


def test_a_folder_a_pipe_a_device_and_a_socket_are_named(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "zero").symlink_to("/dev/zero")
    kinds = {tmp_path: "a folder", tmp_path / "pipe": "a pipe", tmp_path / "zero": "a device"}
    listening = socket.socket(socket.AF_UNIX)
    here = Path.cwd()
    os.chdir(tmp_path)  # the name of a socket has a limit
    try:
        listening.bind("socket")
    finally:
        os.chdir(here)
        listening.close()
    for path, kind in {**kinds, tmp_path / "socket": "a socket"}.items():
        with pytest.raises(InputError, match=f"{path}: expected a file, found {kind}; "):
            check_regular(path)


def test_a_link_to_itself_is_named(tmp_path):
    (tmp_path / "link").symlink_to("link")
    with pytest.raises(InputError, match="link: expected a file, found links in a circle; "):
        check_regular(tmp_path / "link")


def test_a_ratio_is_refused_only_above_both_limits():
    check_ratio("a", 1, MIN_UNPACKED_BYTES)
    check_ratio("a", MIN_UNPACKED_BYTES, MAX_RATIO * MIN_UNPACKED_BYTES)
    for packed, unpacked in ((1, MIN_UNPACKED_BYTES + 1), (10**6, MAX_RATIO * 10**6 + 1)):
        with pytest.raises(
            InputError, match=f"a: expected at most 200 times its {packed:,} packed"
        ):
            check_ratio("a", packed, unpacked)


def test_a_folder_that_is_there_or_can_be_made_passes(tmp_path, monkeypatch):
    (tmp_path / "link").symlink_to(tmp_path)
    monkeypatch.chdir(tmp_path)
    for path in (tmp_path, tmp_path / "new" / "inside", tmp_path / "link" / "new", Path("new")):
        check_folder(path)


@pytest.mark.parametrize("name", ["file", "file/inside", "dangling", "dangling/inside"])
def test_a_file_in_the_place_of_a_folder_or_above_it_is_named(tmp_path, name):
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "dangling").symlink_to("nothing")
    with pytest.raises(InputError) as caught:
        check_folder(tmp_path / name, "--out ")
    standing = tmp_path / name.partition("/")[0]
    assert str(caught.value) == (
        f"--out {tmp_path / name}: expected a folder, found the file {standing}; name another"
    )
