"""Compares a stage's scores with those in fp32: scores, orders and measures."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from raypipe import schema
from raypipe.analysis.agreement import Agreement, agreement
from raypipe.driver.audit.stores import Audited
from raypipe.driver.recipe.basis import Basis
from raypipe.evaluation.measures import evaluate
from raypipe.evaluation.paired import Difference, difference
from raypipe.ranking.candidates import positions
from raypipe.ranking.rerank import aggregate_by_key, lines_of
from raypipe.ranking.rescored import rescored
from raypipe.stages.audit.sample import Int64, Scored
from raypipe.stages.run_tables import with_ids
from raypipe.stages.scoring.blending import blend_and_depth
from raypipe.stages.scoring.candidates import keys_of
from raypipe.stages.scoring.requests import Request

Lists = dict[int, dict[Hashable, float]]


@dataclass(frozen=True, slots=True)
class Figures:
    """What the precision of one stage changes on one query set."""

    stage: str
    precision: str
    of_queries: int
    """Of the whole query set."""
    first: int | None = None
    """The first lines of each query of a search, which were compared; None means all scores."""
    pairs: bool = False
    found: Agreement | None = None
    """None if nothing was computed again."""
    judged: int = 0
    """The compared queries with judgements."""
    measures: Mapping[str, Difference] = field(default_factory=dict)
    """Measure -> the stage's own value less that in fp32; empty with fewer than two judged
    queries."""
    why: str = ""
    """Why nothing was computed again."""

    def to_json(self) -> dict[str, Any]:
        """As in summary.json."""
        told: dict[str, Any] = {"precision": self.precision, "of_queries": self.of_queries}
        if self.found is None:
            return {**told, "queries": 0, "why": self.why}
        told |= {
            "queries": self.found.queries,
            "scores": self.found.scores,
            "first": self.first,
            "largest_difference": self.found.largest,
            "kendall_tau": self.found.tau,
            "another_top_10": None if self.pairs else self.found.changed,
            "lacking": self.found.lacking,
            "judged": self.judged,
        }
        differences = {
            name: {"difference": each.mean, "low": each.low, "high": each.high}
            for name, each in self.measures.items()
        }
        return {**told, "measures": differences}


def figures(
    basis: Basis,
    query_set: str,
    one: Audited,
    judged: pa.Table | None,
    measures: Sequence[str],
) -> Figures:
    """The figures of one stage; its measures where `judged`, schema.QRELS, has two of its queries.

    Both sides are measured over the same queries, with the lines that were not scored again below,
    in the order that they have.
    """
    name, sides = one.system.name, one.stage.sides
    plain = Figures(name, one.precision, sides.queries.num_rows, why=one.why)
    if one.again is None:
        return plain
    queries = one.stage.queries()
    own, again = one.scored.table(queries), one.again.whole_table(schema.SCORES)
    if one.scored.pairs:
        found = agreement(_pairs(own, queries), _pairs(again, queries))
        return replace(plain, pairs=True, found=found)
    other = _in_fp32(one, own, again, queries)
    of_other = one.scored.mask(other)
    if one.aggregate is None:  # a line without a score in fp32 has kept its own
        of_other &= positions(lines_of(other), keys_of(again)) >= 0
    lists = (_lines(own, one.scored.mask(own), queries), _lines(other, of_other, queries))
    num_judged, differences = _measured(basis, query_set, own, other, judged, measures)
    searches = one.stage.model.conventions.kind == "encoder"
    return replace(
        plain,
        first=one.scored.first if searches else None,
        found=agreement(*lists),
        judged=num_judged,
        measures=differences,
    )


def _in_fp32(one: Audited, own: pa.Table, again: pa.Table, queries: Int64) -> pa.Table:
    """The run, schema.RUN, as it is with the scores in fp32."""
    keys, scores = keys_of(again), again["score"].to_numpy()
    how = one.aggregate
    blend = None if how is not None else blend_and_depth(one.system.stored)
    if blend is not None:
        assert one.system.ranked is not None  # as of every reranker
        first = Scored(one.system.ranked, one.system.name).table(queries)
        scores = blend[0].of_run(first, keys, scores, last=blend[1])
    if how is None:
        return rescored(own, one.scored.mask(own), keys, scores)
    assert one.system.ranked is not None  # as of every aggregation
    below = Scored(one.system.ranked, how.pairs).table(queries)
    request = Request(k1=how.k1, sample=how.m, seed=how.seed)
    return aggregate_by_key(
        below,
        request.keys(below),
        keys,
        scores,
        method=how.method,
        k=request.k,
        tail=how.tail,
        scored_by=one.system.name,
        some_failed=True,
    )


def _measured(
    basis: Basis,
    query_set: str,
    own: pa.Table,
    other: pa.Table,
    judged: pa.Table | None,
    measures: Sequence[str],
) -> tuple[int, dict[str, Difference]]:
    """The number of judged queries among those of the run, and own less other by measure."""
    if judged is None or not measures:
        return 0, {}
    queries, collection = basis.queries(query_set).table(schema.QUERIES), basis.collection()
    named = [with_ids(run, queries, collection) for run in (own, other)]
    judged = judged.filter(pc.is_in(judged["query_id"], pc.unique(named[0]["query_id"])))
    number = len(pc.unique(judged["query_id"]))
    if number < 2:
        return number, {}
    values, base = (
        evaluate(run, judged, measures, warn=False, of_set=True).per_query for run in named
    )
    return number, {name: difference(values[name], base[name]) for name in measures}


def _lines(run: pa.Table, mask: Any, queries: Int64) -> Lists:
    """The lists of these queries, of those lines of a run that the mask has."""
    lists: Lists = {query: {} for query in queries.tolist()}
    for line in (
        run.filter(pa.array(mask)).select(["query_row", "passage_row", "score"]).to_pylist()
    ):
        lists[line["query_row"]][line["passage_row"]] = line["score"]
    return lists


def _pairs(scores: pa.Table, queries: Int64) -> Lists:
    """The lists of these queries' pairs, whose order means nothing."""
    lists: Lists = {query: {} for query in queries.tolist()}
    for line in scores.to_pylist():
        lists[line["query_row"]][line["passage_row"], line["other_row"]] = line["score"]
    return lists
