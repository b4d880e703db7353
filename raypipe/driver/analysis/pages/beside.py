"""Two workspaces side by side: what both have is compared, what only one has is named."""

from collections.abc import Mapping, Sequence

from raypipe.analysis.section import Section, Table, Value
from raypipe.driver.analysis.finished import Finished
from raypipe.driver.analysis.measuring import measures_of
from raypipe.driver.analysis.overview import DIFFERENCE, difference_of
from raypipe.driver.analysis.pages.common import Both, measured_on, same_queries
from raypipe.driver.analysis.pages.differing import differing
from raypipe.driver.analysis.pages.larger import alike, larger_of, shown_pair
from raypipe.errors import InputError
from raypipe.evaluation.compare import compare_measured
from raypipe.evaluation.measured import Measured
from raypipe.evaluation.names import counts_in
from raypipe.vocabulary import Unit, units

NUM_QUERIES = 10
"""Of the most changed, in each direction."""


def beside(one: Finished, other: Finished, pairs: Sequence[tuple[str, str]] = ()) -> list[Section]:
    """A section for each query set that both measured, and one of what differs in their making.

    Systems of the same name are compared, and those that `pairs` names, one of each workspace.

    Raises:
        InputError: nothing in common, or a pair names a system that is not there.
    """
    _check(one, other, pairs)
    sections = []
    for query_set in one.summary["measures"]:
        for unit in units():
            both = (one, other)
            if all(each.summary["measures"].get(query_set) for each in both) and all(
                each.measured(query_set, unit) for each in both
            ):
                found = _of(both, query_set, unit, pairs)
                sections += [found] if found is not None else []
    if not sections:
        raise InputError(
            f"{one.workspace.folder} and {other.workspace.folder}: expected a query set of one "
            "name with judged queries of the same texts, a measure and a system (or --pair A=B) "
            "that both have, found none"
        )
    return [*sections, differing(one, other)]


def _check(one: Finished, other: Finished, pairs: Sequence[tuple[str, str]]) -> None:
    problems = []
    for pair in pairs:
        for finished, system in zip((one, other), pair, strict=True):
            known = dict.fromkeys(
                s for found in finished.summary["systems"].values() for s in found
            )
            if system not in known:
                where = finished.workspace.folder
                problems.append(f"--pair {'='.join(pair)}: {where} has {', '.join(known)}")
    if problems:
        raise InputError(problems)


def _of(both: Both, query_set: str, unit: Unit, pairs: Sequence[tuple[str, str]]) -> Section | None:
    """One query set; None if the two have no system, measure or query in common there."""
    systems = [finished.systems(query_set, unit) for finished in both]
    named = [(name, name) for name in systems[0] if name in systems[1]]
    named += [pair for pair in pairs if pair[0] in systems[0] and pair[1] in systems[1]]
    named, apart = alike(both, named)
    of_one, of_other = (measures_of(finished) for finished in both)
    measures = [m for m in of_one if m in of_other]
    measures = [m for m in measures if m not in counts_in(measures)]
    queries, notes = same_queries(both, query_set, unit)
    if not (named and measures and queries):
        return None
    notes += [*_only_in_one(systems, (of_one, of_other), pairs), *apart]
    notes += larger_of(both, query_set, named)
    rows: list[list[Value]] = []
    changed: list[Table] = []
    texts = both[0].query_texts(query_set)
    for a, b in named:
        values = {
            "before": measured_on(both[0], query_set, a, measures, unit, queries),
            "after": measured_on(both[1], query_set, b, measures, unit, queries),
        }
        name = shown_pair(a, b, both[0].larger_collection(a))
        for row in compare_measured(values, measures, baseline="before").rows:
            if row.run == "after":
                before = values["before"].mean[row.measure]
                rows.append([name, row.measure, before, row.mean, *difference_of(row)])
        changed.append(_changed(name, measures[0], values, texts))
    columns = ["system", "measure", "A", "B", *DIFFERENCE]
    tables = [Table("B less A, with 95% intervals", columns, rows), *changed]
    notes.append("p (Holm) is corrected over the measures of one system")
    lead = f"{len(queries):,} queries that both judge alike, {len(named):,} systems"
    facts: dict[str, Value] = {
        letter: str(each.workspace.folder) for letter, each in zip("AB", both, strict=True)
    }
    suffix = "" if unit == "passages" else " of documents"
    return Section(f"side by side{suffix}", query_set, tables, (), notes, lead=lead, facts=facts)


def _only_in_one(
    systems: Sequence[Sequence[str]],
    measures: Sequence[Sequence[str]],
    pairs: Sequence[tuple[str, str]],
) -> list[str]:
    """Notes of the systems and measures that are not compared."""
    paired = [{pair[place] for pair in pairs} for place in (0, 1)]
    notes = []
    for what, found in (("system", systems), ("measure", measures)):
        for place, where in ((0, "A"), (1, "B")):
            alone = [
                n for n in found[place] if n not in found[1 - place] and n not in paired[place]
            ]
            if alone:
                notes.append(f"in {where} alone: {what} {', '.join(alone)}")
    return notes


def _changed(
    name: str, measure: str, values: Mapping[str, Measured], texts: Mapping[str, str]
) -> Table:
    """The queries with the largest gains, then those with the largest losses."""
    before, after = (values[key].per_query[measure] for key in ("before", "after"))
    change = {query: after[query] - before[query] for query in before}
    gained = sorted((q for q in change if change[q] > 0), key=lambda q: (-change[q], q))
    lost = sorted((q for q in change if change[q] < 0), key=lambda q: (change[q], q))
    rows: list[list[Value]] = [
        [query, texts.get(query), before[query], after[query], change[query]]
        for query in [*gained[:NUM_QUERIES], *lost[:NUM_QUERIES]]
    ]
    return Table(
        f"{measure} of {name}: changed most", ["query", "text", "A", "B", "difference"], rows
    )
