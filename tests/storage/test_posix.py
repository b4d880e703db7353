"""Storage in a folder: exclusive creation, blobs under their hash, nothing left behind."""

import hashlib
import os
import pickle
import random
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raypipe.errors import CorruptError, InputError
from raypipe.storage.ledger import events
from raypipe.storage.posix import PosixStorage


def files(root):
    return sorted(str(p.relative_to(root)) for p in root.rglob("*") if p.is_file())


def put(storage, data):
    path = storage.scratch() / "payload"
    path.write_bytes(data)
    sha256 = hashlib.sha256(data).hexdigest()
    storage.put(sha256, path)
    return sha256


def test_fifty_concurrent_creations_of_one_name_have_one_winner(tmp_path):
    storage = PosixStorage(tmp_path)
    gate = threading.Barrier(50)
    wins: list[int] = []

    def create(number: int) -> None:
        gate.wait()
        if storage.create("generations/index/0000007.json", b"%d" % number):
            wins.append(number)

    threads = [threading.Thread(target=create, args=(n,)) for n in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(wins) == 1
    assert storage.read("generations/index/0000007.json") == b"%d" % wins[0]
    assert files(tmp_path) == ["generations/index/0000007.json"]


@pytest.mark.slow
@pytest.mark.fault(13, "of 50 processes that create one name, 1 does")
def test_fifty_processes_creating_one_name_have_one_winner(tmp_path):
    storage = PosixStorage(tmp_path)
    children = []
    for number in range(50):
        pid = os.fork()
        if pid == 0:
            won = storage.create("a/name", b"%d" % number)
            os._exit(10 if won else 11)
        children.append(pid)
    codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children]
    assert sorted(codes) == [10] + [11] * 49


def test_put_twice_is_harmless_and_leaves_one_blob(tmp_path):
    storage = PosixStorage(tmp_path)
    sha256 = put(storage, b"rows")
    assert put(storage, b"rows") == sha256
    storage.sweep()
    assert files(tmp_path) == [f"blobs/{sha256[:2]}/{sha256}"]
    assert storage.local(sha256).read_bytes() == b"rows"


def test_put_of_a_file_outside_the_root_copies_it(tmp_path):
    outside = tmp_path / "outside"
    outside.write_bytes(b"rows")
    storage = PosixStorage(tmp_path / "stores")
    sha256 = hashlib.sha256(b"rows").hexdigest()
    storage.put(sha256, outside)
    assert outside.exists()
    assert storage.local(sha256).read_bytes() == b"rows"


def test_a_flipped_bit_in_a_blob_is_found_before_use_and_mended_by_putting_it_again(tmp_path):
    sha256 = put(PosixStorage(tmp_path), bytes(range(256)))
    path = tmp_path / "blobs" / sha256[:2] / sha256
    path.chmod(0o644)
    damaged = bytearray(path.read_bytes())
    damaged[100] ^= 4
    path.write_bytes(damaged)
    fresh = PosixStorage(tmp_path)
    with pytest.raises(CorruptError, match=sha256):
        fresh.local(sha256)
    put(fresh, bytes(range(256)))
    assert fresh.local(sha256).read_bytes() == bytes(range(256))


def test_a_missing_blob_is_an_error_that_names_it(tmp_path):
    with pytest.raises(CorruptError, match="no file"):
        PosixStorage(tmp_path).local("ab" * 32)


@pytest.mark.fault(39, "10 of 10 names that lead elsewhere are refused, and no file is made")
@pytest.mark.parametrize(
    "name", ["../x", "/x", "a//b", "a/../b", "a/./b", "", "a\0b", "a b", "a\nb", "a/"]
)
def test_names_that_leave_the_root_are_refused(tmp_path, name):
    with pytest.raises(InputError):
        PosixStorage(tmp_path).create(name, b"")
    assert files(tmp_path) == []


def test_sweep_removes_only_its_owners_unfinished_files(tmp_path):
    mine, other = (PosixStorage(tmp_path).owned(owner) for owner in ("mine", "other"))
    (mine.scratch() / "half").write_bytes(b"x")
    (other.scratch() / "half").write_bytes(b"x")
    mine.sweep()
    assert len(files(tmp_path)) == 1
    assert files(tmp_path)[0].startswith("tmp/other/")


@pytest.mark.fault(11, "unfinished files of a dead process are removed, those of a living one stay")
def test_sweep_removes_what_dead_processes_left_and_nothing_of_living_ones(tmp_path):
    pid = os.fork()
    if pid == 0:
        (PosixStorage(tmp_path).scratch() / "half").write_bytes(b"x")
        os._exit(0)
    os.waitpid(pid, 0)
    (PosixStorage(tmp_path).scratch() / "half").write_bytes(b"x")
    PosixStorage(tmp_path).owned("store").sweep()
    (left,) = files(tmp_path)
    assert left.startswith(f"tmp/process-{os.getpid()}-")


def test_a_pickled_storage_verifies_anew(tmp_path):
    storage = PosixStorage(tmp_path)
    sha256 = put(storage, b"rows")
    storage.local(sha256)
    again = pickle.loads(pickle.dumps(storage))
    path = tmp_path / "blobs" / sha256[:2] / sha256
    path.chmod(0o644)
    path.write_bytes(b"rowz")
    with pytest.raises(CorruptError):
        again.local(sha256)


