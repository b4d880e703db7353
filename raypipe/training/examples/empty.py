"""Explains why a training set gives no examples, and what to change."""

from collections.abc import Mapping, Sequence

from raypipe.config.training.sets import TrainingSet
from raypipe.training.examples.draw import Short


def nothing_left(
    wanted: TrainingSet, name: str, relevant: Mapping[int, Sequence[int]], short: Short
) -> str:
    """Why no example is left; `relevant` are the relevant passages by query row."""
    where = f"train.{name}: no example is left: "
    if wanted.triples is not None:
        return f"{where}the guard refuses every triple of {wanted.triples}"
    if wanted.qrels is None:
        assert wanted.negatives is not None
        least, runs = wanted.negatives.per_example + 1, ", ".join(wanted.negatives.runs)
        return (
            f"{where}no query that the guard allows has {least} passages with a score of "
            f"{wanted.teacher} in ranks {wanted.negatives.first} to {wanted.negatives.last} of "
            f"{runs}"
        )
    if not relevant:
        return (
            f"{where}{wanted.qrels} has no judgement of grade {wanted.min_grade} or higher "
            f"for a query of {wanted.queries} that the guard allows"
        )
    if wanted.pairs is not None:
        runs = ", ".join(wanted.pairs.runs)
        return f"{where}the guard refuses every query of {runs}, or they have no candidates"
    negatives = wanted.negatives
    assert negatives is not None
    if short.without_teacher > short.without_negatives:
        return f"{where}{wanted.teacher} has no score of a relevant passage"
    if short.negatives_without_teacher:
        return f"{where}{wanted.teacher} has too few scores of irrelevant passages of the runs"
    if negatives.relevant_last is not None and not short.without_negatives:
        return (
            f"{where}no relevant passage is in ranks 1 to {negatives.relevant_last} of "
            f"{', '.join(negatives.runs)}; raise negatives.relevant_last"
        )
    return (
        f"{where}no relevant passage has {negatives.per_example} irrelevant ones in ranks "
        f"{negatives.first} to {negatives.last} of {', '.join(negatives.runs)}"
    )
