"""Runs as files, measures as a table: what an invocation is for."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from raypipe import schema
from raypipe.config import Aggregate, Encode, Recipe, Score, Search
from raypipe.data.qrels import read_qrels
from raypipe.driver.recipe.chain import Chain
from raypipe.driver.recipe.execute import StageResult
from raypipe.driver.recipe.graph import Graph, Runs
from raypipe.driver.report.table import Row, render
from raypipe.driver.workspace import Workspace
from raypipe.evaluation.difference import difference
from raypipe.evaluation.exports import write_msmarco, write_trec
from raypipe.evaluation.measures import Measured, evaluate
from raypipe.models.folder.loading import starting_weights
from raypipe.names import Role, StoreName
from raypipe.stages.run_tables import with_ids
from raypipe.storage.files import replace_file

log = logging.getLogger(__name__)


@dataclass
class Measurement:
    """What summary.json and table.md say of the runs."""

    systems: dict[str, dict[str, Any]] = field(default_factory=dict)
    means: dict[str, dict[str, dict[str, float]]] = field(default_factory=dict)
    table: str = ""


def measure(
    recipe: Recipe,
    workspace: Workspace,
    graph: Graph,
    runs: Mapping[str, Runs],
    results: Mapping[StoreName, StageResult],
) -> Measurement:
    """Writes runs/SET/SYSTEM.trec and .tsv, measures/SET.tsv and table.md; returns their summary.

    A query set without judgements is ranked and not measured.
    """
    found = Measurement()
    blocks = []
    for query_set, of_set in runs.items():
        if not of_set.stored:
            continue
        tables = _write_runs(workspace, graph, query_set, of_set)
        num_queries = graph.queries(query_set).num_rows
        times = {name: _ms(of_set.chain[name], results, num_queries) for name in tables}
        counts = {name: _inferences(of_set.chain[name], results) for name in tables}
        inferences = {name: count for name, count in counts.items() if count is not None}
        for name in tables:
            found.systems[name] = {
                "reranks": of_set.reranks[name],
                "model": of_set.model[name],
                "ms_per_query": times[name],
            }
            if name in inferences:
                found.systems[name]["inferences"] = inferences[name]
        qrels = recipe.queries[query_set].qrels
        if recipe.evaluate is None or qrels is None:
            continue
        judged = read_qrels(Path(qrels))
        measured = {
            name: evaluate(table, judged, recipe.evaluate.measures)
            for name, table in tables.items()
        }
        _write_measures(workspace.folder / "measures" / f"{query_set}.tsv", measured)
        found.means[query_set] = {name: dict(m.mean) for name, m in measured.items()}
        blocks.append(_block(recipe, graph, query_set, of_set, measured, times, inferences))
    if blocks:
        found.table = "\n".join(blocks)
        replace_file(workspace.folder / "table.md", found.table.encode())
    return found


def _write_runs(
    workspace: Workspace, graph: Graph, query_set: str, of_set: Runs
) -> dict[str, pa.Table]:
    queries = graph.queries(query_set).table(schema.QUERIES)
    folder = workspace.folder / "runs" / query_set
    folder.mkdir(parents=True, exist_ok=True)
    tables = {}
    for name, stored in of_set.stored.items():
        tables[name] = with_ids(stored.whole_table(schema.RUN), queries, graph.collection())
        write_trec(tables[name], folder / f"{name}.trec", tag=name)
        write_msmarco(tables[name], folder / f"{name}.tsv")
    return tables


def _write_measures(path: Path, measured: Mapping[str, Measured]) -> None:
    lines = ["query_id\tsystem\tmeasure\tvalue\n"]
    for system, of_system in measured.items():
        for name, values in of_system.per_query.items():
            lines += [f"{query}\t{system}\t{name}\t{value!r}\n" for query, value in values.items()]
    replace_file(path, "".join(lines).encode())


def _block(
    recipe: Recipe,
    graph: Graph,
    query_set: str,
    of_set: Runs,
    measured: Mapping[str, Measured],
    times: Mapping[str, float | None],
    inferences: Mapping[str, int],
) -> str:
    assert recipe.evaluate is not None
    baseline = recipe.evaluate.baseline
    names = recipe.evaluate.measures
    rows = []
    for system, of_system in measured.items():
        compared = {}
        if baseline is not None and baseline in measured and system != baseline:
            base = measured[baseline].per_query
            compared = {m: difference(of_system.per_query[m], base[m]) for m in names}
        row = Row(
            system=system,
            reranks=of_set.reranks[system],
            model=of_set.model[system],
            values=of_system.mean,
            ms_per_query=times[system],
            start_weights_saw=_saw(recipe, graph, system),
            differences=compared,
        )
        rows.append(row)
    first = next(iter(measured.values()))
    return render(
        query_set,
        rows,
        measures=names,
        num_topics=first.num_topics,
        baseline=baseline,
        notes=_notes(recipe, graph, query_set, measured, inferences),
    )


def _notes(
    recipe: Recipe,
    graph: Graph,
    query_set: str,
    measured: Mapping[str, Measured],
    inferences: Mapping[str, int],
) -> list[str]:
    assert recipe.evaluate is not None
    notes = []
    if recipe.evaluate.topics:
        notes.append(f"topics: {recipe.evaluate.topics}")
    if recipe.evaluate.relevance:
        notes.append(f"relevant: {recipe.evaluate.relevance}")
    num_passages = graph.collection().num_rows
    notes.append(f"{num_passages:,} passages, {graph.queries(query_set).num_rows:,} queries")
    counted = [(system, inferences[system]) for system in measured if system in inferences]
    notes += [f"{system}: {count:,} inferences" for system, count in counted]
    notes.append("ms/query: wall time of the whole chain over all queries, loading excluded")
    for system, of_system in measured.items():
        if of_system.missing_queries:
            missing = len(of_system.missing_queries)
            notes.append(f"{system}: {missing} judged queries without a result; each counts 0")
    return notes


def _saw(recipe: Recipe, graph: Graph, system: str) -> str:
    stage = recipe.stages[system]
    if isinstance(stage, Search):
        encode = recipe.stages[stage.index]
        if isinstance(encode, Encode):
            return starting_weights(graph.model(encode.model))
    if isinstance(stage, Aggregate):
        stage = recipe.stages[stage.pairs]
    if isinstance(stage, Score):
        return starting_weights(graph.model(stage.model))
    return ""


def _inferences(chain: Chain, results: Mapping[StoreName, StageResult]) -> int | None:
    """Candidates that rerankers evaluated for a system; None where there is none, or where
    another request's scores were used."""
    scores = [results[store].num_rows for store in chain.stores if store.role is Role.SCORES]
    return sum(scores) if scores and not chain.held else None


def _ms(chain: Chain, results: Mapping[StoreName, StageResult], num_queries: int) -> float | None:
    """Milliseconds a query over the stores of a chain; None where a time is not known."""
    if chain.held:
        return None
    seconds = [results[s].working_seconds if s in results else None for s in chain.stores]
    known = [s for s in seconds if s is not None]
    if not known or len(known) < len(seconds) or not num_queries:
        return None
    return round(1000 * sum(known) / num_queries, 2)
