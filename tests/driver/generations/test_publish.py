"""Re-indexing a small collection night after night, in this process."""

import json
from dataclasses import replace

import pytest
from recipes import dense, invoke, write_files

from raypipe.driver.execute import Execution
from raypipe.driver.generations import publish as publishing
from raypipe.driver.workspace import Workspace
from raypipe.errors import InputError, LimitError, RefusedError
from raypipe.storage.generations import (
    Generation,
    claims,
    create_generation,
    generation_numbers,
    held_stores,
    newest_generation,
    read_generation,
    record_numbers,
    refused_generation,
    retired_numbers,
)
from raypipe.storage.holder import this_process
from raypipe.storage.lease import LeaseState

TEXTS = {"a": "the zebra", "b": "a lease", "c": "of shards", "d": "rank a query", "e": "run"}


class Nights:
    """A workspace, and a way to spend a night on a collection."""

    def __init__(self, folder, model):
        self.folder, self.out = folder, folder / "work"
        self._text = dense(folder, model, name="nightly", judged=True)
        write_files(folder, {}, judged={"1": "a", "2": "b"})

    @property
    def stores(self):
        return Workspace(self.out).stores

    def run(self, texts, **options):
        lines = [f"{passage_id}\t{text}\n" for passage_id, text in texts.items()]
        (self.folder / "passages.tsv").write_text("".join(lines))
        return invoke(self._text, self.out, reindex=True, **options).summary

    def summary(self):
        return json.loads((self.out / "summary.json").read_text())


@pytest.fixture
def nights(tmp_path, tiny_model):
    return Nights(tmp_path, tiny_model)


def test_each_changed_collection_becomes_a_generation_that_names_all_its_stores(nights):
    first = nights.run(TEXTS)["generation"]
    assert (first["number"], first["published"], first["base"]) == (1, True, None)
    changed = {"new": "zebra", **TEXTS, "c": "of leases"}
    del changed["e"]
    second = nights.run(changed)["generation"]
    counts = {name: second[name] for name in ("added", "removed", "changed", "unchanged")}
    assert counts == {"added": 1, "removed": 1, "changed": 1, "unchanged": 3}
    assert (second["number"], second["base"], second["passages"]) == (2, 1, 5)
    assert second["rows_copied"] == 6  # three texts stayed: their pieces and vectors
    record = newest_generation(nights.stores, "nightly")
    expected = {"passages@collection", "ids@collection", "tokens@tiny"}
    expected |= {"vectors", "queries@test", "vectors.test"}
    assert record.stores.keys() == expected | {"parts@dense.test", "dense.test"}
    refs = Workspace(nights.out).refs()
    assert all(refs[store] == fingerprint for store, fingerprint in record.stores.items())
    assert {"published": True, "number": 2, **record.facts} == nights.summary()["generation"]
    drift = second["drift"]["test"]["dense"]
    assert set(drift["measures"]) == {"RR@10", "judged RR@10", "Judged@10"}


def test_an_unchanged_collection_is_no_new_generation(nights):
    nights.run(TEXTS)
    again = nights.run(TEXTS)  # written anew, so its times differ
    assert again["generation"] == {"number": 1, "published": False}
    assert generation_numbers(nights.stores, "nightly") == [1]


def test_rows_are_copied_from_the_current_generation_before_any_other_store(nights, monkeypatch):
    nights.run(TEXTS)
    given = []
    monkeypatch.setattr(
        "raypipe.driver.execute.older_stores",
        lambda stores, own, base, name, spec: given.append(base.number) or [],
    )
    assert nights.run({**TEXTS, "f": "the run"})["generation"]["rows_copied"] == 0
    assert given == [1, 1]


def test_beyond_a_limit_the_build_is_kept_and_not_current(nights):
    nights.run(TEXTS)
    other = {name: f"query {text} run" for name, text in TEXTS.items()}
    other |= {f"x{name}": text for name, text in TEXTS.items()}
    with pytest.raises(
        LimitError, match=r"dense on test, over 2 queries: overlap@10 0\.\d+ < 0.9"
    ) as caught:
        nights.run(other, max_drift=("overlap@10=0.9",))
    assert caught.value.exit_code == 5 and nights.summary()["exit"] == 5
    assert generation_numbers(nights.stores, "nightly") == [1]
    refused = refused_generation(nights.stores, "nightly", 2)
    assert set(refused.stores.items()) <= held_stores(nights.stores)
    assert "overlap@10 0." in refused.refused and refused.facts["drift"]["test"]["dense"]
    with pytest.raises(LimitError, match="RR@10 fell by"):
        nights.run({**other, "f": "the run"}, max_drift=("RR@10=0.1",))
    assert nights.run(other, max_drift=("RR@10=1", "rbo=0"))["generation"]["number"] == 4
    assert record_numbers(nights.stores, "nightly") == [1, 2, 3, 4]


def test_the_same_build_that_is_refused_again_keeps_its_number(nights):
    nights.run(TEXTS)
    other = {"a": TEXTS["a"], **{f"x{name}": text for name, text in TEXTS.items()}}
    for again in ("was built and", "was built, as it was before, and"):
        with pytest.raises(LimitError, match=f"generation 2 of nightly {again} is not current"):
            nights.run(other, max_drift=("overlap@10=0.9",))
    assert record_numbers(nights.stores, "nightly") == [1, 2]


