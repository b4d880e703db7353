import pytest

from raypipe.errors import InputError
from raypipe.storage.opening import open_storage


def test_unknown_schemes_are_refused(tmp_path):
    with pytest.raises(InputError, match="ftp"):
        open_storage("ftp://host/x")
    assert open_storage(f"file://{tmp_path}").uri == str(tmp_path)
