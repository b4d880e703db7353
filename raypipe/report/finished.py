"""A finished pipeline's workspace, opened for reading: its runs, and what they measure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from raypipe import schema
from raypipe.config.load import load_recipe
from raypipe.config.recipe import Recipe, larger_collections
from raypipe.config.resolved import read_resolved
from raypipe.config.rules import units_of
from raypipe.driver.inputs import with_local_files
from raypipe.driver.recipe.read_first import read_first
from raypipe.driver.summaries import read_results, read_summary
from raypipe.driver.upkeep.status import open_workspace, shown_results, status
from raypipe.driver.workspace import Workspace
from raypipe.errors import CorruptError, IncompleteError, InputError
from raypipe.evaluation.measures import Measured, evaluate
from raypipe.evaluation.names import counts_in, parse_measures
from raypipe.evaluation.tables import OUTSIDE, starred
from raypipe.kinds.read import GivenRun, left_out
from raypipe.names import Role, StoreName, of_collection, of_queries, of_stage
from raypipe.stages.ids import all_ids, column_of_rows, id_index, ids_of_rows
from raypipe.stages.run_tables import read_queries_of_run, with_ids
from raypipe.storage.ledger import find_spec, read_manifest
from raypipe.storage.records import hash_file
from raypipe.storage.store import Stored
from raypipe.vocabulary import Unit


class JudgedRows(NamedTuple):
    """Judged passages, sorted by query row, then passage row; int64 [N] each."""

    query_rows: NDArray[np.int64]
    passage_rows: NDArray[np.int64]


@dataclass(frozen=True)
class RankedUnit:
    """The unit that the runs rank, passages or documents, with its texts and ids."""

    unit: Unit
    stored: Stored
    index: Stored | None
    """Ids -> rows; None if the last invocation made none, as no file of its recipe had ids."""

    def texts(self, rows: NDArray[np.int64]) -> list[str]:
        """The texts of passages, or titles, headings and bodies of documents, in the order given.

        A document's text is empty where the collection's files hold the passages.
        """
        if self.unit == "passages":
            return column_of_rows(self.stored, rows, "text")
        parts = ("title", "headings", "body")
        columns = [column_of_rows(self.stored, rows, part, schema.DOCUMENTS) for part in parts]
        return ["\n".join(filter(None, texts)) for texts in zip(*columns, strict=True)]

    def ids(self, rows: NDArray[np.int64]) -> list[str]:
        """The ids, in the order of their rows."""
        return ids_of_rows(self.stored, rows)

    def rows_of(self, ids: Sequence[str]) -> NDArray[np.int64]:
        """The rows of these ids, int64 [ids]; -1 for those that the collection does not have."""
        assert self.index is not None
        return id_index(self.stored, self.index).rows_of(ids)

    def have(self, ids: Sequence[str]) -> bool:
        """Whether every one of these ids is in the collection."""
        if self.index is not None:
            return bool((self.rows_of(ids) >= 0).all())
        absent = set(ids)
        for batch in all_ids(self.stored):
            absent.difference_update(batch)
        return not absent

    def judged(self, judgements: pa.Table, query_ids: pa.ChunkedArray) -> JudgedRows:
        """The judgements (schema.QRELS) of queries and passages that are here.

        `query_ids` are those of the query set, in its order.
        """
        of_query = pc.index_in(judgements["query_id"], query_ids)
        queries = of_query.fill_null(-1).to_numpy().astype(np.int64)
        passages = self.rows_of(judgements["passage_id"].to_pylist())
        known = (queries >= 0) & (passages >= 0)
        order = np.lexsort((passages[known], queries[known]))
        return JudgedRows(queries[known][order], passages[known][order])


def open_finished(folder: Path) -> "Finished":
    """The workspace of a complete invocation of `raypipe pipeline`, whose results stand.

    Raises:
        InputError: no workspace, or no pipeline's.
        IncompleteError: no results stand, or they are not complete.
    """
    workspace = open_workspace(folder)
    results = shown_results(folder, "systems")
    if results is None:
        last = read_results(folder) or read_summary(folder) or {}
        if last.get("status") != "complete":
            state = status(folder).state if last else "summary.json is not there"
            raise IncompleteError(
                f"{folder}: no results stand, since the last invocation is not complete ({state}); "
                "run its recipe again with the same --out"
            )
        raise InputError(
            f"{folder}: expected the workspace of a pipeline, found no runs of a "
            "finished one; run its recipe again with the same --out"
        )
    path = folder / "recipe.yaml"
    remedy = "run its recipe again with the same --out, which writes this file anew"
    if path.is_file() and hash_file(path) != results.get("files", {}).get(path.name):
        raise CorruptError(f"{path}: its bytes are not those that were written; {remedy}")
    return Finished(workspace, load_recipe(read_resolved(path), source=str(path)), results)


@dataclass(frozen=True)
class Finished:
    """The results that stand in a workspace."""

    workspace: Workspace
    recipe: Recipe
    summary: Mapping[str, Any]
    """The content of results.json."""

    @property
    def query_sets(self) -> list[str]:
        """The query sets with runs, in the recipe's order."""
        return list(self.summary["systems"])

    def chosen(self, query_set: str | None) -> list[str]:
        """The query set that --queries names, or all of them.

        Raises:
            InputError: there is none of this name.
        """
        if query_set is None:
            return self.query_sets
        if query_set not in self.query_sets:
            known = ", ".join(self.query_sets)
            raise InputError(f"--queries {query_set}: expected one of {known}")
        return [query_set]

    def systems(self, query_set: str, unit: Unit = "passages") -> list[str]:
        """The stages that made a run of passages or of documents, in the recipe's order."""
        units = units_of(self.recipe.stages)
        return [name for name in self.summary["systems"][query_set] if units[name] == unit]

    def first_stages(self, query_set: str) -> list[str]:
        """The runs of passages that no reranker had a part in, in the recipe's order."""
        stages = self.recipe.stages

        def reranked(name: str) -> bool:
            own = stages[name].scores_with is not None
            return own or any(reranked(each) for each in stages[name].inputs)

        return [name for name in self.systems(query_set) if not reranked(name)]

    def larger_collection(self, system: str) -> str | None:
        """The name of the larger collection that a run is a ranking of; None if of this one."""
        return self._larger[system]

    def left_out(self, query_set: str, systems: Sequence[str]) -> list[str]:
        """A sentence for each given run of a larger collection: how many of its lines are gone."""
        return [
            left_out(name, larger, self.stored(of_stage(name, query_set)))
            for name in systems
            if isinstance(self.recipe.stages[name], GivenRun)
            and (larger := self.larger_collection(name)) is not None
        ]

    def run(self, system: str, query_set: str) -> pa.Table:
        """A run with its true scores, schema.RUN."""
        return self.stored(of_stage(system, query_set)).whole_table(schema.RUN)

    def run_of_query(self, system: str, query_set: str, query_row: int) -> pa.Table:
        """A run's lines of one query with their true scores, schema.RUN."""
        stored = self.stored(of_stage(system, query_set))
        return read_queries_of_run(stored, query_row, query_row + 1)

    def pairs(self, stage: str, query_set: str) -> pa.Table:
        """A duoBERT stage's scores of pairs, schema.SCORES."""
        return self.stored(of_stage(stage, query_set)).whole_table(schema.SCORES)

    def named(self, run: pa.Table, query_set: str, unit: Unit = "passages") -> pa.Table:
        """A run of schema.RUN with original ids, schema.RUN_FILE."""
        return with_ids(run, self.queries(query_set), self.ranked(unit).stored)

    def ranked(self, unit: Unit = "passages") -> RankedUnit:
        """The collection's passages or documents."""
        passages = unit == "passages"
        stored = self.stored(of_collection(Role.PASSAGES if passages else Role.DOCUMENTS))
        ids = of_collection(Role.IDS if passages else Role.DOCUMENT_IDS)
        return RankedUnit(unit, stored, self.stored(ids) if self.has(ids) else None)

    def queries(self, query_set: str) -> pa.Table:
        """A query set, schema.QUERIES; a query's row is its position."""
        return self.stored(of_queries(query_set)).table(schema.QUERIES)

    def query_texts(self, query_set: str) -> dict[str, str]:
        """Query id -> text, in the order of the set."""
        table = self.queries(query_set).to_pydict()
        return dict(zip(table["query_id"], table["text"], strict=True))

    def judgements(self, query_set: str, unit: Unit = "passages") -> pa.Table | None:
        """A query set's judgements, schema.QRELS, as its file has them now."""
        return self._judgements.get((query_set, unit))

    def measured(self, query_set: str, unit: Unit = "passages") -> bool:
        """Whether there are runs of passages or of documents, and judgements of them."""
        return bool(self.systems(query_set, unit)) and (query_set, unit) in self._judgements

    def judged_rows(self, query_set: str) -> JudgedRows:
        """The judged passages of a query set that the collection has."""
        if query_set not in self._judged_rows:
            judged = self._judgements[query_set, "passages"]
            rows = self.ranked().judged(judged, self.queries(query_set)["query_id"])
            self._judged_rows[query_set] = rows
        return self._judged_rows[query_set]

    @cached_property
    def _judged_rows(self) -> dict[str, JudgedRows]:
        """Query set -> its judged rows, filled by `judged_rows` at first use."""
        return {}

    @cached_property
    def measured_once(
        self,
    ) -> dict[tuple[str, str, Unit], tuple[Measured, Mapping[int, float]]]:
        """(query set, system, unit) -> its values and recall by depth; see `measuring`."""
        return {}

    @cached_property
    def with_inputs(self) -> Recipe:
        """The recipe with the files of built-in query sets, topics and buckets."""
        return with_local_files(self.recipe, self.workspace, collection=False)[0]

    @cached_property
    def _judgements(self) -> Mapping[tuple[str, Unit], pa.Table]:
        return read_first(self.with_inputs)

    @cached_property
    def _larger(self) -> Mapping[str, str | None]:
        return larger_collections(self.recipe.stages)

    @cached_property
    def _used(self) -> Mapping[str, str]:
        """Store -> fingerprint, of the last invocation."""
        return dict(place.split("/") for place in self.summary["stores"])

    def origins(self, store: str) -> list[str]:
        """The stores that a store of the last invocation was made from; none if it is not there."""
        used = self._used.get(store)
        spec = None if used is None else find_spec(self.workspace.stores, store, used)
        return [] if spec is None else [each.split("/")[0] for each in spec.origins.values()]

    def numerics(self) -> list[str]:
        """The numerics classes of the machines that computed the stores, sorted."""
        stores = self.workspace.stores
        manifests = (read_manifest(stores, *place.split("/")) for place in self.summary["stores"])
        return sorted({name for manifest in manifests if manifest for name in manifest.numerics})

    def has(self, name: StoreName) -> bool:
        """Whether the last invocation used such a store."""
        return str(name) in self._used

    def stored(self, name: StoreName) -> Stored:
        """A store that the last invocation used.

        Raises:
            IncompleteError: it used none of this name, or its store was deleted.
        """
        stores, fingerprint = self.workspace.stores, self._used.get(str(name))
        manifest = None if fingerprint is None else read_manifest(stores, str(name), fingerprint)
        if manifest is None:
            raise IncompleteError(
                f"{self.workspace.folder}: the store {name} is not there; run the recipe again "
                "with the same --out"
            )
        return Stored(stores, manifest)


