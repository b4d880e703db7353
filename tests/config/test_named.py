"""A recipe that the user names, and the verb of its text: whatever it is, one clear error, soon."""

import os
import time

import pytest
from hostile_recipes import MERGES

from raypipe.config.load import load_recipe, load_training, named_recipe, named_training, verb_of
from raypipe.errors import InputError

HOSTILE = {
    "nested": (b"a: " + b"[" * 900 + b"]" * 900, "nested too deeply"),
    "mappings": (b"a: " + b"{a: " * 900 + b"}" * 900, "nested too deeply"),
    "digits": (b"a: " + b"9" * 5000, "Exceeds the limit"),
    "date": (b"a: 9999-99-99", "month must be"),
    "sexagesimal": (b"a: " + b"1:" * 100_000 + b"1.5", ""),
    "itself": (b"a: &a [*a]", "inside its own anchor"),
    "large": (b"a: [" + b"1," * 5_000_000 + b"1]", "at most 1,000,000 (bytes|characters), found"),
    "merges": (MERGES.encode(), r"line 2|values"),
    "zero": (b"\0", "special characters"),
    "nothing": (b"", "expected a mapping"),
    "list": (b"- loss", "expected a mapping"),
}


@pytest.mark.fault(36, "11 of 11 hostile recipes are one error")
@pytest.mark.parametrize(("content", "told"), HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_recipe_has_a_verb_and_is_one_error_that_names_the_file(tmp_path, content, told):
    path = tmp_path / "a.yaml"
    path.write_bytes(content)
    began = time.process_time()
    for named in (named_recipe, named_training):
        with pytest.raises(InputError, match=rf"{path}: .*({told})"):
            named(str(path))
    assert verb_of(content.decode()) == "pipeline"
    with pytest.raises(InputError, match=f"recipe: line [12]: .*({told})"):
        load_recipe(content.decode())
    assert time.process_time() - began < 60


@pytest.mark.parametrize("value", ["9999-99-99", "9" * 5000, "[1, 2]"])
def test_a_hostile_training_recipe_is_still_one(value):
    assert verb_of(f"loss: {value}\n") == "train"
    with pytest.raises(InputError, match=r"recipe: line 1: loss: "):
        load_training(f"loss: {value}\n")


@pytest.mark.parametrize("kind", ["pipe", "device", "folder", "bytes"])
def test_a_recipe_that_is_no_file_of_text_is_refused_and_not_read(tmp_path, kind):
    path = tmp_path / "a.yaml"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "folder":
        path.mkdir()
    else:
        path.write_bytes(b"\xff\xfe\0")
    for named in (named_recipe, named_training):
        with pytest.raises(InputError, match=rf"{path}: .*{'UTF-8' if kind == 'bytes' else ''}"):
            named(str(path))
