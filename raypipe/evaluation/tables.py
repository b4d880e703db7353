"""Results tables as Markdown, CSV, LaTeX and JSON: plain strings for people and programs."""

import csv
import io
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from raypipe.errors import visible
from raypipe.evaluation.compare import Comparison
from raypipe.evaluation.names import counts_in
from raypipe.evaluation.significance import Difference
from raypipe.markdown import Table, Text, bullet, joined
from raypipe.vocabulary import Unit

OUTSIDE = (
    "* a ranking of a larger collection, or made of one: its figures compare only with those "
    "of other runs over that collection"
)
"""Explanation of the star beside a system."""
INFERENCES = (
    "inferences/query: what the whole chain asks of its rerankers; computed/query: those computed "
    "for this system, as the others were there for an earlier system or in an older store"
)


@dataclass(frozen=True, slots=True)
class Row:
    """One system on one query set."""

    system: str
    reranks: str
    model: str
    values: Mapping[str, float]
    """Measure -> mean over topics."""
    ms_per_query: float | None
    start_weights_saw: str
    differences: Mapping[str, Difference] = field(default_factory=dict)
    """Measure -> difference to the baseline; empty for the baseline itself."""
    inferences: float | None = None
    """Inferences a query of the whole chain; None if no reranker has a part in it."""
    computed: float | None = None
    """Inferences a query that were computed for this system; None if unknown."""
    larger_collection: str | None = None
    """The larger collection that it ranks; its values compare with no others."""


@dataclass(frozen=True, slots=True)
class Results:
    """The results table of a query set's runs of passages or of documents."""

    recipe: str
    query_set: str
    unit: Unit
    measures: Sequence[str]
    num_topics: int
    baseline: str | None
    """The recipe's, if it is among the systems."""
    rows: Sequence[Row]
    comparisons: Mapping[tuple[str, str], Comparison] = field(default_factory=dict)
    """(system, measure) -> its comparison, for measures with a mean, if there is a baseline."""
    family: int = 0
    """Number of comparisons in Holm's correction."""
    notes: Sequence[str] = ()
    about: Sequence[str] = ()
    """The topics, their number, and what counts as relevant."""

    @property
    def elsewhere(self) -> dict[str, str]:
        """System -> the larger collection that it ranks; its values compare with no others."""
        return {
            row.system: row.larger_collection
            for row in self.rows
            if row.larger_collection is not None
        }

    @property
    def title(self) -> str:
        """The query set, and what is ranked if it is documents."""
        return title_of(self.query_set, self.unit)


def title_of(query_set: str, unit: Unit) -> str:
    """The title of a table: runs of documents have one of their own."""
    return query_set if unit == "passages" else f"{query_set}, documents"


def rows_of(
    facts: Mapping[str, Mapping[str, Any]],
    means: Mapping[str, Mapping[str, float]],
    differences: Mapping[str, Mapping[str, Difference]],
    *,
    num_queries: int,
    larger: Mapping[str, str | None] = MappingProxyType({}),
) -> list[Row]:
    """A row for each measured system, in their order.

    Args:
        facts: system -> its entry in summary.json.
        means: system -> measure -> mean.
        differences: system -> measure -> its difference to the baseline.
        num_queries: of the query set.
        larger: system -> the larger collection that it ranks, if it does.
    """

    def a_query(count: int | None) -> float | None:
        return count / num_queries if count is not None and num_queries else None

    return [
        Row(
            name,
            facts[name]["reranks"],
            facts[name]["model"],
            values,
            facts[name]["ms_per_query"],
            facts[name]["start_weights"],
            differences.get(name, {}),
            a_query(facts[name].get("inferences")),
            a_query(facts[name].get("computed")),
            larger.get(name),
        )
        for name, values in means.items()
    ]


def starred(system: str, larger_collection: str | None) -> str:
    """A system's name, with a star if it ranks a larger collection; see `OUTSIDE`."""
    return system if larger_collection is None else f"{system} *"


def render(
    query_set: str,
    rows: Sequence[Row],
    *,
    measures: Sequence[str],
    num_topics: Mapping[str, int],
    baseline: str | None,
    notes: Sequence[str],
) -> Text:
    """The table: measures with n in the header, then differences, then notes."""
    with_n = [f"{measure} (n={num_topics[measure]})" for measure in measures]
    header = ["system", "reranks", "model", *with_n, "ms/query"]
    counted = any(row.inferences is not None for row in rows)
    header += ["inferences/query", "computed/query"] if counted else []
    cells = [
        [starred(row.system, row.larger_collection), row.reranks, row.model]
        + [f"{row.values[measure]:.4f}" for measure in measures]
        + [one_digit(row.ms_per_query)]
        + ([one_digit(row.inferences), one_digit(row.computed)] if counted else [])
        for row in rows
    ]
    parts: list[str | Table] = [f"## {query_set}", "", Table("", header, cells)]
    compared = [row for row in rows if row.differences]
    if baseline is not None and compared:
        parts += ["", f"Difference to {baseline}, with a 95% interval and wins/ties/losses:", ""]
        cells = [
            [
                starred(row.system, row.larger_collection),
                *[_difference(row.differences[measure]) for measure in measures],
            ]
            for row in compared
        ]
        parts.append(Table("", ["system", *measures], cells))
    saw = {row.model: row.start_weights_saw for row in rows if row.start_weights_saw}
    parts += ["", *(f"- {model}: its start weights saw {what}" for model, what in saw.items())]
    return Text([*parts, *map(bullet, notes), ""])


