"""The rules of score and aggregate stages: which settings go with which."""

from collections.abc import Iterator

from raypipe.config.pipeline.draft import Draft
from raypipe.config.pipeline.stage_kinds import Aggregate, Score
from raypipe.config.yaml.document import Problem


def score_problems(name: str, stage: Score) -> Iterator[Problem]:
    """A mono has k0, a duo k1; what is for the one is not for the other."""
    key = ("stages", name)
    if stage.k0 is not None and stage.k1 is not None:
        text = "found k0 (of a mono model) and k1 (of a duo model); remove one of them"
        yield Problem((*key, "k1"), text)
    if stage.k1 is None and stage.sample is not None:
        yield Problem((*key, "sample"), "for a duo model only; give k1, or remove it")
    if stage.k1 is not None and stage.score is not None:
        yield Problem((*key, "score"), "a duo's is always the probability; remove it")
    if stage.k1 == 1:
        yield Problem((*key, "k1"), "one candidate makes no pair; expected 2 or more")


def aggregate_problems(name: str, stage: Aggregate, draft: Draft) -> Iterator[Problem]:
    """k1 and the draw are within what the pairs hold."""
    key = ("stages", name)
    pairs = draft.stages.get(stage.pairs)
    if stage.method == "sample" and stage.m is None:
        yield Problem((*key, "m"), "missing; expected how many are drawn for each candidate")
    if stage.method != "sample" and stage.m is not None:
        yield Problem((*key, "m"), f"for method sample only, not {stage.method}; remove it")
    if not isinstance(pairs, Score) or pairs.k1 is None:
        return
    if stage.k1 is not None and stage.k1 > pairs.k1:
        text = f"found {stage.k1}, more than the k1 of {stage.pairs}, {pairs.k1}; raise that one"
        yield Problem((*key, "k1"), text)
    if pairs.sample is None:
        return
    same = (stage.k1 in (None, pairs.k1), stage.m == pairs.sample, stage.seed == pairs.seed)
    if stage.method != "sample" or not all(same):
        text = (
            f"{stage.pairs} holds {pairs.sample} drawn pairs of each of {pairs.k1} candidates, "
            f"seed {pairs.seed}: only method sample with that k1, m and seed can be made of them"
        )
        yield Problem((*key, "method"), text)
