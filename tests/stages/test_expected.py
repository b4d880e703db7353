"""What a stage expects that says nothing of it, and how its store stands in for a real one."""

import pytest

from raypipe.driver.forecast.forecast import Walk
from raypipe.driver.forecast.samples import Samples
from raypipe.names import of_stage
from raypipe.stages.expected import Expected, sum_of
from raypipe.stages.stage import Sizing, Stage, ranges
from raypipe.storage.posix import PosixStorage
from raypipe.storage.spec import StageSpec


class Plain(Stage):
    """Seven rows of 100 bytes in shards of at most three."""

    def __init__(self, produces):
        """With what it produces."""
        self.spec = StageSpec("plain", 1, {}, {}, produces)

    def shards(self, sizing):
        """See Stage."""
        return ranges(7, sizing.shard_rows)

    def estimated_bytes(self, num_rows, num_planned):
        """See Stage."""
        return 100 * num_rows

    def open(self, site):
        """Nothing is computed."""
        raise AssertionError


class Saying(Plain):
    """It says two facts."""

    def expected(self, expectations):
        """See Stage."""
        shards = self.shards(expectations.sizing)
        return Expected(shards=shards, num_bytes=10.0, facts={"pieces": 10, "kind": "a"})


@pytest.fixture
def walk(tmp_path):
    stores, aside = PosixStorage(tmp_path / "stores"), PosixStorage(tmp_path / "aside")
    return Walk(stores, lambda name, stage: 1 / 0, Samples(Sizing(shard_rows=3)), aside)


def test_a_stage_that_says_nothing_has_its_plan_and_bytes_and_a_run_full_lists(walk):
    name = of_stage("plain", "dev")
    stored = walk.ensure(name, Plain("vectors"))
    line = walk.lines[name]
    assert (line.rows, line.shards, line.bytes, line.seconds, line.note) == (7, 3, 700, 0, "")
    assert (stored.num_rows, stored.num_bytes) == (7, 700)
    name = of_stage("run", "dev")
    stored = walk.ensure(name, Plain("run"))
    assert sum_of("rows", stored) == 7 * 1000
    assert walk.lines[name].note == "plain: its time is not forecast, and its lines are the most"


def test_whole_numbers_are_shared_out_by_rows_without_a_rest(walk):
    stored = walk.ensure(of_stage("says", "dev"), Saying("tokens"))
    facts = [record.facts for record in stored.manifest.records]
    assert [each["pieces"] for each in facts] == [3, 3, 4] and sum_of("pieces", stored) == 10
    assert {each["kind"] for each in facts} == {"a"}
    assert not walk.expectations.has(stored)