RECALL_DEPTHS = (5, 10, 20, 50, 100, 200, 500, 1000, 2000)
"""Depths at which a first stage's recall is told."""
_OF_JUDGED = frozenset(("AP", "nDCG", "P", "R", "RR", "Rprec", "Success"))
"""Measures that unjudged passages change only by the ranks of the judged ones below them."""


def judgements_of(finished: Finished, query_set: str, unit: Unit = "passages") -> pa.Table:
    """The judgements of a query set, schema.QRELS.

    Raises:
        InputError: it has none.
    """
    judged = finished.judgements(query_set, unit)
    if judged is None:
        raise InputError(
            f"{finished.workspace.folder}: the query set {query_set} has no judgements of {unit}, "
            "or the recipe measures nothing; add qrels and evaluate, and run it again"
        )
    return judged


def measures_of(finished: Finished) -> Sequence[str]:
    """The recipe's measures, one or more.

    Raises:
        InputError: it has none.
    """
    if finished.recipe.evaluate is None:
        raise InputError(
            f"{finished.workspace.folder / 'recipe.yaml'}: expected measures under evaluate, found "
            "none; add evaluate to the recipe, and run it again"
        )
    return finished.recipe.evaluate.measures


def comparable(measures: Sequence[str]) -> list[str]:
    """The measures that have a mean, which can be compared; counts have none."""
    counts = counts_in(measures)
    return [name for name in measures if name not in counts]