def brief(summary: Mapping[str, Any], query_set: str) -> Text:
    """A table of a query set in summary.json: measures, an interval and the time.

    It has the first measure with its interval, and of the others the second and the last.
    """
    systems, means = summary["systems"][query_set], summary["measures"][query_set]
    differences = summary["differences"].get(query_set, {})
    first, *others = next(iter(means.values()))
    shown = list(dict.fromkeys(others[:1] + others[-1:]))
    (base,) = {*means} - {*differences} if differences else {""}
    rows = []
    for name, values in means.items():
        own = differences.get(name, {}).get(first)
        interval = "" if own is None else "{:+.4f} [{:+.4f}, {:+.4f}]".format(*own)
        cells = [name, f"{values[first]:.4f}", interval]
        cells += [f"{values[measure]:.4f}" for measure in shown]
        rows.append([*cells, one_digit(systems[name]["ms_per_query"])])
    header = ["system", first, f"to {base}, 95% interval" if base else "", *shown, "ms/query"]
    return Text([Table("", header, rows), ""])


def one_digit(value: float | None) -> str:
    """One digit after the point, `-` for what is unknown."""
    return "-" if value is None else f"{value:,.1f}"


def _difference(delta: Difference) -> str:
    return f"{delta.mean:+.4f} [{delta.low:+.4f}, {delta.high:+.4f}] {delta.signs}"


COMPARED = ("difference", "low", "high", "wins", "ties", "losses", "p", "p_holm", "p_t")
"""Columns of CSV for each measure, after its mean."""

OF_LARGER = ("larger_collection", "note")


def markdown(tables: Sequence[Results]) -> Text:
    """The tables as a pipeline prints them."""
    return joined(
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

    Values that are unknown or not compared are empty. If a run ranks a larger collection, the last
    two columns name it and say what follows.
    """
    words = COMPARED if any(row.differences for table in tables for row in table.rows) else ()
    starred = any(table.elsewhere for table in tables)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    first = ["query_set", "unit", "system", "reranks", "model", "start_weights", "topics"]
    costs = ["ms_per_query", "inferences_per_query", "computed_per_query"]
    measures = [
        name
        for measure in tables[0].measures
        for name in (measure, *(f"{measure} {word}" for word in words))
    ]
    writer.writerow([*first, *costs, *measures, *(OF_LARGER if starred else ())])
    for whole in map(_json_table, tables):
        for system in whole["systems"]:
            known = {**whole, **system}
            cells = [known[name] for name in (*first, *costs)]
            for of_measure in system["measures"].values():
                cells += [of_measure["mean"], *(of_measure.get(each) for each in words)]
            if starred:
                larger = system["larger_collection"]
                cells += [None, None] if larger is None else [larger, OUTSIDE.removeprefix("* ")]
            writer.writerow(cells)
    return text.getvalue()


def as_json(tables: Sequence[Results]) -> str:
    """One object with all that is known."""
    body = {"recipe": tables[0].recipe, "tables": [_json_table(table) for table in tables]}
    return json.dumps(body, indent=1) + "\n"


def _json_table(table: Results) -> dict[str, Any]:
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


LEVEL = 0.05
"""Below this p, after Holm's correction, a difference has a mark."""
BETTER, WORSE = r"$^{\dagger}$", r"$^{\ddagger}$"
ELSEWHERE = r"$^{*}$"
_ESCAPES = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': "''",
    "[": "{[}",
    "]": "{]}",
    **{character: f"\\{character}" for character in "&%$#_{}"},
}


def latex(tables: Sequence[Results]) -> str:
    r"""A `table` environment for each; a document needs the package booktabs.

    The best values of a measure are bold: all that are shown as the highest one. A dagger marks a
    system that is significantly better than the baseline, a double dagger one that is worse. The
    caption names the topics, what counts as relevant, what the start weights have seen, the test,
    the correction and the level. Marks take no room, so that digits stay below each other.
    """
    return "\n".join(map(_latex_table, tables))


def escaped(text: str) -> str:
    """The text on one line, control characters written out, with LaTeX's own escaped."""
    return "".join(_ESCAPES.get(each, each) for each in visible(" ".join(text.split())))


