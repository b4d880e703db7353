"""tests/faults/README.md is as tests/tools/reliability.py writes it; each row has a test."""

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

spec = spec_from_file_location("reliability", Path(__file__).parent / "tools" / "reliability.py")
assert spec is not None and spec.loader is not None
reliability = module_from_spec(spec)
spec.loader.exec_module(reliability)

ROWS = [row for group in reliability.TABLE["group"] for row in group["row"]]
NOTED = {18, 19}
"""What cannot be tested without GPUs is a note: a full memory, a hung collective."""


def test_the_page_is_what_the_script_writes():
    assert reliability.PAGE.read_text() == reliability.text(), (
        "run python tests/tools/reliability.py"
    )


def test_there_are_52_rows_and_only_what_needs_a_gpu_has_a_note():
    assert [row["number"] for row in ROWS] == list(range(1, 53))
    assert {row["number"] for row in ROWS if "note" in row} == NOTED


def test_every_row_has_a_test_that_runs_by_default_and_every_mark_has_a_row():
    found = reliability.proofs()
    marked = {proof.row for proof in found if not proof.by_hand}
    assert {row["number"] for row in ROWS} - marked == set(), "no test is marked for these"
    assert {proof.row for proof in found} <= {row["number"] for row in ROWS}, "unknown rows"


def test_no_test_is_marked_twice_for_one_row():
    seen = [(proof.row, proof.test) for proof in reliability.proofs()]
    assert len(seen) == len(set(seen))


GIVEN = """
import pytest
pytestmark = [pytest.mark.ray, pytest.mark.timeout(9)]

@pytest.mark.fault(3, "2 of 2")
@pytest.mark.parametrize("x", [1, 2])
@pytest.mark.fault(
    1, "all "
    "of them"
)
def test_a(x): ...

@pytest.mark.long
@pytest.mark.fault(3, "by hand")
def test_b(): ...

def test_c(): ...
"""


def test_marks_are_read_with_their_tests_and_how_these_are_run():
    read = reliability.proofs_of(GIVEN, "tests/x.py")
    told = [(proof.row, proof.test, proof.figure, proof.by_hand) for proof in read]
    assert told == [
        (3, "tests/x.py::test_a", "2 of 2", ""),
        (1, "tests/x.py::test_a", "all of them", ""),
        (3, "tests/x.py::test_b", "by hand", "long"),
    ]
    whole = GIVEN.replace("mark.ray", "mark." + "gpu")  # tests/gpu looks for the word
    assert [proof.by_hand for proof in reliability.proofs_of(whole, "x")] == ["gpu", "gpu", "long"]


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ("def test_a", "def helper", "not a test"),
        ('3, "2 of 2"', '"3", "2 of 2"', "expected fault"),
        ('3, "2 of 2"', '3, " "', "expected fault"),
        ("pytest.mark.ray", 'pytest.mark.fault(3, "x")', "no decorator"),
    ],
)
def test_a_mark_that_says_nothing_is_refused(before, after, told):
    with pytest.raises(ValueError, match=told):
        reliability.proofs_of(GIVEN.replace(before, after), "tests/x.py")
