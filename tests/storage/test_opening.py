import pytest

from raypipe.errors import InputError
from raypipe.storage.root import open_storage


def test_paths_and_file_uris_open_folders_and_other_schemes_are_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert open_storage("x").uri == str(tmp_path / "x")
    assert open_storage(f"file://{tmp_path}/y").uri == str(tmp_path / "y")
    with pytest.raises(InputError, match="'http'"):
        open_storage("http://x")


def test_unknown_schemes_are_refused(tmp_path):
    with pytest.raises(InputError, match="ftp"):
        open_storage("ftp://host/x")
    assert open_storage(f"file://{tmp_path}").uri == str(tmp_path)


@pytest.mark.parametrize("below", ["", "/deep/er"])
def test_a_file_in_the_place_of_the_stores_is_named(tmp_path, below):
    (tmp_path / "file").write_text("x")
    for uri in (f"{tmp_path}/file{below}", f"file://{tmp_path}/file{below}"):
        with pytest.raises(InputError, match=f"expected a folder, found the file {tmp_path}/file;"):
            open_storage(uri)
    assert (tmp_path / "file").read_text() == "x"
