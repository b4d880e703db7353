"""Results tables as Markdown, CSV and JSON."""

import csv
import io
import json
from collections.abc import Sequence
from typing import Any

from raypipe.driver.report.table import OUTSIDE, render
from raypipe.driver.results.results import Results, entry

COMPARED = ("difference", "low", "high", "wins", "ties", "losses", "p", "p_holm", "p_t")
"""Columns of CSV for each measure, after its mean."""

OF_LARGER = ("larger_collection", "note")


def markdown(tables: Sequence[Results]) -> str:
    """The tables as a pipeline prints them."""
    return "\n".join(
        render(
            table.title,
            table.rows,
            measures=table.measures,
            num_topics=dict.fromkeys(table.measures, table.num_topics),
            baseline=table.baseline,
            notes=table.notes,
        )
        for table in tables
    )


def as_csv(tables: Sequence[Results]) -> str:
    """A line for each system and query set, under a header; plain numbers, none is rounded.

    What is unknown or not compared is empty. If a run ranks a larger collection, the last two
    columns name it and say what follows.
    """
    compared = any(row.differences for table in tables for row in table.rows)
    starred = any(table.elsewhere for table in tables)
    told = io.StringIO()
    writer = csv.writer(told, lineterminator="\n")
    first = ["query_set", "unit", "system", "reranks", "model", "start_weights", "topics"]
    costs = ["ms_per_query", "inferences_per_query", "computed_per_query"]
    measures = [
        name
        for measure in tables[0].measures
        for name in (measure, *(f"{measure} {word}" for word in COMPARED if compared))
    ]
    writer.writerow([*first, *costs, *measures, *(OF_LARGER if starred else ())])
    for table in tables:
        for row in table.rows:
            cells: list[Any] = [table.query_set, table.unit, row.system, row.reranks, row.model]
            cells += [row.start_weights_saw, table.num_topics]
            cells += [row.ms_per_query, row.inferences, row.computed]
            for measure in table.measures:
                known = entry(table, row, measure)
                cells += [known["mean"], *(known.get(word) for word in COMPARED if compared)]
            if starred:
                larger = row.larger_collection
                cells += [None, None] if larger is None else [larger, OUTSIDE.removeprefix("* ")]
            writer.writerow(cells)
    return told.getvalue()


def as_json(tables: Sequence[Results]) -> str:
    """One object with all that is known."""
    body = {"recipe": tables[0].recipe, "tables": [_table(table) for table in tables]}
    return json.dumps(body, indent=1) + "\n"


def _table(table: Results) -> dict[str, Any]:
    systems = [
        {
            "system": row.system,
            "reranks": row.reranks,
            "model": row.model,
            "start_weights": row.start_weights_saw,
            "larger_collection": row.larger_collection,
            "ms_per_query": row.ms_per_query,
            "inferences_per_query": row.inferences,
            "computed_per_query": row.computed,
            "measures": {measure: entry(table, row, measure) for measure in table.measures},
        }
        for row in table.rows
    ]
    return {
        "query_set": table.query_set,
        "unit": table.unit,
        "topics": table.num_topics,
        "measures": list(table.measures),
        "baseline": table.baseline,
        "test": "paired randomisation test, two-sided" if table.comparisons else None,
        "correction": f"Holm, {table.family} comparisons" if table.comparisons else None,
        "systems": systems,
        "notes": list(table.notes),
    }
