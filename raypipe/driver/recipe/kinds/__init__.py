"""How each kind of stage becomes stores: one file per kind, see `config.stages`."""

from collections.abc import Mapping
from typing import assert_never

from raypipe.config.stages import (
    Aggregate,
    Ann,
    AnnSearch,
    Bm25Search,
    DenseSearch,
    Documents,
    DuoScore,
    Encode,
    Fuse,
    Index,
    MonoScore,
    Passages,
    Read,
    Stage,
)
from raypipe.driver.recipe.basis import Basis
from raypipe.driver.recipe.kinds import (
    aggregate,
    ann,
    documents,
    encode,
    fuse,
    index,
    passages,
    read,
    score,
    search,
)
from raypipe.driver.recipe.system import System


def system_of(
    basis: Basis,
    name: str,
    stage: Stage,
    query_set: str | None,
    inputs: Mapping[str, System],
) -> System:
    """The completed system of a stage; `inputs` are the systems that it reads, by name."""
    if isinstance(stage, Index):
        return index.system(basis, name, stage)
    if isinstance(stage, Encode):
        return encode.system(basis, name, stage)
    if isinstance(stage, Ann):
        return ann.index_system(basis, name, stage, inputs)
    assert query_set is not None  # only an index has none
    match stage:
        case Bm25Search():
            return search.bm25_system(basis, name, stage, query_set, inputs)
        case DenseSearch():
            return search.dense_system(basis, name, stage, query_set, inputs)
        case AnnSearch():
            return ann.search_system(basis, name, stage, query_set, inputs)
        case Documents():
            return documents.system(basis, name, stage, query_set, inputs)
        case Passages():
            return passages.system(basis, name, stage, query_set, inputs)
        case Fuse():
            return fuse.system(basis, name, stage, query_set, inputs)
        case Read():
            return read.system(basis, name, stage, query_set)
        case MonoScore() | DuoScore():
            return score.system(basis, name, stage, query_set, inputs)
        case Aggregate():
            return aggregate.system(basis, name, stage, query_set, inputs)
        case _:
            assert_never(stage)
