"""Writes the runs and their measures, and says what each system cost."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from raypipe import schema
from raypipe.config.parts import RUN_ENDINGS, Collection, Evaluate
from raypipe.config.recipe import larger_collections
from raypipe.config.resolved import resolved_yaml
from raypipe.driver.execute import Completed, StoreCost, read_cost
from raypipe.driver.recipe.fit import excluded_line, fit_in_stores
from raypipe.driver.recipe.graph import Chain, Graph, ScoreRequest, System
from raypipe.driver.workspace import Workspace
from raypipe.markdown import Text, joined, read_markdown
from raypipe.names import Role, StoreName
from raypipe.package import package_sha256
from raypipe.storage.records import hash_file
from raypipe.vocabulary import Unit, units

if TYPE_CHECKING:
    from raypipe.evaluation.measures import Measured
    from raypipe.evaluation.significance import Difference

BLOCK = 1000
"""Queries whose candidates are held in memory at once."""


def inferences(
    systems: Sequence[System],
    results: Mapping[StoreName, Completed],
    costs: Mapping[StoreName, StoreCost],
) -> dict[str, dict[str, int]]:
    """The inferences of the systems of one table in which rerankers have a part, by name.

    `inferences` are those that the system's chain asks for, each candidate once: its cost if it
    were the only system. Of them `computed` were computed for it, beyond what earlier systems had,
    and the scores of `copied` were there in an older store.

    A store of scores counts for the first system that has it in its chain, so the computed and the
    copied ones of all systems add up to the rows of these stores. What an invocation copied before
    it was interrupted counts as computed. Runs of documents have a table of their own: there, the
    scores of their passages count for the first of them.
    """
    counts = {}
    numbers: dict[tuple[ScoreRequest, ...], int] = {}
    counted: set[StoreName] = set()
    for system in systems:
        chain = system.chain
        if not chain.asked:
            continue
        total = 0
        for asked in _by_table(chain.asked):
            if asked not in numbers:
                numbers[asked] = _number(asked)
            total += numbers[asked]
        new = [s for s in chain.stores if s.role is Role.SCORES and s not in counted]
        counted.update(new)
        rows = sum(results[store].num_rows for store in new)
        copied = min(rows, sum(costs[store].num_copied for store in new))
        counts[system.name] = {"inferences": total, "computed": rows - copied, "copied": copied}
    return counts


def _by_table(asked: Sequence[ScoreRequest]) -> list[tuple[ScoreRequest, ...]]:
    """The requests of each table of scores together: they may have candidates in common."""
    tables: dict[str, tuple[ScoreRequest, ...]] = {}
    for each in asked:
        tables[each.table] = (*tables.get(each.table, ()), each)
    return list(tables.values())


def _number(requests: tuple[ScoreRequest, ...]) -> int:
    """The number of different candidates that some of the requests ask for."""
    from raypipe.ranking.order import begins
    from raypipe.stages.run_tables import read_queries_of_run

    if len(requests) == 1:
        return requests[0].request.num_keys(requests[0].run.whole_table(schema.RUN))
    total = 0
    for start in range(0, max(each.run.num_rows for each in requests), BLOCK):
        keys = [
            each.request.keys(read_queries_of_run(each.run, start, start + BLOCK))
            for each in requests
        ]
        columns = [np.concatenate(parts) for parts in zip(*keys, strict=True)]
        order = np.lexsort(columns)
        total += int(begins(*(column[order] for column in columns)).sum())
    return total


def of_wikipedia(collection: Collection) -> list[str]:
    """The note of a collection whose passages are Wikipedia's."""
    if collection.format not in ("trec-car", "trec-car-tools"):
        return []
    return [
        "the passages are Wikipedia's: start weights that saw all of it, as BERT's own, saw the "
        "test's pages; Nogueira & Cho 2019 pre-trained on the half of TREC CAR's training folds "
        "alone"
    ]


def apart_of(
    wanted: Evaluate, larger: Mapping[str, str | None], measured: Iterable[str]
) -> list[str]:
    """The systems that rank another collection than the baseline: what differs is not theirs."""
    baseline = wanted.baseline
    return [name for name in measured if baseline and larger[name] != larger[baseline]]


