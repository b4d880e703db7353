import pytest

from raypipe.errors import InputError
from raypipe.evaluation.names import parse_measures


@pytest.mark.parametrize("name", ["RR@0", "RR@1000001", "RR(rel=0)", "P@True", "RR(rel=1000001)"])
def test_cutoffs_and_grades_out_of_range_are_refused(name):
    with pytest.raises(InputError):
        parse_measures([name])


def test_cutoffs_and_grades_at_the_ends_of_their_range_are_taken():
    names = ["RR@1", "RR@1000000", "RR(rel=1)", "P(rel=1000000)@5"]
    assert list(parse_measures(names)) == names
    with pytest.raises(InputError, match="found none"):
        parse_measures([])
