"""A node's copies of blobs: bounded, the least recently used go first, none that is in use."""

import hashlib
import os
import subprocess
import sys

import pytest

from raypipe.storage import bucket as node_cache
from raypipe.storage.bucket import NodeCache

BLOBS = [bytes([number]) * 100 for number in range(6)]
NAMES = [hashlib.sha256(blob).hexdigest() for blob in BLOBS]
FETCH = """
import sys
from pathlib import Path
from raypipe.storage.bucket import NodeCache
cache = NodeCache(Path(sys.argv[1]))
for number, name in enumerate(sys.argv[3:], int(sys.argv[2])):
    copy = cache.fetched(name, lambda path: path.write_bytes(bytes([number]) * 100))
print(copy, flush=True)
sys.stdin.read()
"""


def fetch(cache, number):
    return cache.fetched(NAMES[number], lambda path: path.write_bytes(BLOBS[number]))


def another(folder, first, *names):
    """A process that has fetched these and lives until its input ends."""
    command = [sys.executable, "-c", FETCH, str(folder), str(first), *names]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    child = subprocess.Popen(command, **pipes)
    assert child.stdout.readline().startswith(str(folder))
    return child


def end(child):
    child.communicate()
    assert child.returncode == 0


def present(folder):
    return [number for number, name in enumerate(NAMES) if (folder / name[:2] / name).exists()]


def age(folder, number, seconds):
    path = folder / NAMES[number][:2] / NAMES[number]
    os.utime(path, (1e9 - seconds, 1e9 - seconds))


def test_the_least_recently_used_go_until_the_rest_fits(tmp_path):
    end(another(tmp_path, 0, *NAMES))
    for number, seconds in enumerate([10, 60, 20, 50, 30, 40]):
        age(tmp_path, number, seconds)
    NodeCache(tmp_path, 300).prune()
    assert present(tmp_path) == [0, 2, 4]
    NodeCache(tmp_path, 300).prune()
    assert present(tmp_path) == [0, 2, 4]


def test_a_use_makes_a_copy_recent(tmp_path):
    end(another(tmp_path, 0, *NAMES[:3]))
    for number in range(3):
        age(tmp_path, number, 30 - number)
    end(another(tmp_path, 0, NAMES[0]))
    NodeCache(tmp_path, 100).prune()
    assert present(tmp_path) == [0]


def test_what_a_living_process_uses_stays_and_goes_after_its_end(tmp_path):
    child = another(tmp_path, 0, NAMES[0])
    end(another(tmp_path, 1, *NAMES[1:3]))
    age(tmp_path, 0, 100)
    NodeCache(tmp_path, 0).prune()
    assert present(tmp_path) == [0], "beyond the bound, but in use"
    end(child)
    NodeCache(tmp_path, 0).prune()
    assert present(tmp_path) == [] and not list((tmp_path / "users").iterdir())


def test_a_process_holds_the_copies_that_it_asked_for_last(tmp_path, monkeypatch):
    monkeypatch.setattr(node_cache, "HELD", 2)
    cache = NodeCache(tmp_path, 1000)
    for number in (0, 1, 2, 1):
        fetch(cache, number)
    NodeCache(tmp_path, 0).prune()
    assert present(tmp_path) == [1, 2]


def test_fetching_prunes_by_itself(tmp_path):
    end(another(tmp_path, 0, *NAMES[:4]))
    for number in range(4):
        age(tmp_path, number, 40 - number)
    fetch(NodeCache(tmp_path, 250), 5)
    assert present(tmp_path) == [3, 5]


def test_a_download_that_a_dead_process_left_half_goes_too(tmp_path):
    left = tmp_path / NAMES[0][:2] / f"{NAMES[0]}.partial"
    left.parent.mkdir()
    left.write_bytes(b"half")
    NodeCache(tmp_path, 0).prune()
    assert not left.exists()


def test_the_size_is_the_variables_and_at_most_half_of_the_disk(tmp_path, monkeypatch):
    disk = os.statvfs(tmp_path)
    half = disk.f_blocks * disk.f_frsize / 2
    monkeypatch.delenv(node_cache.SIZE_VARIABLE, raising=False)
    assert NodeCache(tmp_path).max_bytes() == min(64 * 2**30, half)
    monkeypatch.setenv(node_cache.SIZE_VARIABLE, "0.25")
    assert NodeCache(tmp_path).max_bytes() == min(2**28, half)
    monkeypatch.setenv(node_cache.SIZE_VARIABLE, "1e12")
    assert NodeCache(tmp_path).max_bytes() == half


@pytest.mark.parametrize("bytes_", [b"", b"other"])
def test_a_download_that_fails_leaves_nothing_that_is_taken(tmp_path, bytes_):
    def failing(path):
        path.write_bytes(bytes_)
        raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        NodeCache(tmp_path, 1000).fetched(NAMES[0], failing)
    assert fetch(NodeCache(tmp_path, 1000), 0).read_bytes() == BLOBS[0]