def notes_of(
    graph: Graph,
    wanted: Evaluate,
    query_set: str,
    measured: Mapping[str, Measured],
    facts: Mapping[str, Mapping[str, Any]],
    unit: Unit,
) -> list[str]:
    """Topics, grades, sizes, what times and inferences are, and what was copied or is missing.

    `facts` are the systems' entries of results.json.
    """
    from raypipe.evaluation.tables import INFERENCES

    notes = []
    if wanted.topics:
        notes.append(f"topics: {wanted.topics}")
    if wanted.relevance:
        notes.append(f"relevant: {wanted.relevance}")
    notes += of_wikipedia(graph.recipe.collection)
    sizes = f"{graph.collection().num_rows:,} passages"
    if unit == "documents":
        sizes = f"{graph.documents().num_rows:,} documents, {sizes}"
    notes.append(f"{sizes}, {graph.queries(query_set).num_rows:,} queries")
    notes.append("ms/query: wall time of the whole chain over all queries, loading excluded")
    notes += [INFERENCES] if any("inferences" in facts[system] for system in measured) else []
    notes += [
        f"{system}: {facts[system]['copied']:,} scores copied from an older store, not computed"
        for system in measured
        if facts[system].get("copied")
    ]
    if wanted.baseline is not None and wanted.baseline not in measured:
        notes.append(f"no differences: the baseline, {wanted.baseline}, is not in this table")
    for system, of_system in measured.items():
        if of_system.missing_queries:
            missing = len(of_system.missing_queries)
            notes.append(f"{system}: judged queries without a result, each counting 0: {missing:,}")
    return notes


def _without_text(graph: Graph, query_set: str) -> list[str]:
    """A line if queries have no text: what is found for them says nothing."""
    texts = graph.queries(query_set).table(schema.QUERIES)["text"].to_pylist()
    empty = sum(not text.strip() for text in texts)
    return [f"{empty:,} of {len(texts):,} queries have no text"] if empty else []


log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Measurement:
    """Measures, costs and notes of the runs."""

    entries: Mapping[str, Any]
    """Those of ENTRIES in results.json."""
    table: Text
    """The content of table.md; empty if nothing was measured."""


ENTRIES = ("systems", "measures", "differences", "notes", "made_from")


def measure(
    graph: Graph,
    workspace: Workspace,
    systems: Mapping[str, Sequence[System]],
    results: Mapping[StoreName, Completed],
    judgements: Mapping[tuple[str, Unit], pa.Table],
    last: Mapping[str, Any],
) -> Measurement:
    """The measures of the runs; writes runs/SET/SYSTEM.trec, measures/SET.tsv, table.md.

    `systems` are given by query set, `judgements` by query set and what they judge; systems with
    pairs are not runs and are in no file. Runs of passages and of documents have tables of their
    own; those without judgements are ranked but not measured. `last` are the results that stood:
    where they were made from the same stores, and their files are unchanged, they stay.
    """
    made_from = _made_from(graph, systems, judgements)
    standing = _standing(workspace, made_from, last)
    if standing is not None:
        return standing
    from raypipe.evaluation.measures import evaluate, warn_of

    recipe, before, blocks = graph.recipe, {*workspace.written}, list[Text]()
    costs = {
        store: read_cost(workspace.stores, each.manifest.store, each.manifest.fingerprint)
        for store, each in results.items()
    }
    entries: dict[str, Any] = {name: {} for name in ENTRIES}
    for query_set, of_set in systems.items():
        ranked = [system for system in of_set if system.produces == "run"]
        if not ranked:
            continue
        tables = _write_runs(workspace, graph, query_set, ranked)
        facts = _facts(ranked, tables, results, costs, graph.queries(query_set).num_rows)
        entries["systems"][query_set] = facts
        if recipe.evaluate is None:
            continue
        per_query: dict[str, Measured] = {}
        for unit in units():
            judged = judgements.get((query_set, unit))
            of_unit = [system for system in ranked if system.unit == unit]
            if judged is None or not of_unit:
                continue
            measured = {
                system.name: evaluate(
                    tables[system.name], judged, recipe.evaluate.measures, warn=False, of_set=True
                )
                for system in of_unit
            }
            warn_of(measured, f" on {query_set}")
            per_query |= measured
            block, notes, differing = _table(
                graph, recipe.evaluate, query_set, of_unit, measured, facts, judged
            )
            blocks.append(block)
            entries["notes"].setdefault(query_set, {})[unit] = notes
            entries["differences"].setdefault(query_set, {}).update(
                {
                    name: {m: [each.mean, each.low, each.high] for m, each in of_system.items()}
                    for name, of_system in differing.items()
                }
            )
        if per_query:
            workspace.write(f"measures/{query_set}.tsv", _lines_of(per_query).encode())
            entries["measures"][query_set] = {name: dict(m.mean) for name, m in per_query.items()}
    table = joined(blocks)
    if table:
        workspace.write("table.md", table.encode())
    entries["made_from"] = {"sha256": made_from, "files": sorted(workspace.written - before)}
    return Measurement(entries, table)


