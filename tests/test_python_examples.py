"""Every example of docs/python.md prints what it shows."""

import contextlib
import io
import os
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "python.md").read_text()
DOCS = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def shown(code):
    """What the comments behind the prints say is printed."""
    return re.findall(r"^print\(.*\)  # (.*)$", code, re.MULTILINE)


@pytest.fixture(scope="module")
def notebook(tmp_path_factory):
    """A folder, and the names that the examples leave to those after them."""
    before = Path.cwd()
    os.chdir(tmp_path_factory.mktemp("notebook"))
    yield {}
    os.chdir(before)


@pytest.mark.slow
@pytest.mark.parametrize("place", range(len(DOCS)))
def test_an_example_prints_what_it_shows(place, notebook):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(DOCS[place], f"docs/python.md, example {place}", "exec"), notebook)
    assert out.getvalue().splitlines() == shown(DOCS[place])


def test_every_name_of_the_api_has_an_example():
    import raypipe

    used = set(re.findall(r"raypipe\.(\w+)", "".join(DOCS)))
    assert used == set(raypipe.__all__)
