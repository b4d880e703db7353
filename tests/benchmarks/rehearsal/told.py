"""What a rehearsal took, as tables, and what one of another size would take."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import yaml

from raypipe.markdown import markdown_table
from raypipe.storage.files import append_line
from rehearsal.made import Size
from rehearsal.watched import Watched

FIGURES = "figures.jsonl"
"""An invocation a line."""


def keep(folder: Path, group: str, watched: Watched, disk_bytes: int) -> None:
    """Append the figures of an invocation, with the stages that it computed."""
    file = folder / "workspace" / "summary.json"
    summary = json.loads(file.read_bytes()) if file.exists() else {}
    stages = {
        name: {key: stage[key] for key in ("seconds", "rows")}
        for name, stage in summary.get("stages", {}).items()
        if not stage["reused"]
    }
    line = {"group": group, "disk_bytes": disk_bytes, "stages": stages, **asdict(watched)}
    append_line(folder / FIGURES, json.dumps(line).encode())


def kept(folder: Path) -> list[dict[str, Any]]:
    """The figures of all invocations, in order; a line that a crash tore is left out."""
    if not (folder / FIGURES).exists():
        return []
    found = []
    for line in (folder / FIGURES).read_text().splitlines():
        try:
            found.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return found


def told(folder: Path, size: Size, groups: Sequence[str]) -> str:
    """Two Markdown tables, of invocations and of stages, and a last line.

    It has the total, or, until all `groups` are complete, those that are not.
    """
    invocations = kept(folder)
    by_group = [
        (
            one["group"],
            str(one["exit_code"]),
            f"{one['seconds']:,.0f}",
            f"{one['cpu_seconds']:,.0f}",
            f"{one['peak_bytes'] / (1 << 20):,.0f}",
            f"{one['disk_bytes'] / 1e9:.2f}",
        )
        for one in invocations
    ]
    seconds, full = _seconds(invocations), Size()
    factors = factors_of(folder / "rehearsal.yaml", seconds, size, full)
    by_stage = [
        (name, f"{rows:,}", f"{spent:,.1f}", _rate(rows, spent), f"{spent * factors[name]:,.0f}")
        for name, (rows, spent) in seconds.items()
    ]
    total = sum(one["seconds"] for one in invocations)
    outside = total - sum(spent for _, spent in seconds.values())
    whole = outside + sum(spent * factors[name] for name, (_, spent) in seconds.items())
    complete = {one["group"] for one in invocations if one["exit_code"] == 0}
    missing = [group for group in groups if group not in complete]
    return "\n".join(
        [
            f"{size.passages:,} passages, {size.queries:,} queries",
            "",
            *markdown_table(
                ["until", "exit", "seconds", "CPU seconds", "peak MiB of a process", "disk GB"],
                by_group,
            ),
            "",
            *markdown_table(
                ["store", "rows", "seconds", "rows/s", f"seconds at {full.passages:,}"],
                by_stage,
            ),
            "",
            f"{total / 60:.1f} minutes so far; not complete: {', '.join(missing)}"
            if missing
            else f"{total / 60:.1f} minutes in all; at {full.passages:,} passages and "
            f"{full.queries:,} queries, {whole / 60:.0f} by these rates",
        ]
    )


def factors_of(recipe: Path, names: Collection[str], size: Size, full: Size) -> dict[str, float]:
    """By how much each store's time grows: with passages, queries, or their product.

    A dense search multiplies in its parts; what follows merges lists, as many as there are queries.
    So does BM25's time: Lucene passes over passages that cannot be among the best, and answered as
    many queries a second from 8,841,823 passages as from 1,000,000.
    """
    stages = yaml.safe_load(recipe.read_text())["stages"]
    passages, queries = full.passages / size.passages, full.queries / size.queries
    found = {}
    for name in names:
        owner, _, of_queries = name.partition(".")
        do = stages.get(owner, {}).get("do")
        if owner.startswith("parts@"):
            found[name] = passages * queries
        elif do in ("index", "encode") or owner.startswith("tokens@"):
            found[name] = queries if of_queries else passages
        else:
            found[name] = passages if name.endswith("@collection") else queries
    return found


def _seconds(invocations: Sequence[Mapping[str, Any]]) -> dict[str, tuple[int, float]]:
    """Rows and seconds of each store, over the invocations that computed a part of it."""
    found: dict[str, tuple[int, float]] = {}
    for one in invocations:
        for name, stage in one["stages"].items():
            found[name] = (stage["rows"], found.get(name, (0, 0.0))[1] + stage["seconds"])
    return found


def _rate(rows: int, seconds: float) -> str:
    return f"{rows / seconds:,.0f}" if seconds else "-"
