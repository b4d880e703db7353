import os

from raypipe.driver.workspace import replace_file


def test_a_replaced_file_is_whole_and_an_equal_one_left_untouched(tmp_path):
    path = tmp_path / "a" / "x.json"
    replace_file(path, b"1")
    before = path.stat()
    replace_file(path, b"1")
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    replace_file(path, b"2")
    assert path.read_bytes() == b"2" and [p.name for p in path.parent.iterdir()] == ["x.json"]


def test_a_replaced_file_is_on_the_disk_before_it_has_its_name(tmp_path, monkeypatch):
    path, synced = tmp_path / "x.json", []
    monkeypatch.setattr("os.fsync", lambda fd: synced.append((os.fstat(fd).st_size, path.exists())))
    replace_file(path, b"12345")
    assert synced == [(5, False)]
