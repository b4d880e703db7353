"""How many inferences each system needs alone, and how many of them were computed for it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from raypipe import schema
from raypipe.driver.recipe.chain import Asked
from raypipe.driver.recipe.system import System
from raypipe.driver.recipe.watching import StageResult
from raypipe.names import Role, StoreName
from raypipe.ranking.order import begins
from raypipe.stages.run_tables import read_queries_of_run

BLOCK = 1000
"""Queries whose candidates are held in memory at once."""


@dataclass(frozen=True, slots=True)
class Inferences:
    """The inferences of one system on one query set."""

    alone: int
    """What its chain asks for, each candidate once: its cost if it were the only system."""
    computed: int
    """Those that were computed for it, beyond what earlier systems had."""
    copied: int
    """Those whose scores were copied, from an earlier system's or from an older store."""

    def to_json(self) -> dict[str, int]:
        """The entries of summary.json."""
        return {"inferences": self.alone, "computed": self.computed, "copied": self.copied}


def inferences(
    systems: Sequence[System], results: Mapping[StoreName, StageResult]
) -> dict[str, Inferences]:
    """System -> its inferences, for the systems of one table in which rerankers have a part.

    A store of scores counts for the first system that has it in its chain, so the computed and the
    copied ones of all systems add up to the rows of these stores. What an invocation copied before
    it was interrupted counts as computed. Runs of documents have a table of their own: there, the
    scores of their passages count for the first of them.
    """
    found = {}
    numbers: dict[tuple[Asked, ...], int] = {}
    counted: set[StoreName] = set()
    for system in systems:
        chain = system.chain
        if not chain.asked:
            continue
        alone = 0
        for asked in _by_table(chain.asked):
            if asked not in numbers:
                numbers[asked] = _number(asked)
            alone += numbers[asked]
        new = [s for s in chain.stores if s.role is Role.SCORES and s not in counted]
        counted.update(new)
        rows = sum(results[store].num_rows for store in new)
        copied = min(rows, sum(results[store].num_copied_when_made for store in new))
        found[system.name] = Inferences(alone, rows - copied, copied)
    return found


def _by_table(asked: Sequence[Asked]) -> list[tuple[Asked, ...]]:
    """The requests of each table of scores together: they may have candidates in common."""
    tables: dict[str, tuple[Asked, ...]] = {}
    for each in asked:
        tables[each.table] = (*tables.get(each.table, ()), each)
    return list(tables.values())


def _number(asked: tuple[Asked, ...]) -> int:
    """The number of different candidates that some of the requests ask for."""
    if len(asked) == 1:
        return asked[0].request.num_keys(asked[0].run.whole_table(schema.RUN))
    total = 0
    for start in range(0, max(each.run.num_rows for each in asked), BLOCK):
        keys = [
            each.request.keys(read_queries_of_run(each.run, start, start + BLOCK)) for each in asked
        ]
        columns = [np.concatenate(parts) for parts in zip(*keys, strict=True)]
        order = np.lexsort(columns)
        total += int(begins(*(column[order] for column in columns)).sum())
    return total
