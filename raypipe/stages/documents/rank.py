"""The stages between runs of passages and runs of documents."""

from functools import partial
from typing import Literal

import numpy as np
import pyarrow as pa

from raypipe.ranking.documents import document_run, log_odds, passage_run, probabilities
from raypipe.ranking.order import ranks
from raypipe.stages.documents.passage_map import PassageMap
from raypipe.stages.excluded import NOTHING, Excluded
from raypipe.stages.run_tables import read_queries_of_run
from raypipe.stages.tables import Sides, TableStage, num_lines
from raypipe.storage.records import Json, Shard
from raypipe.storage.store import Stored, spec_over

Conversion = Literal["none", "log-odds", "probability", "probability-of-log"]
"""What becomes of a score before it is aggregated: nothing; the log-odds of a log-probability; the
probability of log-odds, or of a log-probability."""
_CONVERT = {
    "none": None,
    "log-odds": log_odds,
    "probability": probabilities,
    "probability-of-log": lambda scores: np.exp(scores.astype(np.float64)),
}


def documents_run_stage(
    name: str,
    run: Stored,
    passage_map: Stored,
    sides: Sides,
    method: str,
    k: int | None,
    conversion: Conversion,
    depth: int,
) -> TableStage:
    """A run of documents from a run of their passages; see ranking.documents for the methods.

    Args:
        name: of the run of documents.
        run: of passages.
        passage_map: see MapStage.
        sides: the queries and the documents.
        method: how the scores of a document's passages become its own.
        k: of k-max-avgp; None of the other methods.
        conversion: what becomes of a passage's score first.
        depth: number of documents that are kept of each query.
    """
    params: dict[str, Json] = {"method": method, "depth": depth, "k": k, "conversion": conversion}
    stores = {"run": run, "map": passage_map} | sides.stores()

    def block(shard: Shard) -> pa.Table:
        lines, known = read_queries_of_run(run, shard.start, shard.stop), PassageMap(passage_map)
        rows = lines["passage_row"].to_numpy()
        return document_run(
            lines,
            known.documents(rows),
            known.windows(rows),
            method=method,
            scored_by=name,
            k=k or 1,
            depth=depth,
            convert=_CONVERT[conversion],
        )

    spec = partial(spec_over, "documents-run", 1, params, stores, produces="run")

    def most() -> int:
        of_query = min(depth, sides.collection.num_rows)
        return min(of_query * sides.queries.num_rows, num_lines(run))

    return TableStage(name, spec, stores, block, most)


def passages_run_stage(
    name: str,
    run: Stored,
    passage_map: Stored,
    sides: Sides,
    documents: int,
    at_most: int | None,
    excluded: Excluded = NOTHING,
) -> TableStage:
    """A run of all passages of a run's documents, in the order of the documents.

    Args:
        name: of the run of passages.
        run: of documents.
        passage_map: see MapStage.
        sides: the queries and the passages.
        documents: number of documents of each query whose passages are taken.
        at_most: number of passages of a document, the first ones; None for all.
        excluded: passages that are not taken.
    """
    params: dict[str, Json] = {"documents": documents, "at_most": at_most}
    stores = {"run": run, "map": passage_map} | sides.stores() | excluded.stores()

    def block(shard: Shard) -> pa.Table:
        lines = read_queries_of_run(run, shard.start, shard.stop)
        lines = lines.filter(pa.array(lines["rank"].to_numpy() <= documents))
        known = PassageMap(passage_map)
        most = None if at_most is None else excluded.depth(at_most, shard.start, shard.stop)
        places, rows = known.passages(lines["passage_row"].to_numpy(), most)
        stays = excluded.keeps(lines["query_row"].to_numpy()[places], rows)
        places, rows = places[stays], rows[stays]
        if at_most is not None:
            first = ranks(places) <= at_most
            places, rows = places[first], rows[first]
        return passage_run(lines, places, rows, scored_by=name)

    def most() -> int:  # with the mean number of passages of a document, rounded up
        facts = passage_map.manifest.records[0].facts
        of_document = -(-int(facts["rows"]) // int(facts["documents"]))
        if at_most is not None:
            of_document = min(of_document, at_most)
        return min(documents * sides.queries.num_rows, num_lines(run)) * of_document

    spec = partial(spec_over, "passages-run", 1, params, stores, produces="run")
    return TableStage(name, spec, stores, block, most)
