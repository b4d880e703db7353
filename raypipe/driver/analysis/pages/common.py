"""What two workspaces have in common: judged queries, and their systems' values on these."""

from collections.abc import Sequence
from math import fsum

from raypipe.driver.analysis.finished import Finished
from raypipe.driver.analysis.measuring import measured
from raypipe.evaluation.measured import Measured
from raypipe.evaluation.measures import grades_of
from raypipe.vocabulary import Unit

Both = tuple[Finished, Finished]


def same_queries(both: Both, query_set: str, unit: Unit) -> tuple[list[str], list[str]]:
    """The judged queries with one text and the same judgements in both, and what is left out."""
    texts = [finished.query_texts(query_set) for finished in both]
    grades = []
    for finished in both:
        judged = finished.judgements(query_set, unit)
        assert judged is not None
        grades.append(grades_of(judged))
    shared = [query for query in grades[0] if query in grades[1]]
    same_text = [query for query in shared if texts[0].get(query) == texts[1].get(query)]
    same = [query for query in same_text if grades[0][query] == grades[1][query]]
    left_out = {
        "judged in A alone": len(grades[0]) - len(shared),
        "judged in B alone": len(grades[1]) - len(shared),
        "whose texts differ": len(shared) - len(same_text),
        "whose judgements differ": len(same_text) - len(same),
    }
    return same, [f"left out: {num:,} queries {why}" for why, num in left_out.items() if num]


def measured_on(
    finished: Finished,
    query_set: str,
    system: str,
    measures: Sequence[str],
    unit: Unit,
    queries: Sequence[str],
) -> Measured:
    """A system's values on these queries alone, all of them judged."""
    found = measured(finished, query_set, finished.run(system, query_set), measures, unit)
    per_query = {m: {q: found.per_query[m][q] for q in queries} for m in measures}
    return Measured(
        per_query=per_query,
        mean={m: fsum(values.values()) / len(values) for m, values in per_query.items()},
        num_topics=dict.fromkeys(measures, len(queries)),
        missing_queries=(),
        unjudged_queries=(),
        num_retrieved=found.num_retrieved,
        num_judged=found.num_judged,
    )