def measured(
    finished: Finished,
    query_set: str,
    run: pa.Table,
    measures: Sequence[str],
    unit: Unit = "passages",
) -> Measured:
    """A run (schema.RUN) of the workspace, measured."""
    judged = judgements_of(finished, query_set, unit)
    if unit == "passages":
        run = needed(finished, query_set, run, measures)
    named = finished.named(run, query_set, unit)
    return evaluate(named, judged, measures, warn=False, of_set=True)


def needed(
    finished: Finished, query_set: str, run: pa.Table, measures: Sequence[str], *, most: int = 1
) -> pa.Table:
    """The lines of a run of passages without those at the ends of its lists that change no measure.

    They lie below the last judged passage of a query, or below every measure's cutoff, and are most
    lines of most runs. The first `most` ranks are always kept, for a reranker that may reorder
    them: it gives the same values with the lines that are left.
    """
    parsed = parse_measures(measures).values()
    if not all(m.NAME in _OF_JUDGED and not m.params.get("judged_only") for m in parsed):
        return run
    cutoffs = [measure.params.get("cutoff") for measure in parsed]
    if None not in cutoffs:
        run = cut(run, most + max(cutoffs))  # up to `most` lines may be in quarantine and left out
    queries, passages = finished.judged_rows(query_set)
    return down_to(run, queries, passages, most=most)


