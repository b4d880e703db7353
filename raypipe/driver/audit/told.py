"""What an audit says below the tables of an invocation."""

from collections.abc import Sequence

from raypipe.driver.audit.figures import Figures
from raypipe.evaluation.paired import Difference
from raypipe.markdown import bullet, markdown_table

METHOD = (
    "each stage's scores computed again in fp32, its inputs as they were: whole queries, evenly "
    "spaced, at most resources.audit_queries of them and resources.audit_inputs inputs a stage; "
    "vectors are stored as fp16 in every precision"
)
DIFFERENCE = "differences are those to fp32 over the judged queries, with a 95% interval"


def audit_table(query_set: str, found: Sequence[Figures], measures: Sequence[str]) -> str:
    """The audit of a query set as Markdown; empty if no stage computed in less than fp32."""
    if not found:
        return ""
    done = [one for one in found if one.found is not None]
    blocks = [f"## {query_set}, precision", ""]
    if done:
        shown = [name for name in measures if any(name in one.measures for one in done)]
        header = ["stage", "precision", "queries", "scores", "largest difference"]
        header += ["Kendall tau", *shown]
        blocks += [*markdown_table(header, [_row(one, shown) for one in done]), ""]
        notes = [METHOD, *map(_covered, done), *map(_lacking, done)]
        notes += [DIFFERENCE] if shown else []
        blocks += [bullet(note) for note in notes if note]
    blocks += [
        bullet(f"{one.stage}: {one.precision}, not compared with fp32, as {one.why}")
        for one in found
        if one.found is None
    ]
    return "\n".join(blocks) + "\n"


def _row(one: Figures, measures: Sequence[str]) -> list[str]:
    assert one.found is not None
    tau = one.found.tau
    return [
        one.stage,
        one.precision,
        f"{one.found.queries:,} of {one.of_queries:,}",
        f"{one.found.scores:,}",
        f"{one.found.largest:.1e}",
        "-" if tau is None else f"{tau:.4f}",
        *(_difference(one.measures.get(name)) for name in measures),
    ]


def _covered(one: Figures) -> str:
    if one.first is None:
        return ""
    return (
        f"{one.stage}: the first {one.first:,} passages of each query; those below were not "
        "computed again, so none of them can rise"
    )


def _lacking(one: Figures) -> str:
    assert one.found is not None
    if not one.found.lacking:
        return ""
    return f"{one.stage}: {one.found.lacking:,} scores are finite in only one of the two"


def _difference(found: Difference | None) -> str:
    return "-" if found is None else f"{found.mean:+.4f} [{found.low:+.4f}, {found.high:+.4f}]"