def _facts(
    ranked: Sequence[System],
    tables: Mapping[str, pa.Table],
    results: Mapping[StoreName, Completed],
    costs: Mapping[StoreName, StoreCost],
    num_queries: int,
) -> dict[str, dict[str, Any]]:
    """The entries of a query set's systems in results.json: what they rerank, and their cost."""
    depths = {system.stored.identity: _depth(tables[system.name]) for system in ranked}
    counts: dict[str, dict[str, int]] = {}
    for unit in units():  # what a table lists, it counts: a store's scores once in each table
        counts |= inferences([each for each in ranked if each.unit == unit], results, costs)
    return {
        system.name: {
            "reranks": _reranks(system, depths),
            "model": system.model,
            "start_weights": system.start_weights,
            "ms_per_query": _ms(system.chain, costs, num_queries),
            **counts.get(system.name, {}),
            **({"recall_against_exact": system.recall.to_json()} if system.recall else {}),
        }
        for system in ranked
    }


def _table(
    graph: Graph,
    evaluated: Evaluate,
    query_set: str,
    systems: Sequence[System],
    measured: Mapping[str, Measured],
    facts: Mapping[str, Mapping[str, Any]],
    judged: pa.Table,
) -> tuple[Text, list[str], dict[str, dict[str, Difference]]]:
    """The table in Markdown of systems of one unit, its notes, and differences to the baseline."""
    from raypipe.evaluation.tables import OUTSIDE, render, rows_of, title_of

    unit, larger = systems[0].unit, larger_collections(graph.recipe.stages)
    apart = apart_of(evaluated, larger, measured)
    notes = notes_of(graph, evaluated, query_set, measured, facts, unit)
    notes += fit_in_stores(graph, query_set, unit, judged).lines()
    notes += excluded_line(graph, query_set, unit)
    notes += _without_text(graph, query_set)
    notes += [OUTSIDE] if any(larger[name] is not None for name in measured) else []
    notes += dict.fromkeys(line for system in systems for line in system.approximate)
    notes += [system.note for system in systems if system.note]
    if apart:
        notes.append(
            f"no differences to {evaluated.baseline}, which ranks another collection: "
            f"{', '.join(apart)}"
        )
    alike = {name: of_one for name, of_one in measured.items() if name not in apart}
    differing = _differences(evaluated, alike)
    rows = rows_of(
        facts,
        {name: of_system.mean for name, of_system in measured.items()},
        differing,
        num_queries=graph.queries(query_set).num_rows,
        larger=larger,
    )
    block = render(
        title_of(query_set, unit),
        rows,
        measures=evaluated.measures,
        num_topics=next(iter(measured.values())).num_topics,
        baseline=evaluated.baseline,
        notes=notes,
    )
    return block, notes, differing


def _made_from(
    graph: Graph,
    systems: Mapping[str, Sequence[System]],
    judgements: Mapping[tuple[str, Unit], pa.Table],
) -> str:
    """A hash of this code, the recipe, the runs' stores and the judgements.

    The costs of stores are not in it: a store that was deleted and made again may keep the time of
    the first. So a rerun reads no logs.
    """
    runs = [system.stored.identity for of_set in systems.values() for system in of_set]
    key = hashlib.sha256(repr([package_sha256(), resolved_yaml(graph.recipe), runs]).encode())
    for of_set, judged in judgements.items():
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, judged.schema) as stream:
            stream.write_table(judged.combine_chunks())
        key.update(repr(of_set).encode() + sink.getvalue())
    return key.hexdigest()


