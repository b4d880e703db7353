"""Generations: exclusive creation, what was refused, and those who delete."""

import threading

import pytest

from raypipe.errors import CorruptError, InputError
from raypipe.storage.generations import (
    Generation,
    create_generation,
    generation_files,
    generation_names,
    generation_numbers,
    held_stores,
    newest_generation,
    read_generation,
    refused_generation,
    refused_since,
    retire,
    retired_numbers,
    undeleted_numbers,
)


def made(storage, *numbers, name="nightly"):
    for number in numbers:
        stores = {"tokens": f"fp{number}"}
        assert create_generation(storage, Generation(name, number, stores, {"made": "now"}))


def test_the_newest_is_current_and_each_is_read_as_it_was_created(storage):
    assert newest_generation(storage, "nightly") is None
    made(storage, 1, 2, 10)
    made(storage, 1, name="nightly-2")
    assert newest_generation(storage, "nightly").number == 10
    assert generation_numbers(storage, "nightly") == [1, 2, 10]
    expected = Generation("nightly", 2, {"tokens": "fp2"}, {"made": "now"})
    assert read_generation(storage, "nightly", 2) == expected
    assert generation_names(storage) == ["nightly", "nightly-2"]


@pytest.mark.fault(3, "of two that create one generation, one does, and its content stands")
def test_of_two_that_create_one_number_one_succeeds_and_its_content_stands(storage):
    won, barrier = [], threading.Barrier(8)

    def create(number):
        barrier.wait()
        if create_generation(storage, Generation("nightly", 1, {"winner": str(number)})):
            won.append(str(number))

    threads = [threading.Thread(target=create, args=(number,)) for number in range(8)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert read_generation(storage, "nightly", 1).stores == {"winner": won[0]} and len(won) == 1


def test_a_missing_or_retired_number_is_refused_with_those_that_stand(storage):
    made(storage, 3, 4)
    retire(storage, "nightly", 3)
    for number in (3, 5):
        with pytest.raises(InputError, match=f"generation {number} of nightly.*there are: 4"):
            read_generation(storage, "nightly", number)
    assert retired_numbers(storage, "nightly") == [3]


def test_a_damaged_record_is_found(storage):
    made(storage, 1)
    name = "generations/nightly/0000001.json"
    storage.replace(name, storage.read(name).replace(b"fp1", b"fp2"))
    with pytest.raises(CorruptError):
        newest_generation(storage, "nightly")


def test_a_refused_generation_has_a_number_and_its_stores_stay_and_it_is_never_current(storage):
    made(storage, 1)
    refused = Generation("nightly", 2, {"tokens": "a"}, {"made": "now"}, "beyond a limit")
    assert create_generation(storage, refused)
    assert not create_generation(storage, Generation("nightly", 2, {"tokens": "b"}))
    current = newest_generation(storage, "nightly")
    assert current.number == 1 and generation_numbers(storage, "nightly") == [1]
    assert refused_generation(storage, "nightly", 2) == refused
    assert refused_since(storage, "nightly", current) == [refused]
    assert held_stores(storage) == {("tokens", "fp1"), ("tokens", "a")}
    made(storage, 3)
    assert refused_since(storage, "nightly", newest_generation(storage, "nightly")) == []
    assert refused_since(storage, "nightly", None) == [refused]


def test_stores_are_held_by_every_generation_that_does_not_leave(storage):
    made(storage, 1, 2)
    retire(storage, "nightly", 1)
    assert held_stores(storage) == {("tokens", "fp1"), ("tokens", "fp2")}
    leaving = generation_files(storage, "nightly", 1)
    assert leaving == ["generations/nightly/0000001.json"]
    assert held_stores(storage, leaving) == {("tokens", "fp2")}
    storage.delete(*leaving)
    with pytest.raises(InputError, match=r"generation 1 of nightly: it is gone.*there are: 2"):
        read_generation(storage, "nightly", 1)
    assert generation_numbers(storage, "nightly") == [2]
    assert undeleted_numbers(storage, "nightly") == [] and retired_numbers(storage, "nightly") == [
        1
    ]
