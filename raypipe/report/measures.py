"""Measures of runs of a finished workspace, and the lines of a run that they need."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from raypipe.errors import InputError
from raypipe.evaluation.measures import Measured, evaluate
from raypipe.evaluation.names import parse_measures
from raypipe.evaluation.tables import OUTSIDE, starred
from raypipe.report.finished import Finished
from raypipe.vocabulary import Unit

RECALL_DEPTHS = (5, 10, 20, 50, 100, 200, 500, 1000, 2000)
"""Depths at which a first stage's recall is told."""
_OF_JUDGED = frozenset(("AP", "nDCG", "P", "R", "RR", "Rprec", "Success"))
"""Measures that unjudged passages change only by the ranks of the judged ones below them."""


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
    if unit == "passages":
        run = needed(finished, query_set, run, measures)
    named = finished.named(run, query_set, unit)
    return evaluate(named, judged, measures, warn=False, of_set=True)


def needed(
    finished: Finished, query_set: str, run: pa.Table, measures: Sequence[str], *, most: int = 1
) -> pa.Table:
    """The lines of a run of passages without those at the ends of its lists that change no measure.

    They lie below the last judged passage of a query, or below every measure's cutoff, and are most
    lines of most runs. The first `most` ranks are always kept, for a reranker that may reorder
    them: it gives the same values with the lines that are left.
    """
    parsed = parse_measures(measures).values()
    if not all(m.NAME in _OF_JUDGED and not m.params.get("judged_only") for m in parsed):
        return run
    cutoffs = [measure.params.get("cutoff") for measure in parsed]
    if None not in cutoffs:
        run = cut(run, most + max(cutoffs))  # up to `most` lines may be in quarantine and left out
    queries, passages = finished.judged_rows(query_set)
    return down_to(run, queries, passages, most=most)


def of_system(finished: Finished, query_set: str, system: str, unit: Unit = "passages") -> Measured:
    """A system's values by the recipe's measures; see `recall_of` for more."""
    found, _ = _measured_once(finished, query_set, system, unit)
    own = measures_of(finished)
    return replace(
        found,
        per_query={name: found.per_query[name] for name in own},
        mean={name: found.mean[name] for name in own},
        num_topics={name: found.num_topics[name] for name in own},
    )


def recall_of(finished: Finished, query_set: str, system: str) -> Mapping[int, float]:
    """Depth -> a first stage's recall there, at `RECALL_DEPTHS` up to its longest list."""
    return _measured_once(finished, query_set, system, "passages")[1]


def _measured_once(
    finished: Finished, query_set: str, system: str, unit: Unit
) -> tuple[Measured, Mapping[int, float]]:
    """A system by all that several sections tell of it, measured when it is first asked for."""
    key = (query_set, system, unit)
    if key not in finished.measured_once:
        run, names = finished.run(system, query_set), dict[int, str]()
        if unit == "passages" and system in finished.first_stages(query_set):
            depths = depths_up_to(longest(run), RECALL_DEPTHS) if len(run) else []
            names = recalls(finished, depths)
        wanted = [*dict.fromkeys([*measures_of(finished), *names.values()])]
        found = measured(finished, query_set, run, wanted, unit)
        recall = {depth: found.mean[name] for depth, name in names.items()}
        finished.measured_once[key] = found, recall
    return finished.measured_once[key]


def means(
    finished: Finished, query_set: str, run: pa.Table, measures: Sequence[str]
) -> Mapping[str, float]:
    """Measure -> mean over the topics."""
    return measured(finished, query_set, run, measures).mean


def relevant_grade(finished: Finished) -> int:
    """The lowest relevant grade: that of the recipe's own recall; 1 if it measures none."""
    parsed = parse_measures(measures_of(finished)).values()
    return next((int(m.params.get("rel", 1)) for m in parsed if m.NAME == "R"), 1)


def recalls(finished: Finished, depths: Sequence[int]) -> dict[int, str]:
    """Depth -> the name of the recall there."""
    grade = relevant_grade(finished)
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


def compared_with(finished: Finished, systems: Sequence[str]) -> tuple[str, bool, list[str]]:
    """(the system that others are compared with, whether it is the recipe's baseline, the others).

    It is the baseline, if that is one of the systems and ranks this collection; otherwise the first
    system that ranks this collection, or the first of all if none does. The others are those over
    the same collection, itself too, in the given order.
    """
    evaluated = finished.recipe.evaluate
    named = evaluated.baseline if evaluated is not None else None
    here = [name for name in systems if finished.larger_collection(name) is None] or [*systems]
    base = named if named in here else here[0]
    where = finished.larger_collection(base)
    alike = [name for name in systems if finished.larger_collection(name) == where]
    return base, base == named, alike


def marked(finished: Finished, system: str) -> str:
    """A system's name, with a star if it ranks a larger collection; see `outside`."""
    return starred(system, finished.larger_collection(system))


def outside(finished: Finished, query_set: str, systems: Sequence[str]) -> list[str]:
    """Notes on those systems that rank a larger collection: what the star means, lines lost."""
    if all(finished.larger_collection(name) is None for name in systems):
        return []
    return [OUTSIDE, *finished.left_out(query_set, systems)]


def depths_up_to(most: int, wanted: Sequence[int]) -> list[int]:
    """The wanted depths below `most`, then `most` itself; ascending."""
    return [*sorted(depth for depth in set(wanted) if depth < most), most]


def longest(run: pa.Table) -> int:
    """The number of lines of the query that has most; 0 for an empty run."""
    return int(pc.max(run["rank"]).as_py() or 0)


def cut(run: pa.Table, depth: int) -> pa.Table:
    """The lines with a rank up to `depth`, in their order."""
    return run.filter(pc.less_equal(run["rank"], depth))


def down_to(
    run: pa.Table,
    query_rows: NDArray[np.int64],
    passage_rows: NDArray[np.int64],
    *,
    most: int = 1,
) -> pa.Table:
    """The lines down to the last one of each query that is among the given pairs.

    A query's first `most` lines are always kept. The pairs are sorted, see `places_of`.
    """
    known = places_of(run, query_rows, passage_rows) >= 0
    of_line, rank = run["query_row"].to_numpy(), run["rank"].to_numpy()
    last = np.full(int(of_line.max(initial=0)) + 1, most, rank.dtype)
    np.maximum.at(last, of_line[known], rank[known])
    return run.filter(pa.array(rank <= last[of_line]))


def places_of(
    run: pa.Table, query_rows: NDArray[np.int64], passage_rows: NDArray[np.int64]
) -> NDArray[np.int64]:
    """The position of each line among the pairs, -1 where it is none of them, int64 [N].

    Much faster than `candidates.positions`, since the pairs are few and no line has another key.

    Args:
        run: schema.RUN, of N lines.
        query_rows: of the pairs, int64 [P].
        passage_rows: of the pairs, int64 [P]; the pairs are sorted by both, and each is there once.
    """
    queries, passages = (run[name].to_numpy() for name in ("query_row", "passage_row"))
    if not len(query_rows) or not len(queries):
        return np.full(len(queries), -1, np.int64)
    span = 1 + max(int(passages.max()), int(passage_rows.max()))  # 2^31 queries, 2^28 passages fit
    wanted = query_rows * span + passage_rows
    keys = queries.astype(np.int64) * span + passages
    places = np.minimum(np.searchsorted(wanted, keys), len(wanted) - 1)
    return np.where(wanted[places] == keys, places, -1)
