"""The places where stores may lie: what holds in a folder holds in a bucket."""

import pytest

from raypipe.storage.posix import PosixStorage


@pytest.fixture(params=["folder", "bucket"])
def storage(request, tmp_path):
    """An empty root of stores."""
    if request.param == "folder":
        return PosixStorage(tmp_path / "stores")
    from raypipe.storage.bucket import BucketStorage

    return BucketStorage(f"{request.getfixturevalue('bucket_uri')}/stores")
