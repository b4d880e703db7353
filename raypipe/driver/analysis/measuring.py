"""Measures of runs of a finished workspace."""

from collections.abc import Mapping, Sequence

import pyarrow as pa

from raypipe.driver.analysis.finished import Finished
from raypipe.errors import InputError
from raypipe.evaluation.measured import Measured
from raypipe.evaluation.measures import evaluate
from raypipe.evaluation.names import parse_measures
from raypipe.vocabulary import Unit


def judgements_of(finished: Finished, query_set: str, unit: Unit = "passages") -> pa.Table:
    """The judgements of a query set, schema.QRELS.

    Raises:
        InputError: it has none.
    """
    judged = finished.judgements(query_set, unit)
    if judged is None:
        raise InputError(
            f"{finished.workspace.folder}: the query set {query_set} has no judgements of {unit}, "
            "or the recipe measures nothing; add qrels and evaluate, and run it again"
        )
    return judged


def measures_of(finished: Finished) -> Sequence[str]:
    """The recipe's measures, one or more.

    Raises:
        InputError: it has none.
    """
    if finished.recipe.evaluate is None:
        raise InputError(
            f"{finished.workspace.folder / 'recipe.yaml'}: expected measures under evaluate, found "
            "none; add evaluate to the recipe, and run it again"
        )
    return finished.recipe.evaluate.measures


def measured(
    finished: Finished,
    query_set: str,
    run: pa.Table,
    measures: Sequence[str],
    unit: Unit = "passages",
) -> Measured:
    """A run (schema.RUN) of the workspace, measured."""
    judged = judgements_of(finished, query_set, unit)
    return evaluate(finished.named(run, query_set, unit), judged, measures, warn=False)


def means(
    finished: Finished, query_set: str, run: pa.Table, measures: Sequence[str]
) -> Mapping[str, float]:
    """Measure -> mean over the topics."""
    return measured(finished, query_set, run, measures).mean


def recalls(finished: Finished, depths: Sequence[int]) -> dict[int, str]:
    """Depth -> the name of the recall there, with the lowest relevant grade of the recipe's own."""
    parsed = parse_measures(measures_of(finished)).values()
    grade = next((int(m.params.get("rel", 1)) for m in parsed if m.NAME == "R"), 1)
    return {depth: f"R@{depth}" if grade == 1 else f"R(rel={grade})@{depth}" for depth in depths}


def about(finished: Finished, query_set: str, unit: Unit = "passages") -> list[str]:
    """The notes of every table: the topics and what counts as relevant."""
    evaluated = finished.recipe.evaluate
    topics = set(judgements_of(finished, query_set, unit)["query_id"].to_pylist())
    notes = [f"{len(topics):,} topics"]
    if evaluated is not None and evaluated.topics:
        notes.append(f"topics: {evaluated.topics}")
    if evaluated is not None and evaluated.relevance:
        notes.append(f"relevant: {evaluated.relevance}")
    return notes
