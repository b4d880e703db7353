"""How judgements fit a collection and a query set: judged passages that are not there measure 0."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from raypipe import schema
from raypipe.config.fields import OWN_ID
from raypipe.config.recipe import Recipe
from raypipe.data.formats.registry import get_format
from raypipe.data.qrels import read_qrels
from raypipe.data.queries import read_queries
from raypipe.data.reading import ids_in
from raypipe.driver.recipe.graph import Graph
from raypipe.errors import InputError, some
from raypipe.kinds.search import Bm25Search, Tuned
from raypipe.stages.ids import all_ids, id_index, own_rows
from raypipe.vocabulary import Unit

READ_BYTES = 100_000_000
"""Of a collection's files, in which ids are looked for before a run: a few seconds of one core."""
FIRST = 100
"""Judgements that are looked at first: where some of them fit, the rest need not be looked up."""
Judgements = Mapping[tuple[str, Unit], pa.Table]
"""By query set and what they judge, schema.QRELS."""
IsThere = Callable[[list[str]], list[bool]]
"""Whether each of some ids is in the collection."""


@dataclass(frozen=True, slots=True)
class Fit:
    """How many of the judged passages, or documents, and queries are there."""

    unit: Unit
    judged: int
    """Different passages, or documents, of the judgements."""
    present: int
    judged_queries: int
    present_queries: int
    queries: int
    """Of the query set."""
    lacking: tuple[str, ...]
    """A few ids that the collection does not have."""

    def lines(self) -> list[str]:
        """A line for each number that is not all."""
        lines = []
        if self.present < self.judged:
            counts = f"{self.present:,} of {self.judged:,} judged {self.unit}"
            lines.append(f"{counts} are in the collection")
        if self.present_queries < self.judged_queries:
            counts = f"{self.present_queries:,} of {self.judged_queries:,} judged queries"
            lines.append(f"{counts} are in the query set; each of the others counts 0")
        if self.present_queries < self.queries:
            lines.append(f"{self.present_queries:,} of {self.queries:,} queries are judged")
        return lines

    def problems(self, qrels: str) -> list[str]:
        """A line if no judged passage, or no judged query, is there: all systems would count 0."""
        problems = []
        if not self.present:
            counts = f"0 of {self.judged:,} judged {self.unit} are in the collection"
            text = f"{counts} ({some(self.lacking)}); name the judgements of this collection"
            problems.append(text)
        if not self.present_queries:
            counts = f"0 of {self.judged_queries:,} judged queries are in the query set"
            problems.append(f"{counts}; name the judgements of this query set")
        return [f"{qrels}: {each}, otherwise every measure is 0" for each in problems]


def fit_of(
    judged: pa.Table,
    unit: Unit,
    query_ids: Collection[str],
    is_there: IsThere,
) -> Fit:
    """How judgements, schema.QRELS, fit these queries, and the passages that `is_there` knows."""
    ids = pc.unique(judged["passage_id"]).to_pylist()
    queries, of_set = pc.unique(judged["query_id"]).to_pylist(), {*query_ids}
    lacking = [each for each, there in zip(ids, is_there(ids), strict=True) if not there]
    return Fit(
        unit=unit,
        judged=len(ids),
        present=len(ids) - len(lacking),
        judged_queries=len(queries),
        present_queries=sum(query in of_set for query in queries),
        queries=len(of_set),
        lacking=tuple(lacking[:10]),
    )


def fit_in_stores(graph: Graph, query_set: str, unit: Unit, judged: pa.Table) -> Fit:
    """How judgements fit the stored collection and query set.

    Documents are few, and need no index for this.
    """
    query_ids = graph.queries(query_set).table(schema.QUERIES)["query_id"].to_pylist()
    if unit == "documents":
        documents = graph.documents()
        is_there = _among(lambda: chain.from_iterable(all_ids(documents)))
        return fit_of(judged, unit, query_ids, is_there)
    index = id_index(graph.collection(), graph.ids())
    return fit_of(judged, unit, query_ids, lambda ids: (index.rows_of(ids) >= 0).tolist())


