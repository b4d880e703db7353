import pytest

from raypipe.engines.lucene.index import make_timeless
from raypipe.errors import CorruptError


def test_a_segment_description_of_another_layout_is_refused(tmp_path):
    (tmp_path / "_0.si").write_bytes(b"\x3f\xd7\x6c\x17\x03abc" + bytes(100))
    with pytest.raises(CorruptError, match="_0.si"):
        make_timeless(tmp_path)