def _standing(workspace: Workspace, made_from: str, last: Mapping[str, Any]) -> Measurement | None:
    """The measurement of the results that stood, if it was made from the same, with its files."""
    standing, hashes = last.get("made_from", {}), last.get("files", {})
    if standing.get("sha256") != made_from:
        return None
    paths = {name: workspace.folder / name for name in standing["files"]}
    changed = [
        name
        for name, path in paths.items()
        if not path.is_file() or path.is_symlink() or hash_file(path) != hashes.get(name)
    ]
    if changed:
        log.info("not as the last invocation left them, and written anew: %s", ", ".join(changed))
        return None
    workspace.wrote(*paths.values())
    table = workspace.folder / "table.md"
    text = read_markdown(table.read_text()) if "table.md" in paths else Text(())
    return Measurement({name: last[name] for name in ENTRIES}, text)


def _write_runs(
    workspace: Workspace, graph: Graph, query_set: str, systems: Sequence[System]
) -> dict[str, pa.Table]:
    from raypipe.evaluation.exports import write_msmarco, write_trec
    from raypipe.stages.run_tables import with_ids

    queries = graph.queries(query_set).table(schema.QUERIES)
    folder = workspace.folder / "runs" / query_set
    standing = set(workspace.own.names(f"runs/{query_set}"))  # another machine may have written
    tables = {}
    for system in systems:
        run = system.stored.whole_table(schema.RUN)
        table = tables[system.name] = with_ids(run, queries, graph.ranked(system.unit))
        trec, *tsv = (folder / f"{system.name}.{each}" for each in graph.recipe.runs.endings)
        write_trec(table, trec, tag=system.name)
        for path in tsv:
            write_msmarco(table, path)
        workspace.wrote(trec, *tsv)
        for ending in RUN_ENDINGS:
            older = folder / f"{system.name}.{ending}"
            name = older.relative_to(workspace.folder).as_posix()
            if older not in (trec, *tsv) and (older.exists() or name in standing):
                workspace.remove(older)
    return tables


def _depth(run: pa.Table) -> int:
    """The last rank of a run."""
    return pc.max(run["rank"]).as_py() or 0


def _reranks(system: System, depths: Mapping[str, int]) -> str:
    """The words of the table about what the system reranked, with the depth of its candidates."""
    if system.ranked is None:
        return system.reranks
    depth = depths[system.ranked.identity]
    k = "k0" if system.pairs is None else "k1"
    asked = f", first {system.first}"
    told = asked if depth >= system.first else f", first {depth} (of {k} {system.first})"
    return system.reranks.replace(asked, told, 1)


def _lines_of(measured: Mapping[str, Measured]) -> str:
    """The text of measures/SET.tsv: a line for each query, system and measure."""
    lines = ["query_id\tsystem\tmeasure\tvalue\n"]
    for system, of_system in measured.items():
        for name, values in of_system.per_query.items():
            lines += [f"{query}\t{system}\t{name}\t{value!r}\n" for query, value in values.items()]
    return "".join(lines)


def _differences(
    wanted: Evaluate, measured: Mapping[str, Measured]
) -> dict[str, dict[str, Difference]]:
    """System -> measure -> its difference to the baseline, if the baseline was measured."""
    if wanted.baseline is None or wanted.baseline not in measured:
        return {}
    base = measured[wanted.baseline].per_query
    others = {name: each.per_query for name, each in measured.items() if name != wanted.baseline}
    from raypipe.evaluation.significance import differences

    pairs = [(values[m], base[m]) for values in others.values() for m in wanted.measures]
    found = iter(differences(pairs))
    return {name: {m: next(found) for m in wanted.measures} for name in others}


def _ms(chain: Chain, costs: Mapping[StoreName, StoreCost], num_queries: int) -> float | None:
    """Milliseconds per query over the stores of a chain; None if a time is unknown.

    Scores that were copied took their time elsewhere.
    """
    chain_costs = [costs.get(store, StoreCost()) for store in chain.stores]
    scores = [
        each for each, s in zip(chain_costs, chain.stores, strict=True) if s.role is Role.SCORES
    ]
    if any(each.num_copied for each in scores):
        return None
    seconds = [each.seconds for each in chain_costs if each.seconds is not None]
    if not seconds or len(seconds) < len(chain_costs) or not num_queries:
        return None
    return round(1000 * sum(seconds) / num_queries, 2)
