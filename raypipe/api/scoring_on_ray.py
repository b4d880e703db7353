"""Scores the candidates of a run on the workers of an opened Ray."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from raypipe import schema
from raypipe.api.invocation import run
from raypipe.driver.verbs.single_stage import MODEL, model_of
from raypipe.names import of_stage
from raypipe.ranking.candidates import Keys

if TYPE_CHECKING:
    from raypipe.api.opened.ray import Ray

SET, GIVEN, SCORED = "given", "run", "scored"
"""The names of the query set and of the two stages."""


def score_on_ray(
    ray: "Ray",
    lines: pa.Table,
    queries: Sequence[str],
    passages: Sequence[str],
    *,
    model: str,
    kind: str,
    k: int,
    preset: str | None,
    settings: Mapping[str, str] | None,
    resources: dict[str, Any],
) -> tuple[Keys, NDArray[np.float32]]:
    """Each query's first k candidates, or their pairs, sorted, and their scores.

    A recipe of one `score` stage computes them in a workspace that is then deleted.

    Args:
        ray: where its workers are.
        lines: schema.RUN, with rows of `queries` and `passages`.
        queries: texts.
        passages: texts; those of no line are not written.
        model: as given by the user.
        kind: mono or duo.
        k: number of candidates.
        preset: settings by name, or None.
        settings: keys that override them, or None.
        resources: device and precision.

    Raises:
        RaypipeError: whatever ended the invocation.
    """
    sides = [lines[name].to_numpy() for name in ("query_row", "passage_row")]
    (asked, query_rows), (answers, rows) = (np.unique(s, return_inverse=True) for s in sides)
    named = {"query_id": query_rows, "passage_id": rows}
    columns = [pa.array(places).cast(pa.string()) for places in named.values()]
    table = pa.table([*columns, lines["rank"], lines["score"]], schema=schema.RUN_FILE)
    with TemporaryDirectory(prefix="raypipe-", dir=ray.folder) as made:
        folder = Path(made)
        pq.write_table(table, folder / "run.parquet")
        _write(folder / "queries.parquet", schema.QUERIES, [queries[row] for row in asked])
        _write(folder / "passages.parquet", schema.PASSAGES, [passages[row] for row in answers])
        scored: dict[str, Any] = {"do": "score", "run": GIVEN, "model": MODEL}
        scored |= {"k1": k} if kind == "duo" else {"k0": k, "tail": "drop", "blend": 0}
        recipe = {
            "format": 1,
            "name": "scores",
            "collection": {"format": "parquet", "input": str(folder / "passages.parquet")},
            "queries": {SET: {"file": str(folder / "queries.parquet")}},
            "models": {MODEL: {**model_of(model, preset)[MODEL], "settings": {**(settings or {})}}},
            "stages": {
                GIVEN: {"do": "read", "runs": {SET: str(folder / "run.parquet")}},
                SCORED: scored,
            },
            "resources": resources,
        }
        invocation = run(recipe, folder / "work", ray=ray)
        store = invocation.store(of_stage(SCORED, SET))
        found = store.whole_table(schema.SCORES if kind == "duo" else schema.RUN)
    query_rows, rows = (found[name].to_numpy() for name in ("query_row", "passage_row"))
    others = found["other_row"].to_numpy() if kind == "duo" else np.full(len(rows), -1, np.int64)
    order = np.lexsort((others, rows, query_rows))
    keys = asked[query_rows[order]], answers[rows[order]], others[order]
    if kind == "duo":
        keys = (*keys[:2], answers[keys[2]])
    return keys, found["score"].to_numpy()[order]


def _write(path: Path, names: pa.Schema, texts: list[str]) -> None:
    ids = [str(place) for place in range(len(texts))]
    pq.write_table(pa.table([ids, texts], schema=names), path)
