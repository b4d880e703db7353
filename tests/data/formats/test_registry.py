import pytest

from raypipe.data.formats.registry import FORMATS, get_format
from raypipe.errors import InputError


def test_an_unknown_format_names_the_nearest():
    assert get_format("beir") is FORMATS["beir"]
    with pytest.raises(InputError, match="did you mean msmarco-v1"):
        get_format("msmarco_v1")
