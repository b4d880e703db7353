"""Sections as one HTML page that needs nothing else: no script, no request, light and dark."""

import html
import math
from collections.abc import Sequence

from raypipe.analysis.drawing import svg
from raypipe.analysis.section import Section, Table, Value, shown

STYLE = """
:root { color-scheme: light dark; --ground: #fff; --ink: #1b1b1b; --soft: #6668; --line: #8884; }
@media (prefers-color-scheme: dark) { :root { --ground: #161616; --ink: #e6e6e6; } }
body { background: var(--ground); color: var(--ink); font: 16px/1.5 system-ui, sans-serif;
  margin: 0 auto; max-width: 72rem; padding: 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.25rem; margin-top: 2.5rem; } h3 { font-size: 1rem; }
nav a { margin-right: 1rem; } a { color: inherit; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .875rem; }
caption { caption-side: top; font-weight: 600; padding: .5rem 0; text-align: left; }
th, td { border-bottom: 1px solid var(--line); padding: .25rem .6rem; text-align: left;
  vertical-align: top; }
td.number { font-variant-numeric: tabular-nums; text-align: right; white-space: nowrap; }
figure { margin: 1.5rem 0; } figcaption { font-weight: 600; }
svg { height: auto; max-width: 44rem; width: 100%; }
p.lead { font-size: 1.125rem; font-weight: 600; }
pre { border: 1px solid var(--line); overflow-x: auto; padding: 1rem; }
ul.notes { color: inherit; font-size: .875rem; opacity: .85; }
@media print { nav { display: none; } .wide { overflow: visible; } h2 { break-before: page; } }
"""


def page(title: str, sections: Sequence[Section]) -> str:
    """The page; every number in its tables is a value of a section, as `shown` writes it."""
    links = "".join(f'<a href="#s{n}">{_heading(s)}</a>' for n, s in enumerate(sections))
    parts = "".join(_section(f"s{n}", section) for n, section in enumerate(sections))
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{html.escape(title)}</title><style>{STYLE}</style></head>\n"
        f"<body><h1>{html.escape(title)}</h1>\n<nav>{links}</nav>\n{parts}</body></html>\n"
    )


def _heading(section: Section) -> str:
    return html.escape(": ".join(part for part in (section.name, section.query_set) if part))


def _section(anchor: str, section: Section) -> str:
    notes = "".join(f"<li>{html.escape(note)}</li>" for note in section.notes)
    figures = "".join(
        f"<figure><figcaption>{html.escape(chart.title)}</figcaption>{svg(chart)}</figure>"
        for chart in section.charts
        if any(chart.lines.values())
    )
    texts = "".join(
        f"<h3>{html.escape(name)}</h3><pre>{html.escape(text)}</pre>"
        for name, text in section.values.items()
        if isinstance(text, str)
    )
    return (
        f'<section id="{anchor}"><h2>{_heading(section)}</h2>\n'
        + (f'<p class="lead">{html.escape(section.lead)}</p>\n' if section.lead else "")
        + "".join(map(_table, section.tables))
        + figures
        + texts
        + (f'<ul class="notes">{notes}</ul>' if notes else "")
        + "</section>\n"
    )


def _table(table: Table) -> str:
    head = "".join(f"<th>{html.escape(column)}</th>" for column in table.columns)
    rows = "".join(f"<tr>{''.join(map(_cell, row, table.columns))}</tr>" for row in table.rows)
    return (
        f'<div class="wide"><table><caption>{html.escape(table.title)}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>\n"
    )


def _cell(value: Value, column: str) -> str:
    if isinstance(value, str):
        return f"<td>{html.escape(value)}</td>"
    if isinstance(value, float) and not math.isfinite(value):
        return '<td class="number">-</td>'
    return f'<td class="number">{html.escape(shown(value, column))}</td>'
