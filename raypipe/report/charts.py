"""Charts as SVG for a page: text stays text, and its colour is the page's."""

import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7F7F7F", "#8C564B")
"""Told apart on light and dark ground, and by most who are colour-blind (Okabe and Ito)."""
MARKERS = "osD^vPX*"
STYLES = ("-", "--", "-.", ":")
"""With the markers, for more lines than colours."""
MOST_MARKED = 50
"""Points of a line that has marks; more would hide each other."""
LEGEND_COLUMNS = 3
"""Columns of the legend, which is below the axes, where it hides no point."""
LEAST_SPAN = 0.05
"""Least span of values on the vertical axis."""
INCHES = (5.5, 3.3)
"""Width and height of a picture; narrow, so that its words can be read on a phone."""
NEAREST = 1.3
"""The least ratio of two labelled values on an axis of powers."""
_INK = "#010203"
"""In the place of the page's colour until the picture is drawn."""


@dataclass(frozen=True, slots=True)
class Chart:
    """Lines over a common axis."""

    title: str
    x: str
    y: str
    lines: Mapping[str, Sequence[tuple[float, float]]]
    """Name -> points in the order of x."""
    log_x: bool = False
    intervals: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """Name -> the interval around its only point; the names are then beside the vertical axis, and
    a name without an interval is the value that the others are compared with."""

    @property
    def has_points(self) -> bool:
        """Whether there is anything to draw."""
        return any(self.lines.values())


def svg(chart: Chart, places: Mapping[str, int] = MappingProxyType({})) -> str:
    """An <svg> element, the same bytes for the same chart; its width follows the page's.

    `places` has the place of a line's name among the colours, if it is not its place in the chart.
    """
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    settings: Any = {
        "svg.fonttype": "none",
        "svg.hashsalt": repr(chart),  # names within the picture differ from those of others
        "font.family": "sans-serif",
        "font.size": 10,
        **dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor"), _INK),
        **dict.fromkeys(("xtick.color", "ytick.color"), _INK),
    }
    with matplotlib.rc_context():
        matplotlib.rcdefaults()  # not a `matplotlibrc` of the current folder, or of the user's
        matplotlib.rcParams.update(settings)
        width, height = INCHES
        rows = [*chart.lines] if chart.intervals else []
        figure = Figure((width, 0.8 + len(rows) / 5 if rows else height), layout="constrained")
        FigureCanvasSVG(figure)
        axes = figure.add_subplot()
        for number, (name, points) in enumerate(chart.lines.items()):
            again, place = divmod(places.get(name, number), len(COLOURS))
            colour, marker = COLOURS[place], MARKERS[again % len(MARKERS)]
            xs, ys = [x for x, _ in points], [y for _, y in points]
            size = 4 if len(points) <= MOST_MARKED else 0
            style = STYLES[again % len(STYLES)]
            axes.plot(xs, ys, style, marker=marker, markersize=size, color=colour, label=name)
            if name in chart.intervals:
                axes.plot(chart.intervals[name], ys * 2, color=colour)
            elif rows:
                axes.axvline(xs[0], color=colour, alpha=0.5)
        axes.set(xlabel=chart.x, ylabel=chart.y)
        low, high = axes.get_ylim()
        if high - low < LEAST_SPAN:  # a small difference is not to look like a large one
            middle = (low + high) / 2
            axes.set_ylim(middle - LEAST_SPAN / 2, middle + LEAST_SPAN / 2)
        if chart.log_x:
            axes.set_xscale("log")
            _ticks(axes, sorted({x for points in chart.lines.values() for x, _ in points}))
        axes.grid(visible=True, alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
        if rows:
            axes.set_yticks([y for ((_, y),) in chart.lines.values()], rows)
            axes.set_ylim(len(rows) - 0.5, -0.5)
        elif chart.lines:
            columns = min(len(chart.lines), LEGEND_COLUMNS)
            figure.legend(loc="outside lower center", frameon=False, fontsize=9, ncols=columns)
        drawn = io.StringIO()
        figure.savefig(drawn, format="svg", transparent=True, metadata={"Date": None})
    text = drawn.getvalue()
    used = set(re.findall(r'(?:href="|url\()#([^")]+)', text))
    text = re.sub(r' id="([^"]+)"', lambda at: at[0] if at[1] in used else "", text)
    text = text[text.index("<svg") :].replace(_INK, "currentColor")
    return re.sub(r' (?:width|height)="[^"]+pt"', "", text, count=2)


def _ticks(axes: Any, values: Sequence[float]) -> None:
    """The values themselves, thinned to a dozen that do not touch, not powers of ten."""
    apart: list[float] = []
    for value in values:
        if not apart or value >= NEAREST * apart[-1]:
            apart.append(value)
    shown = apart[:: -(-len(apart) // 12)]
    axes.set_xticks(shown, [f"{value:,.0f}" for value in shown])
    axes.minorticks_off()
