"""The table of a sweep: a line for each point and system, for each query set."""

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from raypipe.config.yaml import value_text
from raypipe.driver.sweep.state import Row, Sweep
from raypipe.evaluation.tables import one_digit
from raypipe.markdown import bullet, cell, markdown_table
from raypipe.names import of_queries

_COLUMNS = ("system", "n", "ms/query", "inferences/query")


def rows_of_point(
    values: Mapping[str, Any], point: str, folder: Path, summary: Mapping[str, Any]
) -> list[Row]:
    """The measured systems of a complete point, from what its invocation wrote."""
    rows = []
    for query_set, means in summary["measures"].items():
        counts = _counts(folder / "measures" / f"{query_set}.tsv")
        num_queries = summary["stages"][str(of_queries(query_set))]["rows"]
        for system, measures in means.items():
            told = summary["systems"][query_set][system]
            alone = told.get("inferences")
            rows.append(
                Row(
                    values=values,
                    point=point,
                    query_set=query_set,
                    system=system,
                    n=counts[system],
                    measures=measures,
                    ms_per_query=told["ms_per_query"],
                    inferences_per_query=None if alone is None else alone / num_queries,
                )
            )
    return rows


def _counts(path: Path) -> dict[str, int]:
    """System -> its measured queries: the lines of its first measure."""
    found: dict[str, dict[str, int]] = {}
    with path.open(encoding="utf-8", newline="") as stream:
        for line in csv.DictReader(stream, delimiter="\t", quoting=csv.QUOTE_NONE):
            of_system = found.setdefault(line["system"], {})
            of_system[line["measure"]] = of_system.get(line["measure"], 0) + 1
    return {system: next(iter(counts.values())) for system, counts in found.items()}


def table_of(sweep: Sweep) -> str:
    """The table as Markdown; empty if nothing was measured."""
    sets = dict.fromkeys(row.query_set for row in sweep.rows)
    return "\n".join(_of_set(sweep, query_set, [*sets]) for query_set in sets)


def _of_set(sweep: Sweep, query_set: str, query_sets: Sequence[str]) -> str:
    rows = [row for row in sweep.rows if row.query_set == query_set]
    measures = [*dict.fromkeys(name for row in rows for name in row.measures)]
    names = short_names(sweep.keys)
    counted = any(row.inferences_per_query is not None for row in rows)
    header = [*names.values(), "system", *measures, "n", "ms/query"]
    lines = []
    for row in rows:
        line = [cell(_shown(row.values[key])) for key in names] + [row.system]
        line += [_mean(row.measures.get(measure)) for measure in measures]
        line += [str(row.n), one_digit(row.ms_per_query)]
        lines.append(line + ([one_digit(row.inferences_per_query)] if counted else []))
    table = markdown_table([*header, *(["inferences/query"] if counted else [])], lines)
    notes = [_note([*names.values()], [each for each in query_sets if each != query_set])]
    if any(row.ms_per_query is None and row.inferences_per_query is not None for row in rows):
        notes.append("`-` under ms/query: scores of an earlier point or invocation were used")
    return "\n".join([f"## {query_set}", "", *table, "", *map(bullet, notes)]) + "\n"


def short_names(keys: Sequence[str]) -> dict[str, str]:
    """Key -> its last part, if no other key and no column of the table is called so."""
    last = [key.rpartition(".")[2] for key in keys]
    return {
        key: own if last.count(own) == 1 and own not in _COLUMNS else key
        for key, own in zip(keys, last, strict=True)
    }


def _shown(value: Any) -> str:
    """A value as a recipe has it, but a text without quotes."""
    return value if isinstance(value, str) else value_text(value)


def _mean(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"


def _note(names: Sequence[str], others: Sequence[str]) -> str:
    """What is chosen on a query set is never reported on it."""
    chosen = " and ".join(names)
    told = f"{chosen} chosen on these queries is not to be reported on them"
    return f"{told}, but on others, such as {others[0]}" if others else told
