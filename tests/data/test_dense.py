import pytest

from raypipe.data.ids import check_dense_ids
from raypipe.errors import InputError


def test_dense_ids_pass():
    check_dense_ids([["0", "1"], [], ["2"]], name="collection.tsv")


@pytest.mark.fault(
    25, "8 of 8 ids that are another row, negative, padded, too large or no number are named"
)
@pytest.mark.parametrize("bad", ["3", "-1", "02", "+2", "1", "9223372036854775808", "x", "\u0662"])
def test_an_id_that_is_not_its_row_is_named(bad):
    with pytest.raises(InputError) as caught:
        check_dense_ids([["0", "1"], [bad]], name="c.tsv")
    assert caught.value.problems == [f"c.tsv: row 2: expected id 2, found {ascii(bad)}"]


@pytest.mark.fault(25, "a gap: ten rows are named and 14 counted")
def test_a_gap_names_the_first_ten_and_counts_the_rest():
    with pytest.raises(InputError) as caught:
        check_dense_ids([[str(n) for n in range(30) if n != 5]], name="c.tsv")
    problems = caught.value.problems
    assert problems[0] == "c.tsv: row 5: expected id 5, found '6'"
    assert problems[9] == "c.tsv: row 14: expected id 14, found '15'"
    assert problems[10] == "and 14 more problems" and len(problems) == 11
