"""A stage for scripted loops: what the loop asks of it, and no work."""

from dataclasses import dataclass

from raypipe.stages.stage import Needs, Stage


@dataclass(frozen=True)
class BareStage(Stage):
    needs: Needs = Needs()
    skips_rows: bool = False

    def shards(self, sizing): ...

    def open(self, site): ...
