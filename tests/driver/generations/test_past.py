"""What was published, and the way back, on records whose stores are stand-ins."""

from dataclasses import replace

import pytest

from raypipe.driver.generations import publish as publishing
from raypipe.driver.generations.past import accept, history, rollback
from raypipe.driver.workspace import Workspace
from raypipe.errors import IncompleteError, InputError, RefusedError
from raypipe.storage import generations
from raypipe.storage.generations import (
    Generation,
    claims,
    claims_that_ended,
    create_generation,
    generation_files,
    generation_numbers,
    held_stores,
    newest_generation,
    next_number,
    read_generation,
    record_numbers,
    retire,
)
from raypipe.storage.holder import this_process
from raypipe.storage.lease import LeaseState
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


def refuse(storage, number, **more):
    """A refused generation, created."""
    found = replace(generation(storage, number, **more), refused="overlap@10 0.1 < 0.9")
    assert create_generation(storage, found)
    return found


def test_history_lists_what_stands_and_what_was_refused_oldest_first(storage):
    retire(storage, "nightly", 1)
    assert [line["number"] for line in history(storage, "nightly")] == [2, 3]
    assert history(storage, "nightly")[0]["passages"] == 2
    assert history(storage, "other") == []
    refuse(storage, 4)
    create_generation(storage, generation(storage, 5))
    told = history(storage, "nightly")
    assert [line["number"] for line in told] == [2, 3, 4, 5]
    assert [line.get("refused") for line in told] == [None, None, "overlap@10 0.1 < 0.9", None]
    assert told[2]["passages"] == 4


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


def test_what_was_refused_is_accepted_as_a_generation_of_its_own_number(work, storage):
    refused = refuse(storage, 4)
    made = accept(work, "nightly")
    assert (made.number, made.stores, made.refused) == (5, refused.stores, None)
    assert made.facts == {
        **refused.facts,
        "made": made.facts["made"],
        "workspace": work.id,
        "accepted": 4,
    }
    assert newest_generation(storage, "nightly") == made
    assert [line.get("refused") for line in history(storage, "nightly")][3:] == [
        "overlap@10 0.1 < 0.9",
        None,
    ]
    with pytest.raises(InputError, match="nothing was refused after generation 5"):
        accept(work, "nightly")


def test_a_number_is_never_used_again(work, storage):
    """After refusals, rollbacks, and once records were retired and deleted."""
    refuse(storage, 4)
    assert rollback(work, "nightly").number == 5
    refuse(storage, 6)
    retire(storage, "nightly", 6)
    for file in generation_files(storage, "nightly", 6):
        storage.delete(file)
    assert next_number(storage, "nightly") == 7
    assert not create_generation(storage, generation(storage, 6))
    assert generation_numbers(storage, "nightly") == [1, 2, 3, 5]
    assert not storage.exists("generations/nightly/0000006.json")


def test_of_several_refused_ones_the_number_is_asked_for_and_each_is_taken_by_its_own(
    work, storage
):
    third, fourth = refuse(storage, 4), refuse(storage, 5)
    with pytest.raises(InputError, match=r"2 generations were refused.*say which") as caught:
        accept(work, "nightly")
    assert "\n  4: then, overlap@10" in str(caught.value) and "\n  5: then" in str(caught.value)
    assert accept(work, "nightly", 4).stores == third.stores
    assert accept(work, "nightly", 5).stores == fourth.stores
    assert generation_numbers(storage, "nightly") == [1, 2, 3, 6, 7]


@pytest.mark.parametrize(
    ("number", "why"),
    [(3, "it was not refused"), (4, "it is gone, retired"), (6, "no such generation")],
)
def test_what_was_not_refused_or_is_gone_cannot_be_accepted(work, storage, number, why):
    for refused in (4, 5):
        refuse(storage, refused)
    retire(storage, "nightly", 4)
    for deleted in (False, True):
        for file in generation_files(storage, "nightly", 4) if deleted else ():
            storage.delete(file)
        with pytest.raises(InputError, match=f"generation {number} of nightly: {why}.*are: 5$"):
            accept(work, "nightly", number)


