"""Results tables as LaTeX, with the best values bold and marks of significance, as papers print."""

import re
from collections.abc import Sequence

from raypipe.driver.report.table import Row, one_digit
from raypipe.driver.results.results import Results
from raypipe.evaluation.names import counts_in

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
    return "\n".join(map(_table, tables))


def escaped(text: str) -> str:
    """The text on one line, with LaTeX's own characters escaped."""
    return "".join(_ESCAPES.get(each, each) for each in " ".join(text.split()))


def _table(table: Results) -> str:
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


def _caption(table: Results) -> str:
    saw = {row.model: row.start_weights_saw for row in table.rows if row.start_weights_saw}
    facts = [
        *table.about,
        *(f"the start weights of {model} saw {what}" for model, what in saw.items()),
    ]
    parts = [f"{escaped(table.recipe)} on {escaped(table.title)}: {escaped('; '.join(facts))}."]
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
