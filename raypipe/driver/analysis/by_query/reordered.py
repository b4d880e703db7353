"""Which runs reorder which: a first stage, and the rerankers over it."""

from collections.abc import Mapping
from typing import NamedTuple

from raypipe.config.stages import Aggregate, DuoScore, MonoScore
from raypipe.driver.analysis.finished import Finished


class Tree(NamedTuple):
    """A run and the rerankers over it, such as BM25, monoBERT and duoBERT."""

    systems: list[str]
    """The run that nothing reordered, then the rerankers in the recipe's order."""
    before: Mapping[str, str]
    """Reranker -> the run that it reordered."""


def trees(finished: Finished, query_set: str) -> list[Tree]:
    """A tree for each run of passages that rerankers reordered, in the recipe's order."""
    own = finished.systems(query_set)
    before = {name: run for name in own if (run := reordered(finished, name)) is not None}
    found: dict[str, dict[str, str]] = {}
    for name, run in before.items():
        root = run
        while root in before:
            root = before[root]
        found.setdefault(root, {})[name] = run
    return [Tree([root, *rerankers], rerankers) for root, rerankers in found.items()]


def below(tree: Tree, name: str) -> list[str]:
    """The runs that a reranker stands on, the first stage first."""
    found: list[str] = []
    while name in tree.before:
        name = tree.before[name]
        found.insert(0, name)
    return found


def reordered(finished: Finished, name: str) -> str | None:
    """The run that a reranker reordered; None for other stages."""
    stages = finished.recipe.stages
    stage = stages[name]
    if isinstance(stage, MonoScore):
        return stage.run
    if isinstance(stage, Aggregate):
        pairs = stages[stage.pairs]
        return pairs.run if isinstance(pairs, DuoScore) else None
    return None
