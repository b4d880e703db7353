"""Which generations an invocation holds, and for how long."""

import pytest

from raypipe.errors import InputError
from raypipe.storage.generations import (
    Generation,
    create_generation,
    generations_held,
    reader_leases,
)
from raypipe.storage.posix import PosixStorage


@pytest.fixture
def stores(tmp_path):
    stores = PosixStorage(tmp_path / "stores")
    for name, number in (("nightly", 1), ("nightly", 2), ("other", 1), ("other", 2)):
        assert create_generation(stores, Generation(name, number, {"a": str(number)}))
    return stores


def held(stores):
    names = [(name, number) for name in ("nightly", "other") for number in (1, 2)]
    return [each for each in names if reader_leases(stores, *each)]


@pytest.mark.parametrize(
    ("builds", "reading", "expected"),
    [
        (False, None, []),
        (True, None, [("nightly", 2)]),
        (False, ("other", 1), [("other", 1)]),
        (True, ("other", None), [("nightly", 2), ("other", 2)]),
    ],
)
def test_the_newest_is_built_on_and_the_named_one_read(stores, builds, reading, expected):
    with generations_held(stores, "nightly", builds=builds, reading=reading) as (
        number,
        base,
        read,
    ):
        assert number == 3
        found = [each for each in (base, read) if each is not None]
        assert [(each.name, each.number) for each in found] == held(stores) == expected
        assert (base is not None, read is not None) == (builds, reading is not None)
    assert held(stores) == []


def test_the_first_one_is_built_on_none_and_what_is_not_there_cannot_be_read(stores):
    with generations_held(stores, "new", builds=True, reading=None) as found:
        assert found == (1, None, None)
    with (
        pytest.raises(InputError),
        generations_held(stores, "nightly", builds=True, reading=("other", 3)),
    ):
        pytest.fail("it began")
    assert held(stores) == []