def refuse_unfit(graph: Graph, judgements: Judgements) -> None:
    """Returns nothing if, of each query set that is measured or tuned on, something is judged.

    If there is such a set, the collection's stores are completed first, and nothing else is: no
    file of the last invocation is written over yet.

    Raises:
        InputError: no judged passage or query of a set is there.
    """
    problems = []
    for (query_set, unit), judged in _with_tuned(graph.recipe, judgements).items():
        qrels = str(graph.recipe.queries[query_set].qrels_of(unit))
        if fit_in_stores(graph, query_set, unit, judged.slice(0, FIRST)).problems(qrels):
            problems += fit_in_stores(graph, query_set, unit, judged).problems(qrels)
    if problems:
        raise InputError(problems)


def _with_tuned(recipe: Recipe, judgements: Judgements) -> Judgements:
    """The judgements, and those of the query sets that BM25's parameters are tuned on."""
    tuned: dict[tuple[str, Unit], pa.Table] = {}
    for stage in recipe.stages.values():
        if isinstance(stage, Bm25Search) and isinstance(stage.bm25, Tuned):
            query_set = stage.bm25.tune.queries
            qrels = recipe.queries[query_set].qrels
            assert qrels is not None  # a rule of the recipe
            tuned[query_set, "passages"] = read_qrels(Path(qrels))
    return {**judgements, **tuned}


def fit_of_files(recipe: Recipe, judgements: Judgements) -> list[str]:
    """Lines about judgements before a run, by the files of the collection, read as a whole.

    Nothing is said of passages that are made of documents, of collections that are no files, and of
    more than READ_BYTES: a run looks at them once its collection is stored.

    Raises:
        InputError: no judged passage or query of a set is there.
    """
    lines, problems = list[str](), list[str]()
    for (query_set, unit), judged in _with_tuned(recipe, judgements).items():
        queries = recipe.queries[query_set]
        is_there = _in_files(recipe, unit)
        if is_there is None or queries.file is None:
            continue
        ids = [query_id for query_id, _ in read_queries(Path(queries.file))]
        fit = fit_of(judged, unit, ids, is_there)
        problems += fit.problems(str(queries.qrels_of(unit)))
        lines += [f"{query_set}: {line}" for line in fit.lines()]
    if problems:
        raise InputError(problems)
    return lines


def _in_files(recipe: Recipe, unit: Unit) -> IsThere | None:
    """Whether each of some ids is in the collection's files; None if that is not looked for."""
    collection, split = recipe.collection, recipe.collection.split
    kind = get_format(collection.format, collection.field_names, collection.id)
    parse: Callable[[Any], tuple[str, ...]] | None
    if split is None or split.by == "given":
        parse = kind.parse if unit == "passages" else kind.home
    else:
        parse = kind.document if unit == "documents" else None
    if parse is None or kind.stream is not None:
        return None
    files = kind.files([Path(path) for path in collection.input])
    if sum(file.stat().st_size for file in files) > READ_BYTES:
        return None
    return _among(partial(ids_in, files, kind, parse, collection.errors))


def _among(read: Callable[[], Iterable[str]]) -> IsThere:
    """Whether each of some ids is among those that are read, until all of them are seen."""

    def is_there(ids: list[str]) -> list[bool]:
        unseen = {*ids}
        for each in read():
            unseen.discard(each)
            if not unseen:
                break
        return [each not in unseen for each in ids]

    return is_there


def excluded_line(graph: Graph, query_set: str, unit: Unit) -> list[str]:
    """The line about passages, or documents, that take no place in a query set's rankings."""
    exclude = graph.recipe.queries[query_set].exclude
    stored = graph.excluded(query_set, unit).stored
    if exclude is None or stored is None:
        return _own_line(graph, query_set) if unit == "passages" else []
    facts = stored.manifest.records[0].facts
    present, of_set, pairs = (int(facts[name]) for name in ("present", "of_set", "pairs"))
    if exclude == OWN_ID:
        counts = f"{present:,} of {of_set:,} queries have {unit} of their own id"
        return [f"exclude: own-id: {counts}, which are left out"]
    counts = f"{present:,} of {of_set:,} excluded {unit} are in the collection, and left out"
    others = f"; {pairs - of_set:,} are of other queries" if pairs > of_set else ""
    return [f"exclude: {Path(exclude).name}: {counts}{others}"]


def _own_line(graph: Graph, query_set: str) -> list[str]:
    """A line if queries are passages of the collection; see `own_rows`."""
    rows = own_rows(graph.queries(query_set), graph.collection(), graph.ids())
    if (rows < 0).all():
        return []
    return [
        f"{(rows >= 0).sum():,} of {len(rows):,} queries have passages of their own id, with the "
        "query's text, and may be their own best results; exclude: own-id leaves these out"
    ]
