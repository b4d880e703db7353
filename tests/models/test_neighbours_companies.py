from raypipe.models import neighbours
from raypipe.models.neighbours import COMPANY, settled


def test_the_companies_are_those_in_which_rows_were_seen_to_mix():
    small = list(range(17, 34))
    assert list(COMPANY) == [1, *small, 57, 129, 500, 777, 2048, 4096, 8192, 16384]


def test_companies_end_with_the_rows_of_a_forward():
    rows = []

    def product(x, weights):
        rows.append(len(x))
        return x[:, :1]

    assert settled({(20, 10)}, device="cpu", threads=1, rows=5000, product=product).proven
    assert rows[: neighbours.DISTINCT] == [1] * neighbours.DISTINCT
    assert rows[neighbours.DISTINCT :] == [*list(COMPANY)[:-2], 5000]
