"""INDEX: a Lucene index."""

from raypipe.driver.recipe.sources import Sources
from raypipe.driver.recipe.system import System
from raypipe.names import of_stage
from raypipe.stages.bm25 import IndexStage


def system(sources: Sources, name: str) -> System:
    """The index of the collection."""
    stored = sources.stores.ensure(of_stage(name), IndexStage(sources.collection()))
    return System(name, "index", stored)
