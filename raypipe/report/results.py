"""The systems of a finished pipeline with their measures, compared with the recipe's baseline."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from raypipe.errors import InputError
from raypipe.evaluation.compare import Comparison, compare
from raypipe.evaluation.measures import Measured, evaluate
from raypipe.evaluation.names import counts_in, parse_measures
from raypipe.evaluation.paired import Difference, difference
from raypipe.evaluation.tables import OUTSIDE, Results, rows_of
from raypipe.report.finished import Finished
from raypipe.report.measures import about, judgements_of, measures_of
from raypipe.report.overview import stale
from raypipe.storage.files import replace_file
from raypipe.vocabulary import Unit, units


def results(
    finished: Finished, query_set: str | None = None, measures: Sequence[str] = ()
) -> list[Results]:
    """A table for each query set with judgements, or for the one that is named.

    Without `measures` they are the recipe's. The comparisons are those of `compare`: paired tests,
    with Holm's correction over the systems and measures of one table.

    Raises:
        InputError: an unknown query set or measure, or nothing that was measured.
    """
    chosen = finished.chosen(query_set)
    if measures:
        parse_measures(measures)
    wanted = list(dict.fromkeys(measures)) or measures_of(finished)
    found = [
        _results(finished, name, unit, wanted)
        for name in chosen
        for unit in units()
        if finished.measured(name, unit)
    ]
    if not found and query_set is not None:
        judgements_of(finished, query_set)  # tells that there are none
    if not found:
        raise InputError(
            f"{finished.workspace.folder}: no query set was measured; add qrels and evaluate to "
            "the recipe, and run it again"
        )
    return found


def _results(finished: Finished, query_set: str, unit: Unit, measures: Sequence[str]) -> Results:
    judged = judgements_of(finished, query_set, unit)
    runs = {
        name: finished.named(finished.run(name, query_set), query_set, unit)
        for name in finished.systems(query_set, unit)
    }
    evaluated = finished.recipe.evaluate
    baseline = evaluated.baseline if evaluated is not None else None
    baseline = baseline if baseline in runs else None
    counts = counts_in(measures)
    apart = counts if baseline is not None else measures
    comparable = [measure for measure in measures if measure not in apart]
    measured: dict[str, list[Measured]] = {name: [] for name in runs}
    rows: list[Comparison] = []
    family = 0
    larger = {name: finished.larger_collection(name) for name in runs}
    starred_here = any(each is not None for each in larger.values())
    where = None if baseline is None else larger[baseline]
    alike = {name: run for name, run in runs.items() if larger[name] == where}
    if baseline is not None and comparable:
        compared = compare(alike, judged, comparable, baseline=baseline, of_set=True)
        rows, family = compared.rows, compared.family
        for name, of_system in compared.per_query.items():
            measured[name].append(of_system)
    for name, run in runs.items():
        alone = apart if measured[name] else measures
        if alone:
            measured[name].append(evaluate(run, judged, alone, warn=False, of_set=True))
    means = {
        name: {m: v for each in of for m, v in each.mean.items()} for name, of in measured.items()
    }
    comparisons = {(row.run, row.measure): row for row in rows}
    told = finished.summary["systems"][query_set]
    notes = finished.summary.get("notes", {}).get(query_set, {}).get(unit)
    described = about(finished, query_set, unit)
    return Results(
        recipe=finished.recipe.name,
        query_set=query_set,
        unit=unit,
        measures=measures,
        num_topics=len(set(judged["query_id"].to_pylist())),
        baseline=baseline,
        rows=rows_of(
            told,
            means,
            _differences(comparisons, {n: measured[n] for n in alike}, baseline, counts),
            num_queries=len(finished.queries(query_set)),
            larger=larger,
        ),
        comparisons=comparisons,
        family=family,
        notes=[
            *(described if notes is None else notes),
            *([OUTSIDE] if starred_here and OUTSIDE not in (notes or ()) else []),
            *(f"stale: {line}" for line in stale(finished, query_set, means)),
        ],
        about=described,
    )


def _differences(
    comparisons: Mapping[tuple[str, str], Comparison],
    measured: Mapping[str, Sequence[Measured]],
    baseline: str | None,
    counts: Sequence[str],
) -> dict[str, dict[str, Difference]]:
    """As the pipeline's own table has them, of counts too, which no test compares."""
    found: dict[str, dict[str, Difference]] = {}
    for (system, measure), row in comparisons.items():
        if row.difference is not None:
            found.setdefault(system, {})[measure] = row.difference
    if baseline is None:
        return found
    for system, (*_, last) in measured.items():
        if counts and system != baseline:
            base = measured[baseline][-1].per_query
            more = {m: difference(last.per_query[m], base[m]) for m in counts}
            found.setdefault(system, {}).update(more)
    return found


def write_beside(finished: Finished, out: Path, text: str) -> Path:
    """The file, written, or replaced if it was there.

    Raises:
        InputError: it is a folder, in no folder, or a file of the workspace that `verify` compares.
    """
    folder = finished.workspace.folder
    own = {(folder / name).resolve() for name in (*finished.summary["files"], "summary.json")}
    if out.is_dir() or not out.absolute().parent.is_dir():
        raise InputError(f"--out {out}: expected a file in a folder that exists")
    if out.resolve() in own:
        raise InputError(f"--out {out}: a file of the workspace itself; name another")
    replace_file(out, text.encode())
    return out
