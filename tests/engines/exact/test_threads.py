import threading

import pytest

from raypipe.engines.exact_candidates import AHEAD, in_order


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_results_come_in_the_order_of_the_work(threads):
    assert list(in_order(lambda n: n * n, range(40), threads)) == [n * n for n in range(40)]
    assert list(in_order(lambda n: n, [], threads)) == []


def test_several_threads_work_at_a_time_and_few_results_wait():
    meeting, taken = threading.Barrier(3), []

    def items():
        for number in range(30):
            taken.append(number)
            yield number

    found = in_order(lambda n: meeting.wait() >= 0, items(), 3)
    assert next(found) and len(taken) == AHEAD * 3
    assert all(found)


@pytest.mark.parametrize("threads", [1, 3])
def test_an_error_ends_the_work(threads):
    done = []

    def work(number):
        if number == 4:
            raise ValueError("four")
        done.append(number)
        return number

    with pytest.raises(ValueError, match="four"):
        list(in_order(work, range(1000), threads))
    assert len(done) < 100
