import pytest

from raypipe.data.formats.registry import FORMATS, get_format
from raypipe.errors import InputError


def test_a_format_far_from_all_has_no_nearest():
    with pytest.raises(InputError) as caught:
        get_format("zzzzzz")
    assert str(caught.value).endswith("beir, pyserini, ir-datasets")
    assert [name for name, kind in FORMATS.items() if kind.parse is None] == ["ir-datasets"]
    assert all(kind.name == name for name, kind in FORMATS.items())
