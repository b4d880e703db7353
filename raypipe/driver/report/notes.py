"""The notes below a table."""

from collections.abc import Iterable, Mapping

from raypipe.config import Evaluate
from raypipe.driver.recipe.basis import Basis
from raypipe.driver.report.inferences import Inferences
from raypipe.evaluation.measures import Measured
from raypipe.evaluation.tables import INFERENCES
from raypipe.vocabulary import Unit

OF_WIKIPEDIA = ("trec-car", "trec-car-tools")
"""Formats whose passages are Wikipedia's."""
WIKIPEDIA = (
    "the passages are Wikipedia's: start weights that saw all of it, as BERT's own, saw the test's "
    "pages; Nogueira & Cho 2019 pre-trained on the half of TREC CAR's training folds alone"
)


def apart_of(
    wanted: Evaluate, larger: Mapping[str, str | None], measured: Iterable[str]
) -> list[str]:
    """The systems that rank another collection than the baseline: what differs is not theirs."""
    baseline = wanted.baseline
    return [name for name in measured if baseline and larger[name] != larger[baseline]]


def notes_of(
    basis: Basis,
    wanted: Evaluate,
    query_set: str,
    measured: Mapping[str, Measured],
    counts: Mapping[str, Inferences],
    unit: Unit,
) -> list[str]:
    """Topics, grades, sizes, what times and inferences are, and what was copied or is missing."""
    notes = []
    if wanted.topics:
        notes.append(f"topics: {wanted.topics}")
    if wanted.relevance:
        notes.append(f"relevant: {wanted.relevance}")
    if basis.recipe.collection.format in OF_WIKIPEDIA:
        notes.append(WIKIPEDIA)
    sizes = f"{basis.collection().num_rows:,} passages"
    if unit == "documents":
        sizes = f"{basis.documents().num_rows:,} documents, {sizes}"
    notes.append(f"{sizes}, {basis.queries(query_set).num_rows:,} queries")
    notes.append("ms/query: wall time of the whole chain over all queries, loading excluded")
    counted = {system: counts[system] for system in measured if system in counts}
    notes += [INFERENCES] if counted else []
    notes += [
        f"{system}: {count.copied:,} scores copied from an older store, not computed"
        for system, count in counted.items()
        if count.copied
    ]
    if wanted.baseline is not None and wanted.baseline not in measured:
        notes.append(f"no differences: the baseline, {wanted.baseline}, is not in this table")
    for system, of_system in measured.items():
        if of_system.missing_queries:
            missing = len(of_system.missing_queries)
            notes.append(f"{system}: judged queries without a result, each counting 0: {missing:,}")
    return notes
