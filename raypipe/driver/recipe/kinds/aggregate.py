"""Pairs -> RUN.SET."""

from collections.abc import Mapping
from dataclasses import replace

from raypipe.config.stages import Aggregate
from raypipe.driver.recipe.basis import Basis
from raypipe.driver.recipe.chain import Chain
from raypipe.driver.recipe.system import System
from raypipe.names import of_stage
from raypipe.stages.scoring.candidates import Request
from raypipe.stages.scoring.rerank import aggregate_stage


def system(
    basis: Basis, name: str, stage: Aggregate, query_set: str, inputs: Mapping[str, System]
) -> System:
    """A run whose first candidates are ordered by their aggregated probabilities."""
    pairs = inputs[stage.pairs]
    assert pairs.ranked is not None and pairs.chain.asked  # as all pairs have
    request = Request(k1=stage.k1, sample=stage.m, seed=stage.seed)
    aggregate = aggregate_stage(
        name,
        pairs.ranked,
        pairs.stored,
        request,
        stage.method,
        stage.tail,
        basis.sides(query_set),
    )
    store = of_stage(name, query_set)
    stored = basis.stores.ensure(store, aggregate)
    *below, of_pairs = pairs.chain.asked
    needed = (*below, replace(of_pairs, request=request))  # it may need fewer than were scored
    chain = replace(pairs.chain, asked=needed).then(Chain((store,)))
    return System(
        name,
        "run",
        stored,
        chain,
        pairs.reranks,
        pairs.model,
        pairs.start_weights,
        ranked=pairs.ranked,
        first=pairs.first,
        pairs=pairs.stored,
    )
