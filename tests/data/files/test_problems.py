import pytest

from raypipe.data.records import Problems
from raypipe.errors import InputError


@pytest.mark.parametrize("num", [0, 1, 9, 10, 11, 1_012])
def test_ten_problems_are_shown_and_the_rest_counted(num):
    problems = Problems()
    for number in range(num):
        problems.add(f"p{number}")
    assert problems.num_problems == num
    if not num:
        problems.raise_if_any()
        return
    with pytest.raises(InputError) as caught:
        problems.raise_if_any()
    more = {11: ["and 1 more problems"], 1_012: ["and 1,002 more problems"]}.get(num, [])
    assert caught.value.problems == [f"p{number}" for number in range(min(num, 10))] + more