def test_replace_append_and_names(tmp_path):
    storage = PosixStorage(tmp_path)
    storage.replace("refs/w.json", b"1")
    storage.replace("refs/w.json", b"2")
    storage.append("log.jsonl", b"a")
    storage.append("log.jsonl", b"b\n")
    assert storage.read("refs/w.json") == b"2"
    assert storage.read("log.jsonl") == b"a\nb\n"
    assert [n for n in storage.names("") if not n.startswith("tmp/")] == [
        "log.jsonl",
        "refs/w.json",
    ]
    storage.delete("refs/w.json")
    assert not (tmp_path / "refs").exists()


def test_the_tail_of_a_log_is_its_whole_lines_since_the_last_look(tmp_path):
    storage = PosixStorage(tmp_path)
    assert storage.tail("log.jsonl", 0) == (b"", 0)
    storage.append("log.jsonl", b"a")
    assert storage.tail("log.jsonl", 0) == (b"a\n", 2)
    assert storage.tail("log.jsonl", 2) == (b"", 2)
    with (tmp_path / "log.jsonl").open("ab") as file:
        file.write(b"b\nhalf")
    assert storage.tail("log.jsonl", 2) == (b"b\n", 4)
    with (tmp_path / "log.jsonl").open("ab") as file:
        file.write(b" c\n")
    assert storage.tail("log.jsonl", 4) == (b"half c\n", 11)


def test_a_log_in_new_folders_begins_with_its_first_line(tmp_path):
    storage = PosixStorage(tmp_path)
    storage.append("a/b/c/log.jsonl", b"first")
    assert (tmp_path / "a/b/c/log.jsonl").read_bytes() == b"first\n"


CONTENT = random.Random(1).randbytes(4096)
SHA256 = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def blob(tmp_path):
    storage = PosixStorage(tmp_path)
    payload = storage.scratch() / "payload"
    payload.write_bytes(CONTENT)
    storage.put(SHA256, payload)
    path = tmp_path / "blobs" / SHA256[:2] / SHA256
    path.chmod(0o644)
    return path


def num_refused(blob, contents):
    refused = 0
    for content in contents:
        blob.write_bytes(content)
        storage = PosixStorage(blob.parent.parent.parent)  # another process
        with pytest.raises(CorruptError, match=SHA256):
            storage.local(SHA256)
        with pytest.raises(CorruptError, match=SHA256):
            storage.check(SHA256)
        refused += 1
    blob.write_bytes(CONTENT)
    assert PosixStorage(blob.parent.parent.parent).local(SHA256).read_bytes() == CONTENT
    return refused


def flipped(number):
    position = random.Random(number).randrange(8 * len(CONTENT))
    data = bytearray(CONTENT)
    data[position // 8] ^= 1 << position % 8
    return bytes(data)


@pytest.mark.fault(10, "200 of 200 flipped bits of a payload are found before it is used")
def test_every_flipped_bit_is_found(blob):
    assert num_refused(blob, map(flipped, range(200))) == 200


@pytest.mark.fault(11, "50 of 50 cut payloads, the empty one among them, are never read")
def test_every_cut_is_found(blob):
    ends = [0, 1, len(CONTENT) - 1, *random.Random(2).sample(range(2, len(CONTENT) - 1), 47)]
    assert num_refused(blob, (CONTENT[:end] for end in ends)) == 50
    assert num_refused(blob, [CONTENT + b"\0"]) == 1


PARTS = st.sampled_from(["..", ".", "", "/", "//", "a", "~", "\0", "\n", "\\", "%2e%2e", "C:", " "])
NAMES = st.lists(PARTS | st.text(max_size=4), max_size=6).map("/".join) | st.text(max_size=30)


@pytest.mark.slow
@pytest.mark.fault(39, "of 500 random names every one is refused or makes a file inside the root")
@settings(max_examples=500, deadline=None)
@given(name=NAMES)
def test_a_name_is_refused_or_stays_inside(tmp_path_factory, name):
    outside = tmp_path_factory.mktemp("outside")
    root = outside / "a" / "root"
    try:
        created = PosixStorage(root).create(name, b"x")
    except InputError:
        created = False
    files = [path for path in outside.rglob("*") if path.is_file()]
    assert len(files) == created and all(root in path.parents for path in files)


NAME = "toy/f/attempts.jsonl"


@pytest.mark.parametrize("torn", [b'{"event": "fai', b"\0\0\0", b"\xff\xfe{"])
def test_a_line_after_a_torn_one_stands_alone(tmp_path, torn):
    storage = PosixStorage(tmp_path)
    storage.append(NAME, b'{"n": 1}')
    with (tmp_path / NAME).open("ab") as log:
        log.write(torn)
    storage.append(NAME, b'{"n": 2}\n')
    assert events(storage.read(NAME)) == [{"n": 1}, {"n": 2}]


def test_a_short_write_is_followed_by_the_whole_line(tmp_path, monkeypatch):
    write, short = os.write, [3, 1]
    monkeypatch.setattr(
        os, "write", lambda fd, data: write(fd, data[: short.pop()] if short else data)
    )
    storage = PosixStorage(tmp_path)
    storage.append(NAME, b'{"n": 1}')
    storage.append(NAME, b'{"n": 2}')
    assert short == [] and events(storage.read(NAME)) == [{"n": 1}, {"n": 2}]


def test_a_line_that_the_disk_never_takes_whole_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "write", lambda fd, data: 1)
    with pytest.raises(OSError, match=r"attempts\.jsonl.*") as raised:
        PosixStorage(tmp_path).append(NAME, b'{"n": 1}')
    assert raised.value.errno and "written in part" in str(raised.value)
