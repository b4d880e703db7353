"""INDEX: a Lucene index."""

from raypipe.config.stages import Index
from raypipe.driver.recipe.basis import Basis
from raypipe.driver.recipe.system import System
from raypipe.names import of_stage
from raypipe.stages.bm25 import IndexStage


def system(basis: Basis, name: str, stage: Index) -> System:
    """The index of the collection."""
    stored = basis.once(of_stage(name), lambda: IndexStage(basis.collection(), stage.language))
    return System(name, "index", stored)
