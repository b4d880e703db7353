"""The systems of a finished pipeline with their measures, compared with the recipe's baseline."""

from collections.abc import Sequence
from pathlib import Path

from raypipe.errors import InputError
from raypipe.evaluation.compare import Comparison, compare_measured
from raypipe.evaluation.measures import warn_of
from raypipe.evaluation.names import counts_in, parse_measures
from raypipe.evaluation.paired import Difference, difference
from raypipe.evaluation.tables import OUTSIDE, Results, rows_of
from raypipe.report.finished import Finished, about, judgements_of, measured, measures_of
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
    found = {
        name: measured(finished, query_set, finished.run(name, query_set), measures, unit)
        for name in finished.systems(query_set, unit)
    }
    means = {name: of_system.mean for name, of_system in found.items()}
    larger = {name: finished.larger_collection(name) for name in found}
    evaluated = finished.recipe.evaluate
    baseline = evaluated.baseline if evaluated is not None else None
    comparisons: dict[tuple[str, str], Comparison] = {}
    differences: dict[str, dict[str, Difference]] = {}
    family = 0
    if baseline is not None and baseline in found:
        alike = {name: of for name, of in found.items() if larger[name] == larger[baseline]}
        counts = counts_in(measures)
        comparable = [measure for measure in measures if measure not in counts]
        if comparable:
            warn_of(alike)
            compared = compare_measured(alike, comparable, baseline=baseline)
            comparisons = {(row.run, row.measure): row for row in compared.rows}
            family = compared.family
        known = {key: row.difference for key, row in comparisons.items()}
        base = alike.pop(baseline).per_query
        differences = {  # of counts too, which no test compares, as in the pipeline's own table
            name: {
                m: known.get((name, m)) or difference(of.per_query[m], base[m]) for m in measures
            }
            for name, of in alike.items()
        }
    notes = finished.summary.get("notes", {}).get(query_set, {}).get(unit)
    described = about(finished, query_set, unit)
    starred_here = any(each is not None for each in larger.values())
    return Results(
        recipe=finished.recipe.name,
        query_set=query_set,
        unit=unit,
        measures=measures,
        num_topics=len(set(judged["query_id"].to_pylist())),
        baseline=baseline if baseline in found else None,
        rows=rows_of(
            finished.summary["systems"][query_set],
            means,
            differences,
            num_queries=len(finished.queries(query_set)),
            larger=larger,
        ),
        comparisons=comparisons,
        family=family,
        notes=[
            *(described if notes is None else notes),
            *([OUTSIDE] if starred_here and OUTSIDE not in (notes or ()) else []),
        ],
        about=described,
    )


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
