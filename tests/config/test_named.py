"""A recipe that the user names: whatever the file is, one clear error, and soon."""

import os
import time

import pytest
from hostile_recipes import MERGES

from raypipe.config import named_recipe, named_training
from raypipe.errors import InputError

HOSTILE = {
    "nested": (b"a: " + b"[" * 900 + b"]" * 900, "nested too deeply"),
    "digits": (b"a: " + b"9" * 5000, "Exceeds the limit"),
    "date": (b"a: 9999-99-99", "month must be"),
    "large": (b"a: [" + b"1," * 5_000_000 + b"1]", "at most 1,000,000 bytes, found 10,000,006"),
    "merges": (MERGES.encode(), r"line 2|values"),
    "bytes": (b"\xff\xfe\0", "UTF-8"),
}


@pytest.mark.fault(36, "6 of 6 hostile recipes are one error")
@pytest.mark.parametrize("named", [named_recipe, named_training])
@pytest.mark.parametrize(("content", "told"), HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_recipe_is_one_error_that_names_the_file(tmp_path, named, content, told):
    path = tmp_path / "a.yaml"
    path.write_bytes(content)
    began = time.process_time()
    with pytest.raises(InputError, match=rf"{path}: .*({told})"):
        named(str(path))
    assert time.process_time() - began < 10


@pytest.mark.parametrize("named", [named_recipe, named_training])
@pytest.mark.parametrize("kind", ["pipe", "device", "folder"])
def test_a_recipe_that_is_no_file_is_refused_and_not_read(tmp_path, named, kind):
    path = tmp_path / "a.yaml"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    else:
        path.mkdir()
    with pytest.raises(InputError, match=rf"{path}: "):
        named(str(path))