def test_a_refused_one_is_neither_read_nor_gone_back_to(work, storage):
    refuse(storage, 4)
    assert newest_generation(storage, "nightly").number == 3
    with pytest.raises(InputError, match=r"generation 4 of nightly: it was refused.*--accept 4"):
        rollback(work, "nightly", 4)


def test_an_acceptance_that_was_killed_before_its_end_is_finished_by_the_next(work, storage):
    refuse(storage, 4)
    made = accept(work, "nightly")
    assert accept(work, "nightly", 4) == made
    assert generation_numbers(storage, "nightly") == [1, 2, 3, 5]


def test_of_what_another_line_refused_its_name_is_told(work, storage):
    assert create_generation(storage, replace(generation(storage, 1), name="other", refused="x"))
    with pytest.raises(InputError, match="Something was refused of other: is one of them"):
        accept(work, "nightly")


@pytest.mark.parametrize("act", [rollback, accept])
@pytest.mark.parametrize("successor", ["published", "was refused"])
def test_who_was_succeeded_before_its_record_creates_none(
    work, storage, act, successor, monkeypatch
):
    """Stopped right before the record, past every look at the lease."""
    refuse(storage, 4)
    inner = generations.create_generation

    def woken(stores, found):
        monkeypatch.setattr(publishing, "create_generation", inner)
        other = generation(storage, 5, content=9)
        assert inner(stores, other if successor == "published" else replace(other, refused="x"))
        retire(storage, "nightly", 1)
        return inner(stores, found)

    monkeypatch.setattr(publishing, "create_generation", woken)
    with pytest.raises(RefusedError, match="generation 5 of nightly: another invocation used"):
        act(work, "nightly")
    assert record_numbers(storage, "nightly") == [2, 3, 4, 5]
    assert claims(storage) == []


def test_a_paused_rollback_has_its_stores_kept_until_its_number_is_used(work, storage, monkeypatch):
    """Whatever its successor in the workspace writes into the references."""
    inner, seen = generations.create_generation, []
    target = ("toy", read_generation(storage, "nightly", 1).stores["toy"])

    def woken(stores, found):
        work.forget_sources()
        retire(storage, "nightly", 1)
        seen.append(target in held_stores(stores, generation_files(stores, "nightly", 1)))
        assert inner(stores, generation(storage, 4, content=9))
        leaving = [*generation_files(stores, "nightly", 1), *claims_that_ended(stores)]
        seen.append(target in held_stores(stores, leaving))
        return inner(stores, found)

    monkeypatch.setattr(publishing, "create_generation", woken)
    with pytest.raises(RefusedError, match="generation 4 is current"):
        rollback(work, "nightly", 1)
    assert seen == [True, False]


def test_who_lost_the_workspace_ends_before_it_claims_anything(work, storage, monkeypatch):
    other = replace(this_process(), pid=1)
    monkeypatch.setattr(publishing, "lease_state", lambda *place: LeaseState(2, other, 1, (), True))
    monkeypatch.setattr(publishing, "claimed", lambda *given: pytest.fail("it claims"))
    with pytest.raises(RefusedError, match="has taken over this workspace"):
        rollback(work, "nightly")


def test_who_finds_its_stores_deleted_by_a_successor_says_that_it_was_succeeded(
    work, storage, monkeypatch
):
    """Stopped between its look at the lease and its claim."""
    inner, other = publishing.claimed, replace(this_process(), pid=1)

    def woken(stores, found):
        taken = LeaseState(2, other, 1, (), True)
        monkeypatch.setattr(publishing, "lease_state", lambda *place: taken)
        storage.delete(f"toy/{found.stores['toy']}/manifest.json")
        return inner(stores, found)

    monkeypatch.setattr(publishing, "claimed", woken)
    with pytest.raises(RefusedError, match="has taken over this workspace"):
        rollback(work, "nightly")
    assert record_numbers(storage, "nightly") == [1, 2, 3] and claims(storage) == []
