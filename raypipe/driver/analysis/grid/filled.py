"""The pairs that a grid's cells need beside those of the recipe: their store, if it was filled."""

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from raypipe import schema
from raypipe.analysis.depth import depths_up_to, longest
from raypipe.analysis.tradeoff import K0S, K1S
from raypipe.config.stages import DuoScore, MonoScore
from raypipe.driver.analysis.finished import Finished
from raypipe.names import Role, StoreName, of_collection, of_queries, of_stage
from raypipe.stages.query_blocks import Sides
from raypipe.stages.scoring.blending import blend_and_depth
from raypipe.stages.scoring.filled import FilledStage, Grid
from raypipe.storage.stored import Stored


@dataclass(frozen=True)
class Stages:
    """A duoBERT stage over a monoBERT stage."""

    name: str
    """Of the duoBERT stage."""
    duo: DuoScore
    mono: MonoScore

    @property
    def most(self) -> int:
        """The deepest rank at which either reranks."""
        return max(self.mono.k0, self.duo.k1)


def stages_of(finished: Finished, query_set: str) -> Iterator[Stages]:
    """Each duoBERT stage over a monoBERT stage, in the recipe's order.

    Those that the last invocation did not run, after --only or --until, are left out.
    """
    stages, ran = finished.recipe.stages, finished.systems(query_set)
    for name, duo in stages.items():
        if isinstance(duo, DuoScore) and isinstance(mono := stages[duo.run], MonoScore):
            scored = finished.has(of_stage(name, query_set))
            if scored and duo.run in ran and mono.run in ran:
                yield Stages(name, duo, mono)


def k0s_of(mono: MonoScore, first: pa.Table) -> list[int]:
    """The k0 of the grid's cells, up to what the recipe scored of the first stage's run."""
    return depths_up_to(min(mono.k0, longest(first)), K0S)


def k1s_of(duo: DuoScore, scored: pa.Table) -> list[int]:
    """The k1 of the grid's cells, up to what the recipe paired of the monoBERT stage's run."""
    return depths_up_to(min(duo.k1, longest(scored)), K1S)


def filled_stage(finished: Finished, query_set: str, stages: Stages) -> FilledStage:
    """The stage of the pairs that the grid needs and that the recipe did not score."""
    first = finished.stored(of_stage(stages.mono.run, query_set))
    scored = finished.stored(of_stage(stages.duo.run, query_set))
    grid = Grid(
        first=first,
        scored=scored,
        scored_by=stages.duo.run,
        tail=stages.mono.tail,
        pairs=finished.stored(of_stage(stages.name, query_set)),
        k0s=tuple(k0s_of(stages.mono, first.whole_table(schema.RUN))),
        k1=k1s_of(stages.duo, scored.whole_table(schema.RUN))[-1],
        blend=blend_and_depth(scored),
    )
    queries, passages = of_queries(query_set), of_collection(Role.PASSAGES)
    sides = Sides(finished.stored(queries), finished.stored(passages))
    return FilledStage(str(store_of(stages, query_set)), grid, sides)


def store_of(stages: Stages, query_set: str) -> StoreName:
    """The name of the store of those pairs."""
    return of_stage(stages.name, query_set, Role.FILLED)


def filled(finished: Finished, stage: FilledStage) -> Stored | None:
    """The store of `filled_stage`; None if it was not filled, or is not complete."""
    return finished.beside(stage.name, stage.spec.fingerprint())