def of_system(finished: Finished, query_set: str, system: str, unit: Unit = "passages") -> Measured:
    """A system's values by the recipe's measures; see `recall_of` for more."""
    values, _ = _measured_once(finished, query_set, system, unit)
    own = measures_of(finished)
    return replace(
        values,
        per_query={name: values.per_query[name] for name in own},
        mean={name: values.mean[name] for name in own},
        num_topics={name: values.num_topics[name] for name in own},
    )


def recall_of(finished: Finished, query_set: str, system: str) -> Mapping[int, float]:
    """Depth -> a first stage's recall there, at `RECALL_DEPTHS` up to its longest list."""
    return _measured_once(finished, query_set, system, "passages")[1]


def _measured_once(
    finished: Finished, query_set: str, system: str, unit: Unit
) -> tuple[Measured, Mapping[int, float]]:
    """A system by all that several sections tell of it, measured when it is first asked for."""
    key = (query_set, system, unit)
    if key not in finished.measured_once:
        run, names = finished.run(system, query_set), dict[int, str]()
        if unit == "passages" and system in finished.first_stages(query_set):
            depths = depths_up_to(longest(run), RECALL_DEPTHS) if len(run) else []
            names = recalls(finished, depths)
        measures = [*dict.fromkeys([*measures_of(finished), *names.values()])]
        values = measured(finished, query_set, run, measures, unit)
        recall = {depth: values.mean[name] for depth, name in names.items()}
        finished.measured_once[key] = values, recall
    return finished.measured_once[key]


def relevant_grade(finished: Finished) -> int:
    """The lowest relevant grade: that of the recipe's own recall; 1 if it measures none."""
    parsed = parse_measures(measures_of(finished)).values()
    return next((int(m.params.get("rel", 1)) for m in parsed if m.NAME == "R"), 1)


def recalls(finished: Finished, depths: Sequence[int]) -> dict[int, str]:
    """Depth -> the name of the recall there."""
    grade = relevant_grade(finished)
    return {depth: f"R@{depth}" if grade == 1 else f"R(rel={grade})@{depth}" for depth in depths}


