import os

import pytest

from raypipe.errors import InputError
from raypipe.storage.bucket import private_folder


def test_a_private_folder_is_made_and_kept_closed_to_others(tmp_path):
    made = private_folder(tmp_path / "deep" / "cache")
    assert made.stat().st_mode & 0o777 == 0o700
    (made / "file").write_text("x")
    made.chmod(0o755)
    assert private_folder(made) == made and made.stat().st_mode & 0o777 == 0o700
    assert (made / "file").read_text() == "x"


@pytest.mark.parametrize("kind", ["link", "broken link", "file"])
def test_what_is_no_folder_of_ones_own_is_refused(tmp_path, kind):
    path = tmp_path / "cache"
    if kind == "file":
        path.write_text("x")
    else:
        (tmp_path / "other").mkdir() if kind == "link" else None
        path.symlink_to(tmp_path / "other")
    with pytest.raises(InputError, match=r"cache: expected a folder of user .* set TMPDIR"):
        private_folder(path)


def test_a_folder_that_another_user_made_first_is_refused(tmp_path, monkeypatch):
    (tmp_path / "cache").mkdir(mode=0o777)
    monkeypatch.setattr(os, "getuid", lambda: tmp_path.stat().st_uid + 1)
    with pytest.raises(InputError, match="found one of user"):
        private_folder(tmp_path / "cache")
