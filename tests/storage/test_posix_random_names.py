"""Names drawn at random never lead out of the root."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raypipe.errors import InputError
from raypipe.storage.posix import PosixStorage

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
