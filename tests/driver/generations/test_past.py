"""What was published, and the way back, on records whose stores are stand-ins."""

import pytest

from raypipe.driver.generations.past import accept, history, rollback
from raypipe.driver.workspace import Workspace
from raypipe.errors import IncompleteError, InputError, RefusedError
from raypipe.storage import generations
from raypipe.storage.generations import (
    Generation,
    create_generation,
    generation_numbers,
    read_generation,
    refuse_generation,
    retire,
)
from raypipe.storage.ledger import Ledger
from raypipe.storage.records import Shard
from raypipe.storage.spec import StageSpec


@pytest.fixture
def work(tmp_path):
    """Three generations, each with one complete store, numbered as it is."""
    work = Workspace(tmp_path)
    for number in (1, 2, 3):
        create_generation(work.stores, generation(work.stores, number))
    return work


@pytest.fixture
def storage(work):
    return work.stores


def generation(storage, number, content=None):
    ledger = Ledger(storage, "toy", StageSpec("toy", 1, {"n": content or number}), [Shard(0, 0, 1)])
    if ledger.pending():
        file = storage.scratch() / "file"
        file.write_text("x")
        ledger.commit(ledger.shards[0], file, {"rows": 1})
    fingerprint = ledger.publish().fingerprint
    facts = {"made": "then", "passages": number, "measures": {}, "rows_copied": 7}
    return Generation("nightly", number, {"toy": fingerprint}, facts)


def test_history_lists_what_stands_oldest_first(storage):
    retire(storage, "nightly", 1)
    assert [line["number"] for line in history(storage, "nightly")] == [2, 3]
    assert history(storage, "nightly")[0]["passages"] == 2
    assert history(storage, "other") == []
    refuse_generation(storage, generation(storage, 3))  # compared with an older one
    assert [line["number"] for line in history(storage, "nightly")] == [2, 3]
    refuse_generation(storage, generation(storage, 4))
    assert [line.get("refused") for line in history(storage, "nightly")] == [None, None, True]


@pytest.mark.parametrize(("to", "target"), [(None, 2), (1, 1)])
def test_rollback_creates_a_generation_with_older_content(work, storage, to, target):
    made = rollback(work, "nightly", to)
    assert generation_numbers(storage, "nightly") == [1, 2, 3, 4] and made.number == 4
    assert made.stores == read_generation(storage, "nightly", target).stores
    assert (made.facts["rolled_back_to"], made.facts["passages"]) == (target, target)
    assert "rows_copied" not in made.facts and made.facts["made"] != "then"


def test_rollback_refuses_the_current_a_missing_and_the_only_generation(work, storage):
    for number, message in ((3, "current"), (9, "no such generation")):
        with pytest.raises(InputError, match=message):
            rollback(work, "nightly", number)
    create_generation(storage, Generation("alone", 1, {}))
    for name, message in (("alone", "no earlier generation"), ("none", "some of alone, nightly")):
        with pytest.raises(InputError, match=message):
            rollback(work, name)


def test_a_generation_whose_stores_are_gone_is_not_published_again(work, storage):
    gone = read_generation(storage, "nightly", 2).stores["toy"]
    storage.delete(f"toy/{gone}/manifest.json")
    with pytest.raises(IncompleteError, match="1 of its stores were deleted, first toy"):
        rollback(work, "nightly")
    assert generation_numbers(storage, "nightly") == [1, 2, 3]


def test_the_loser_of_a_race_is_told_which_generation_is_current(work, storage, monkeypatch):
    create = generations.create_generation

    def later(stores, generation_):
        create(stores, Generation("nightly", 4, {}))
        return create(stores, generation_)

    monkeypatch.setattr("raypipe.driver.generations.publish.create_generation", later)
    with pytest.raises(RefusedError, match="generation 4 is current"):
        rollback(work, "nightly")


def test_what_was_refused_can_be_accepted_once(work, storage):
    refused = generation(storage, 4)
    refuse_generation(storage, refused)
    assert accept(work, "nightly").stores == refused.stores
    assert read_generation(storage, "nightly", 4).facts == refused.facts
    with pytest.raises(InputError, match="nothing was refused after generation 4"):
        accept(work, "nightly")


def test_what_was_compared_with_an_older_generation_cannot_be_accepted(work, storage):
    refuse_generation(storage, generation(storage, 3, content=9))
    with pytest.raises(InputError, match="nothing was refused after generation 3"):
        accept(work, "nightly")
    assert generation_numbers(storage, "nightly") == [1, 2, 3]


def test_an_acceptance_that_was_killed_before_its_end_is_finished_by_the_next(work, storage):
    refuse_generation(storage, generation(storage, 4))
    made = accept(work, "nightly")
    refuse_generation(storage, made)  # as if it had ended before it was removed
    assert accept(work, "nightly") == made
    assert generation_numbers(storage, "nightly") == [1, 2, 3, 4]
    with pytest.raises(InputError, match="nothing was refused after generation 4"):
        accept(work, "nightly")