def test_refused_nights_are_retired_by_keep_as_others_are(nights):
    nights.run(TEXTS)
    for number in range(2, 6):
        others = {f"x{name}{number}": text for name, text in TEXTS.items()}
        texts = {"a": TEXTS["a"], **others}
        with pytest.raises(LimitError, match=f"generation {number} of nightly"):
            nights.run(texts, max_drift=("overlap@10=0.9",), keep=2)
    assert record_numbers(nights.stores, "nightly") == [1, 4, 5]
    assert retired_numbers(nights.stores, "nightly") == [2, 3]


def test_a_wrong_limit_is_refused_before_any_work(nights):
    with pytest.raises(InputError, match="AP=0.1"):
        nights.run(TEXTS, max_drift=("AP=0.1",))
    assert not nights.out.exists()


def test_who_finishes_second_is_refused_and_the_next_night_builds_on_the_winner(
    nights, monkeypatch
):
    nights.run(TEXTS)
    ensure = Execution.ensure

    def overtaken(execution, name, stage):
        base = newest_generation(execution.workspace.stores, "nightly")
        if str(name) == "dense.test" and base.number == 1:
            create_generation(execution.workspace.stores, Generation("nightly", 2, base.stores))
        return ensure(execution, name, stage)

    monkeypatch.setattr(Execution, "ensure", overtaken)
    changed = {**TEXTS, "f": "the run"}
    with pytest.raises(RefusedError, match="generation 2 is current"):
        nights.run(changed)
    assert nights.summary()["exit"] == 4
    made = nights.run(changed)["generation"]
    assert (made["number"], made["base"], made["added"]) == (3, 2, 1)


def test_a_night_that_was_succeeded_while_it_was_paused_publishes_nothing(nights, monkeypatch):
    """Its successor has found nothing changed, and has deleted what it found unused."""
    nights.run(TEXTS)
    other = replace(this_process(), pid=1)
    paused = publishing.create

    def woken(workspace, generation):
        taken = LeaseState(2, other, 1, (), True)
        monkeypatch.setattr(publishing, "lease_state", lambda *place: taken)
        fingerprint = generation.stores["vectors"]
        workspace.stores.delete(f"vectors/{fingerprint}/manifest.json")
        return paused(workspace, generation)

    monkeypatch.setattr(publishing, "create", woken)
    with pytest.raises(RefusedError, match="has taken over this workspace"):
        nights.run({**TEXTS, "f": "the run"})
    assert record_numbers(nights.stores, "nightly") == [1] and claims(nights.stores) == []


def test_the_base_is_held_while_the_next_generation_is_built(nights, monkeypatch):
    nights.run(TEXTS)
    seen = []

    def publish(workspace, wanted, built):
        seen.extend(workspace.stores.names("generations/nightly/0000001.readers"))
        return {}

    monkeypatch.setattr("raypipe.driver.generations.publish.publish", publish)
    nights.run({**TEXTS, "f": "the run"})
    assert seen and not [*nights.stores.names("generations/nightly/0000001.readers")]


def test_older_generations_are_retired_but_the_kept_ones(nights):
    for number in range(1, 5):
        nights.run({**TEXTS, "n": "run " * number}, keep=2)
    assert generation_numbers(nights.stores, "nightly") == [3, 4]
    assert retired_numbers(nights.stores, "nightly") == [1, 2]


def test_of_a_query_set_that_changed_the_queries_of_both_are_compared(nights, caplog):
    nights.run(TEXTS)
    (nights.folder / "queries.tsv").write_text("1\tthe zebra\n3\tof shards\n")
    caplog.set_level("INFO", "raypipe")
    made = nights.run(TEXTS, max_drift=("overlap@10=1",))["generation"]
    assert made["drift"]["test"]["dense"]["queries"] == 1 and made["number"] == 2
    assert "with generation 1 over 1 of its 2 queries" in caplog.text


def test_a_base_whose_stores_are_gone_is_replaced_without_counts_of_changes(nights):
    nights.run(TEXTS)
    base = read_generation(nights.stores, "nightly", 1)
    for store in ("ids@collection", "passages@collection", "dense.test"):
        nights.stores.delete(f"{store}/{base.stores[store]}/manifest.json")
    made = nights.run({**TEXTS, "f": "the run"})["generation"]
    assert made["number"] == 2 and "added" not in made and made["drift"] == {"test": {}}


def test_a_generation_read_is_one_whatever_the_files_hold(nights, tmp_path):
    nights.run(TEXTS)
    nights.run({**TEXTS, "f": "the zebra the zebra"})
    (nights.folder / "passages.tsv").unlink()
    stores = str(nights.out / "stores")
    for number, passages in ((1, 5), (2, 6), (None, 6)):
        text = nights._text + f"stores: {stores}\n"
        found = invoke(text, tmp_path / f"read{number}", reading=("nightly", number)).summary
        assert found["stages"]["passages@collection"]["rows"] == passages
        assert found["stages"]["vectors"]["reused"] and "count@collection" not in found["stages"]
    same = [(nights.out / "runs/test/dense.trec").read_bytes()]
    same += [(tmp_path / f"read{n}/runs/test/dense.trec").read_bytes() for n in (2, None)]
    assert len(set(same)) == 1
    refs = Workspace(tmp_path / "read1", stores).refs()
    assert refs["vectors"] == read_generation(nights.stores, "nightly", 1).stores["vectors"]
