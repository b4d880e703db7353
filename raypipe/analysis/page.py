"""Sections as one HTML page that needs nothing else: no script, no request, light and dark."""

import html
import math
from collections.abc import Mapping, Sequence
from itertools import starmap

from raypipe.analysis.drawing import svg
from raypipe.analysis.plain import plain
from raypipe.analysis.section import Section, Table, Value, shown

STYLE = """
:root { color-scheme: light dark; --ground: #fff; --ink: #1b1b1b; --soft: #5c5c5c;
  --line: #8884; --card: #f4f5f7; --shade: #0006; }
@media (prefers-color-scheme: dark) {
  :root { --ground: #161616; --ink: #e6e6e6; --soft: #a6a6a6; --card: #232425; --shade: #fff5; } }
body { background: var(--ground); color: var(--ink); font: 16px/1.5 system-ui, sans-serif;
  margin: 0 auto; max-width: 72rem; overflow-wrap: break-word; padding: 1rem; }
h1 { font-size: 1.5rem; margin: .5rem 0; } h2 { font-size: 1.25rem; margin-top: 2.5rem; }
h3 { font-size: 1rem; } nav a { display: inline-block; margin-right: 1rem; } a { color: inherit; }
section:first-of-type h2 { margin-top: 1rem; }
p.lead { font-size: 1.125rem; font-weight: 600; }
dl.facts { display: grid; gap: .5rem;
  grid-template-columns: repeat(auto-fill, minmax(10rem, 1fr)); }
dl.facts div { background: var(--card); border-radius: .4rem; padding: .5rem .75rem; }
dl.facts div.long { grid-column: 1 / -1; }
dl.facts dt { color: var(--soft); font-size: .8125rem; } dl.facts dd { margin: 0; }
.wide { overflow-x: auto; scrollbar-width: thin; background:
  linear-gradient(90deg, var(--ground) 40%, transparent) 0 / 4rem 100% no-repeat local,
  linear-gradient(-90deg, var(--ground) 40%, transparent) 100% / 4rem 100% no-repeat local,
  linear-gradient(90deg, var(--shade), transparent) 0 / 1rem 100% no-repeat,
  linear-gradient(-90deg, var(--shade), transparent) 100% / 1rem 100% no-repeat; }
table { border-collapse: collapse; font-size: .875rem; }
caption { caption-side: top; font-weight: 600; padding: 1rem 0 .25rem; text-align: left; }
th, td { border-bottom: 1px solid var(--line); max-width: 26rem; padding: .25rem .6rem;
  text-align: left; vertical-align: top; }
th:first-child, td:first-child { padding-left: 0; }
th { color: var(--soft); font-weight: 600; vertical-align: bottom; }
td.number, th.number { font-variant-numeric: tabular-nums; text-align: right; }
td.number, td.short { white-space: nowrap; } td.long { min-width: 16rem; }
td.text { min-width: 8rem; overflow-wrap: anywhere; }
div.figures { display: grid; gap: 1.5rem;
  grid-template-columns: repeat(auto-fit, minmax(min(30rem, 100%), 1fr)); margin: 1.5rem 0; }
figure { margin: 0; } figcaption { font-weight: 600; }
svg { display: block; max-width: 36rem; width: 100%; }
pre { background: var(--card); font-size: .8125rem; overflow-x: auto; padding: 1rem; }
ul.notes { color: var(--soft); font-size: .875rem; padding-left: 1.25rem; }
@media print {
  :root { --ground: #fff; --ink: #000; --soft: #444; --card: #f4f5f7; }
  @page { margin: 12mm; size: A4 landscape; }
  body { font-size: 10pt; max-width: none; padding: 0; } nav { display: none; }
  .wide, pre { overflow: visible; } pre { white-space: pre-wrap; }
  table, ul.notes { font-size: 7.5pt; }
  td.long, td.text { min-width: 0; } td.short { white-space: normal; }
  th, td { padding: .15rem .35rem; } svg { max-width: 16cm; }
  figure, tr, dl.facts div { break-inside: avoid; } h2, h3, caption { break-after: avoid; } }
"""
SHORT, LONG = 20, 60
"""Characters of a cell that stands on one line, and of a cell or fact that is given more room."""


def page(title: str, sections: Sequence[Section]) -> str:
    """The page; every number in its tables is a value of a section, as `shown` writes it.

    A line's name, such as a system's, has one colour and marker in all charts.
    """
    charts = [chart for section in sections for chart in section.charts]
    names = dict.fromkeys(name for chart in charts for name in chart.lines)
    places = {name: place for place, name in enumerate(names)}
    links = "".join(f'<a href="#s{n}">{_heading(s)}</a>' for n, s in enumerate(sections))
    parts = "".join(_section(f"s{n}", section, places) for n, section in enumerate(sections))
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{html.escape(title)}</title><style>{STYLE}</style></head>\n"
        f"<body><h1>{html.escape(title)}</h1>\n<nav>{links}</nav>\n{parts}</body></html>\n"
    )


def _heading(section: Section) -> str:
    parts = (section.name, section.query_set)
    return html.escape(plain(": ".join(part for part in parts if part)))


def _section(anchor: str, section: Section, places: Mapping[str, int]) -> str:
    notes = "".join(f"<li>{html.escape(note)}</li>" for note in section.notes)
    figures = "".join(
        f"<figure><figcaption>{html.escape(chart.title)}</figcaption>{svg(chart, places)}</figure>"
        for chart in section.charts
        if any(chart.lines.values())
    )
    texts = "".join(
        f"<details><summary>{html.escape(name)}</summary><pre>{html.escape(text)}</pre></details>"
        for name, text in section.texts.items()
    )
    facts = "".join(starmap(_fact, section.facts.items()))
    return (
        f'<section id="{anchor}"><h2>{_heading(section)}</h2>\n'
        + (f'<p class="lead">{html.escape(plain(section.lead))}</p>\n' if section.lead else "")
        + (f'<div class="figures">{figures}</div>\n' if figures else "")
        + (f'<dl class="facts">{facts}</dl>\n' if facts else "")
        + "".join(map(_table, section.tables))
        + texts
        + (f'<ul class="notes">{notes}</ul>' if notes else "")
        + "</section>\n"
    )


def _fact(name: str, value: Value) -> str:
    text = shown(value, name)
    room = _LONG if len(text) > LONG else ""
    return f"<div{room}><dt>{html.escape(name)}</dt><dd>{html.escape(text)}</dd></div>"


def _table(table: Table) -> str:
    of_numbers = [
        any(isinstance(row[place], int | float) for row in table.rows)
        for place in range(len(table.columns))
    ]
    head = "".join(
        f"<th{_NUMBER if numbers else ''}>{html.escape(column)}</th>"
        for column, numbers in zip(table.columns, of_numbers, strict=True)
    )
    rows = "".join(f"<tr>{''.join(map(_cell, row, table.columns))}</tr>" for row in table.rows)
    return (
        f'<div class="wide"><table><caption>{html.escape(plain(table.title))}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>\n"
    )


_ROOMS = ("number", "short", "text", "long")
_NUMBER, _SHORT, _TEXT, _LONG = (f' class="{room}"' for room in _ROOMS)


def _cell(value: Value, column: str) -> str:
    if isinstance(value, str):
        value = plain(value)
        room = _LONG if len(value) > LONG else _SHORT if len(value) <= SHORT else _TEXT
        return f"<td{room}>{html.escape(value)}</td>"
    if isinstance(value, float) and not math.isfinite(value):
        return f"<td{_NUMBER}>-</td>"
    return f"<td{_NUMBER}>{html.escape(shown(value, column))}</td>"