def about(finished: Finished, query_set: str, unit: Unit = "passages") -> list[str]:
    """The notes of every table: the topics and what counts as relevant."""
    evaluated = finished.recipe.evaluate
    topics = set(judgements_of(finished, query_set, unit)["query_id"].to_pylist())
    notes = [f"{len(topics):,} topics"]
    if evaluated is not None and evaluated.topics:
        notes.append(f"topics: {evaluated.topics}")
    if evaluated is not None and evaluated.relevance:
        notes.append(f"relevant: {evaluated.relevance}")
    return notes


def compared_with(finished: Finished, systems: Sequence[str]) -> tuple[str, bool, list[str]]:
    """(the system that others are compared with, whether it is the recipe's baseline, the others).

    It is the baseline, if that is one of the systems and ranks this collection; otherwise the first
    system that ranks this collection, or the first of all if none does. The others are those over
    the same collection, itself too, in the given order.
    """
    evaluated = finished.recipe.evaluate
    named = evaluated.baseline if evaluated is not None else None
    here = [name for name in systems if finished.larger_collection(name) is None] or [*systems]
    base = named if named in here else here[0]
    where = finished.larger_collection(base)
    alike = [name for name in systems if finished.larger_collection(name) == where]
    return base, base == named, alike


def marked(finished: Finished, system: str) -> str:
    """A system's name, with a star if it ranks a larger collection; see `outside`."""
    return starred(system, finished.larger_collection(system))


def outside(finished: Finished, query_set: str, systems: Sequence[str]) -> list[str]:
    """Notes on those systems that rank a larger collection: what the star means, lines lost."""
    if all(finished.larger_collection(name) is None for name in systems):
        return []
    return [OUTSIDE, *finished.left_out(query_set, systems)]


def depths_up_to(most: int, depths: Sequence[int]) -> list[int]:
    """The wanted depths below `most`, then `most` itself; ascending."""
    return [*sorted(depth for depth in set(depths) if depth < most), most]


def longest(run: pa.Table) -> int:
    """The number of lines of the query that has most; 0 for an empty run."""
    return int(pc.max(run["rank"]).as_py() or 0)


def cut(run: pa.Table, depth: int) -> pa.Table:
    """The lines with a rank up to `depth`, in their order."""
    return run.filter(pc.less_equal(run["rank"], depth))


def down_to(
    run: pa.Table,
    query_rows: NDArray[np.int64],
    passage_rows: NDArray[np.int64],
    *,
    most: int = 1,
) -> pa.Table:
    """The lines down to the last one of each query that is among the given pairs.

    A query's first `most` lines are always kept. The pairs are sorted, see `places_of`.
    """
    known = places_of(run, query_rows, passage_rows) >= 0
    of_line, rank = run["query_row"].to_numpy(), run["rank"].to_numpy()
    last = np.full(int(of_line.max(initial=0)) + 1, most, rank.dtype)
    np.maximum.at(last, of_line[known], rank[known])
    return run.filter(pa.array(rank <= last[of_line]))


def places_of(
    run: pa.Table, query_rows: NDArray[np.int64], passage_rows: NDArray[np.int64]
) -> NDArray[np.int64]:
    """The position of each line among the pairs, -1 where it is none of them, int64 [N].

    Much faster than `candidates.positions`, since the pairs are few and no line has another key.

    Args:
        run: schema.RUN, of N lines.
        query_rows: of the pairs, int64 [P].
        passage_rows: of the pairs, int64 [P]; the pairs are sorted by both, and each is there once.
    """
    queries, passages = (run[name].to_numpy() for name in ("query_row", "passage_row"))
    if not len(query_rows) or not len(queries):
        return np.full(len(queries), -1, np.int64)
    span = 1 + max(int(passages.max()), int(passage_rows.max()))  # 2^31 queries, 2^28 passages fit
    pair_keys = query_rows * span + passage_rows
    keys = queries.astype(np.int64) * span + passages
    places = np.minimum(np.searchsorted(pair_keys, keys), len(pair_keys) - 1)
    return np.where(pair_keys[places] == keys, places, -1)