def _latex_table(table: Results) -> str:
    counted = any(row.inferences is not None for row in table.rows)
    costs = ["ms/query", *(["inferences/query", "computed/query"] if counted else [])]
    header = ["System", *map(escaped, [*table.measures, *costs])]
    best = _best(table)
    lines = []
    for row in table.rows:
        cells = [escaped(row.system) + (ELSEWHERE if row.system in table.elsewhere else "")]
        bold = {} if row.system in table.elsewhere else best
        cells += [_value(table, row, measure, bold.get(measure)) for measure in table.measures]
        known = [row.ms_per_query, *([row.inferences, row.computed] if counted else [])]
        cells += ["--" if value is None else one_digit(value) for value in known]
        lines.append(cells)
    label = re.sub(r"[^A-Za-z0-9]+", "-", f"{table.recipe}-{table.title}").strip("-").lower()
    body = [f"    {' & '.join(cells)} \\\\" for cells in (header, *lines)]
    return "\n".join(
        [
            r"% needs \usepackage{booktabs}",
            r"\begin{table}",
            r"  \centering",
            f"  \\caption{{{_caption(table)}}}",
            f"  \\label{{tab:{label}}}",
            f"  \\begin{{tabular}}{{l{'r' * (len(header) - 1)}}}",
            r"    \toprule",
            body[0],
            r"    \midrule",
            *body[1:],
            r"    \bottomrule",
            r"  \end{tabular}",
            r"\end{table}",
            "",
        ]
    )


def _best(table: Results) -> dict[str, str]:
    """Measure -> its highest value as shown; none of a count, nor of a share of judged passages."""
    counts = counts_in(table.measures)
    rows = [row for row in table.rows if row.system not in table.elsewhere] or table.rows
    return {
        measure: f"{max(row.values[measure] for row in rows):.4f}"
        for measure in table.measures
        if measure not in counts and not measure.startswith("Judged")
    }


def _value(table: Results, row: Row, measure: str, best: str | None) -> str:
    shown = f"{row.values[measure]:.4f}"
    mark = _mark(table, row, measure)
    number = rf"\textbf{{{shown}}}" if shown == best else shown
    return number + (rf"\rlap{{{mark}}}" if mark else "")


def _mark(table: Results, row: Row, measure: str) -> str:
    compared = table.comparisons.get((row.system, measure))
    if compared is None or compared.difference is None or compared.p_holm is None:
        return ""
    if compared.p_holm >= LEVEL or not compared.difference.mean:
        return ""
    return BETTER if compared.difference.mean > 0 else WORSE


THEN = "; then "
"""Between the data of two trainings, one after the other."""


def _caption(table: Results) -> str:
    facts = "; ".join([*table.about, *_training_data(table)])
    parts = [f"{escaped(table.recipe)} on {escaped(table.title)}: {escaped(facts)}."]
    parts.append("Bold: the highest value of a measure.")
    if table.baseline is not None and table.comparisons:
        parts.append(
            f"{BETTER} and {WORSE}: significantly better and worse than {escaped(table.baseline)} "
            f"(paired two-sided randomisation test over topics, $p < {LEVEL}$ after Holm's "
            f"correction over the {table.family} comparisons of this table)."
        )
    if table.elsewhere:
        where = ", ".join(sorted(set(table.elsewhere.values())))
        parts.append(
            f"{ELSEWHERE}: ranks the larger collection {escaped(where)}, so its values compare "
            "with no others here."
        )
    if any(row.inferences is not None for row in table.rows):
        parts.append(
            "Inferences/query: what a system needs alone; computed/query: those computed for it, "
            "as systems share scores."
        )
    return " ".join(parts)


def _training_data(table: Results) -> list[str]:
    """Notes on the data that the models' start weights saw. Data that several saw is named once."""
    saw = {row.model: row.start_weights_saw for row in table.rows if row.start_weights_saw}
    models: dict[str, list[str]] = {}
    for model, what in saw.items():
        models.setdefault(what.split(THEN)[0], []).append(model)
    lines = []
    for first, names in models.items():
        lines.append(f"the start weights of {' and '.join(names)} saw {first}")
        for name in names:
            later = saw[name].removeprefix(first).removeprefix(THEN)
            lines += [f"those of {name} then {later}"] if later else []
    return lines


def entry(table: Results, row: Row, measure: str) -> dict[str, Any]:
    """The values of one system by one measure, for JSON and CSV: mean, difference and tests.

    A count, such as NumRet, has a difference a query and no test.
    """
    fields: dict[str, Any] = {"mean": row.values[measure]}
    own = row.differences.get(measure)
    if own is None:
        return fields
    fields["difference"] = own.mean
    fields |= {name: getattr(own, name) for name in ("low", "high", "wins", "ties", "losses")}
    compared = table.comparisons.get((row.system, measure))
    if compared is None:
        return fields
    return fields | {
        "p": compared.p_randomisation,
        "p_holm": compared.p_holm,
        "p_t": compared.p_t,
    }


FORMATS: Mapping[str, Callable[[Sequence[Results]], str]] = {
    "md": markdown,
    "csv": as_csv,
    "latex": latex,
    "json": as_json,
}


def in_format(tables: Sequence[Results], name: str) -> str:
    """The tables in one of `FORMATS`, with a line break at the end."""
    return FORMATS[name](tables)
