"""The first screen of a report: which system is best, by how much, at what cost, seen by whom."""

from collections.abc import Mapping
from typing import Any

from raypipe.analysis.section import Section, Table, Value, shown
from raypipe.driver.analysis.finished import Finished
from raypipe.driver.analysis.measuring import about, judgements_of, measures_of
from raypipe.evaluation.compare import Comparison, compare, unjudged
from raypipe.evaluation.measures import evaluate
from raypipe.evaluation.names import counts_in
from raypipe.vocabulary import Unit

JUDGED_AT = 10


def overview(finished: Finished, query_set: str, unit: Unit = "passages") -> Section:
    """Every system with its measures, cost and share of judged passages, and the best in words."""
    judged, measures = judgements_of(finished, query_set, unit), measures_of(finished)
    runs = {
        name: finished.named(finished.run(name, query_set), query_set, unit)
        for name in finished.systems(query_set, unit)
    }
    evaluated = finished.recipe.evaluate
    named = evaluated.baseline if evaluated is not None else None
    base = named if named in runs else next(iter(runs))
    of_system = {name: evaluate(run, judged, measures, warn=False) for name, run in runs.items()}
    counts = counts_in(measures)
    comparable = [measure for measure in measures if measure not in counts]
    compared = compare(runs, judged, comparable, baseline=base).rows if comparable else []
    known: dict[str, set[str]] = {}
    pairs = zip(judged["query_id"].to_pylist(), judged["passage_id"].to_pylist(), strict=True)
    for query, passage in pairs:
        known.setdefault(query, set()).add(passage)
    told = finished.summary["systems"][query_set]
    num_queries = len(finished.queries(query_set))
    means = {name: found.mean for name, found in of_system.items()}
    rows: list[list[Value]] = [
        [
            name,
            told[name]["reranks"] or None,
            told[name]["model"] or None,
            *(means[name][measure] for measure in measures),
            1.0 - unjudged(run, known, JUDGED_AT),
            told[name]["ms_per_query"],
            _inferences(told[name], num_queries),
        ]
        for name, run in runs.items()
    ]
    columns = ["system", "reranks", "model", *measures, f"Judged@{JUDGED_AT}", "ms/query"]
    tables = [Table("Systems", [*columns, "inferences/query"], rows)]
    if len(runs) > 1 and comparable:
        tables.append(_differences(compared, base))
    lead, notes = "", []
    if comparable:
        best = max(runs, key=lambda name: means[name][comparable[0]])
        lead = _best(best, base, compared, comparable[0])
    notes += [*about(finished, query_set, unit), *_stale(finished, query_set, means)]
    saw = {told[name]["model"]: told[name].get("start_weights") for name in runs}
    notes += [f"{model}: its start weights saw {what}" for model, what in saw.items() if what]
    notes.append("ms/query: wall time of the whole chain over all queries, loading excluded")
    name = "overview" if unit == "passages" else "overview of documents"
    return Section(name, query_set, tables, (), notes, lead=lead)


def _stale(
    finished: Finished, query_set: str, means: Mapping[str, Mapping[str, float]]
) -> list[str]:
    """A note if the judgements give other values now than when the recipe was run."""
    told = finished.summary["measures"].get(query_set, {})
    if all(told[name] == dict(means[name]) for name in means if name in told):
        return []
    return [
        f"stale: the judgements of {query_set} changed since the recipe was run; this page has "
        "their values now, table.md and summary.json have the earlier ones; run the recipe again"
    ]


def _inferences(system: Mapping[str, Any], num_queries: int) -> float | None:
    count = system.get("inferences")
    return count / num_queries if count is not None and num_queries else None


def _differences(rows: list[Comparison], base: str) -> Table:
    found: list[list[Value]] = [
        [
            row.run,
            row.measure,
            row.difference.mean,
            row.difference.low,
            row.difference.high,
            f"{row.wins}/{row.ties}/{row.losses}",
            row.p_randomisation,
            row.p_holm,
        ]
        for row in rows
        if row.difference is not None
    ]
    columns = [
        "system",
        "measure",
        "difference",
        "low",
        "high",
        "wins/ties/losses",
        "p",
        "p (Holm)",
    ]
    return Table(f"Differences to {base}, with 95% intervals", columns, found)


def _best(best: str, base: str, rows: list[Comparison], measure: str) -> str:
    """The best system in one sentence."""
    (row,) = [row for row in rows if (row.run, row.measure) == (best, measure)]
    if row.difference is None:
        return f"best by {measure}: {best}, the baseline, {row.mean:.4f}"
    found = row.difference
    p = row.p_randomisation
    return (
        f"best by {measure}: {best}, {row.mean:.4f}; {found.mean:+.4f} "
        f"[{found.low:+.4f}, {found.high:+.4f}] over {base}, p {shown(p, 'p')}"
    )
