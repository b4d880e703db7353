from raypipe.storage.posix import PosixStorage


def test_free_bytes_are_those_of_the_disk_even_before_the_folder_is_there(tmp_path):
    import shutil

    free = PosixStorage(tmp_path / "a" / "b").free_bytes()
    assert abs(free - shutil.disk_usage(tmp_path).free) < 1 << 33
    assert not (tmp_path / "a").exists()
