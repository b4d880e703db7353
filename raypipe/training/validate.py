"""Measures a checkpoint on the dev sets, in a trainer."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from numpy.typing import NDArray

from raypipe import schema
from raypipe.data.qrels import read_qrels
from raypipe.errors import InputError, RowsFailed
from raypipe.evaluation.measures import evaluate
from raypipe.models.folder.model_folder import ModelFolder
from raypipe.models.folder.settings import AnyConventions, Conventions, PairConventions
from raypipe.models.machine.device import BUDGET_TOKENS, unproven
from raypipe.models.scorer import Scorer
from raypipe.ranking.aggregate import aggregate
from raypipe.ranking.blend import Blend
from raypipe.ranking.candidates import Keys, pairs, positions, singles
from raypipe.ranking.documents import document_scores, log_odds
from raypipe.ranking.rerank import rerank
from raypipe.stages.documents.passage_map import PassageMap
from raypipe.stages.ids import ids_of_rows
from raypipe.stages.run_tables import read_queries_of_run
from raypipe.stages.scoring.token_rows import TokenRows
from raypipe.stages.sparse import products_of
from raypipe.storage.records import Json
from raypipe.text.batches import batches
from raypipe.text.inputs import Layouts, TextSlice, by_length, make_inputs, taken
from raypipe.training.checkpoints import Measurement, measured_sets
from raypipe.training.comm import Comm
from raypipe.training.job import DevPassages, DevStores, Job
from raypipe.training.pretrain import maker_of, measured_losses
from raypipe.training.start import layouts_for
from raypipe.training.trainee import Trainee

GRADES = ("query_id", "passage_id", "relevance")
"""The columns of judgements."""
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class DocumentsOfRun:
    """The passages of a dev set's documents, by the row of each."""

    run: pa.Table
    """All passages of the first k documents, schema.RUN."""
    map: PassageMap
    method: str
    k: int


@dataclass(frozen=True)
class DevData:
    """The candidates of a query set, and the judgements."""

    run: pa.Table
    """schema.RUN, each query's lines together in rank order."""
    query_ids: Mapping[int, str]
    passage_ids: Mapping[int, str]
    """The ids of the run's rows."""
    qrels: pa.Table
    queries: TokenRows
    passages: TokenRows
    k: int
    documents: DocumentsOfRun | None = None
    """Where the run ranks documents, and `passage_ids` are theirs."""


def dev_of(job: Job) -> Sequence[DevData]:
    """The dev sets in memory."""
    return [_dev(dev) for dev in job.dev]


def check_order_counts(qrels: str, data: DevData, measure: str) -> None:
    """Returns nothing if the best order of the first k candidates measures otherwise than the worst
    one.

    Raises:
        InputError: it does not.
    """
    graded = zip(*(data.qrels[name].to_pylist() for name in GRADES), strict=True)
    grades = {(query, passage): grade for query, passage, grade in graded}
    queries, passages, _ = _columns(data.run)
    of_line = np.array(
        [
            grades.get((data.query_ids[query], data.passage_ids[passage]), 0)
            for query, passage in zip(queries.tolist(), passages.tolist(), strict=True)
        ],
        np.float32,
    )
    best, worst = (_of_order(data, sign * of_line, measure, warn=False) for sign in (1, -1))
    if best == worst:
        raise InputError(
            f"{qrels}: {measure} is {best:.4f} for the best and for the worst order of the "
            f"first {data.k} candidates, so no checkpoint can be chosen by them; give a run with "
            "judged passages and others among these, a larger dev.NAME.k, or another measure"
        )


def _dev(dev: DevStores) -> DevData:
    ids = dev.queries.table(schema.QUERIES)["query_id"].to_pylist()
    qrels = read_qrels(Path(dev.qrels))
    if dev.queries_at_most is not None:
        ids = ids[: dev.queries_at_most]
    qrels = qrels.filter(pc.is_in(qrels["query_id"], pc.cast(ids, "string")))
    if not any(grade > 0 for grade in qrels["relevance"].to_pylist()):
        raise InputError(
            f"{dev.qrels}: no relevant passage for the queries that are measured on; a checkpoint "
            "cannot be chosen by them"
        )
    run = read_queries_of_run(dev.run, 0, len(ids))
    rows = sorted(set(run["passage_row"].to_pylist()))
    names = ids_of_rows(dev.collection, np.array(rows, np.int64))
    return DevData(
        run=run,
        query_ids=dict(enumerate(ids)),
        passage_ids=dict(zip(rows, names, strict=True)),
        qrels=qrels,
        queries=TokenRows(dev.query_tokens),
        passages=TokenRows(dev.passage_tokens),
        k=dev.k,
        documents=None if dev.documents is None else _documents(dev.documents, len(ids)),
    )


def _documents(dev: DevPassages, num_queries: int) -> DocumentsOfRun:
    run = read_queries_of_run(dev.run, 0, num_queries)
    return DocumentsOfRun(run, PassageMap(dev.map), dev.method, dev.k)


NAME = "checkpoint"


def measured(
    trainee: Trainee,
    model: ModelFolder,
    dev: Sequence[DevData],
    measure: str,
    comm: Comm,
    layouts: Layouts,
    *,
    warn: bool = False,
) -> list[float]:
    """The measure of the current weights on each dev set; every worker scores its share.

    A monoBERT model or an encoder reorders the first k candidates; a duoBERT model does so by SUM
    over their pairs. With `warn`, log queries that only the run or only the qrels have.
    """
    with trainee.measuring():
        return [_one(trainee, model, data, measure, comm, layouts, warn) for data in dev]


def _one(
    trainee: Trainee,
    model: ModelFolder,
    data: DevData,
    measure: str,
    comm: Comm,
    layouts: Layouts,
    warn: bool,
) -> float:
    query_rows, passage_rows, ranks = _columns(data.run)
    keys = _keys(trainee, data)
    own = np.arange(comm.rank, len(keys[0]), comm.world)
    all_scores = torch.zeros(len(keys[0]), device=trainee.device)
    mine = (keys[0][own], keys[1][own], keys[2][own])
    own_scores = torch.from_numpy(_scores(trainee, model, data, mine, layouts))
    all_scores[torch.from_numpy(own)] = own_scores.to(trainee.device)
    comm.sum_([all_scores])  # each position has one owner, so the sum is the score itself
    scores = all_scores.cpu().numpy()
    if trainee.conventions.kind == "duo":
        queries, rows, sums = aggregate(keys, scores, method="sum")
        keys, scores = (queries, rows, np.full(len(rows), -1)), sums
    else:
        keys, scores = _of_lines(trainee.conventions, data, keys, scores)
    if comm.rank == 0 and len(scores) > 1 and np.ptp(scores) == 0:
        logger.warning(
            "a dev set's %s candidates all have the score %.6g: the model tells no passage from "
            "another, and the measure is that of their order; lower optimiser.rate, or of a splade "
            "model loss.flops and loss.l1",
            f"{len(scores):,}",
            scores[0],
        )
    lines = (query_rows.astype(np.int64), passage_rows, np.full(len(ranks), -1, np.int64))
    at = positions(lines, keys)
    by_line = np.where(at >= 0, scores[at], 0).astype(np.float32)
    return _of_order(data, by_line, measure, warn=warn)


def _of_order(data: DevData, by_line: NDArray[np.float32], measure: str, *, warn: bool) -> float:
    """The measure of the run whose first k lines of each query are reordered by these scores."""
    run = rerank(data.run, by_line, k=data.k, tail="keep", scored_by=NAME)
    with_ids = pa.table(
        [
            [data.query_ids[row] for row in run["query_row"].to_pylist()],
            [data.passage_ids[row] for row in run["passage_row"].to_pylist()],
            run["rank"],
            run["score"],
        ],
        schema=schema.RUN_FILE,
    )
    return evaluate(with_ids, data.qrels, [measure], warn=warn).mean[measure]


def _columns(run: pa.Table) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int32]]:
    query_rows, passage_rows, ranks = (
        run[name].to_numpy() for name in ("query_row", "passage_row", "rank")
    )
    return query_rows, passage_rows, ranks


def _keys(trainee: Trainee, data: DevData) -> Keys:
    """The keys to score: the first k candidates, their pairs, or all passages of k documents."""
    if data.documents is not None:
        run = _columns(data.documents.run)
        return singles(*run, k0=len(run[0]))
    if trainee.conventions.kind == "duo":
        return pairs(*_columns(data.run), k1=data.k)
    return singles(*_columns(data.run), k0=data.k)


def _of_lines(
    conventions: AnyConventions, data: DevData, keys: Keys, scores: NDArray[np.float32]
) -> tuple[Keys, NDArray[np.float32]]:
    """Keys and scores by which the run's lines are ordered, from those of `_scores`."""
    documents = data.documents
    if isinstance(conventions, PairConventions) and conventions.blend:
        blend = Blend(conventions.blend, _raw(conventions).score)
        if documents is None:
            scores = blend.of_run(data.run, keys, scores, last=data.k)
        else:
            scores = blend.of_run(documents.run, keys, scores, last=documents.run.num_rows)
    elif documents is not None and isinstance(conventions, PairConventions):
        if conventions.relevant_label is not None:
            scores = log_odds(scores).astype(np.float32)  # the difference of the two units
    return (keys, scores) if documents is None else _of_documents(documents, keys, scores)


def _of_documents(
    documents: DocumentsOfRun, keys: Keys, scores: NDArray[np.float32]
) -> tuple[Keys, NDArray[np.float32]]:
    """Keys and scores of documents, over those of their passages."""
    queries, rows, found = document_scores(
        keys[0],
        documents.map.documents(keys[1]),
        documents.map.windows(keys[1]),
        scores,
        method=documents.method,
        k=documents.k,
    )
    return (queries, rows, np.full(len(rows), -1, np.int64)), found


def _raw(conventions: PairConventions) -> PairConventions:
    """The settings with the score from which a document's raw score, or a blend's f, is made."""
    scale = "raw" if conventions.relevant_label is None else "log-probability"
    return replace(conventions, score=scale)


def _scores(
    trainee: Trainee, model: ModelFolder, data: DevData, keys: Keys, layouts: Layouts
) -> NDArray[np.float32]:
    """One score per key, float32."""
    if isinstance(trainee.conventions, Conventions):
        query, passage = data.queries.part(keys[0]), data.passages.part(keys[1])
        return _products(trainee, query, passage, trainee.conventions, layouts)
    assert isinstance(trainee.conventions, PairConventions)
    conventions = trainee.conventions
    if data.documents is not None or conventions.blend:
        conventions = _raw(conventions)
    as_trained = replace(model, conventions=conventions)
    place = unproven(trainee.device)
    scorer = Scorer(as_trained, trainee.body(), trainee.head(), layouts, place)
    query_rows, *sides = keys[: 1 + conventions.num_passages]
    return scorer.score(data.queries.part(query_rows), [data.passages.part(s) for s in sides])


def _products(
    trainee: Trainee,
    query: TextSlice,
    passage: TextSlice,
    conventions: Conventions,
    layouts: Layouts,
) -> NDArray[np.float32]:
    """The inner product of each query with its passage, as RepBERT's training measures.

    That of a splade model is of impacts, the whole numbers that are stored: a checkpoint is chosen
    by the scores of the search that it is for.

    Raises:
        InputError: a splade model's weights are not finite, or beyond what is stored.
    """
    scores = np.empty(len(query.counts), np.float32)
    texts = {
        "query": replace(query, counts=np.minimum(query.counts, conventions.query_limit)),
        "passage": replace(passage, counts=np.minimum(passage.counts, conventions.passage_limit)),
    }
    of_query, of_passage = (layouts[side].lengths([texts[side].counts]) for side in texts)
    for rows in batches(of_query + of_passage, budget_tokens=BUDGET_TOKENS[trainee.device]):
        made = [make_inputs([taken(texts[side], rows)], layouts[side]) for side in texts]
        inputs, order = by_length(made)
        vectors = trainee.vectors(inputs).cpu().numpy()[np.argsort(order)]
        one, other = vectors[: len(rows)], vectors[len(rows) :]
        if conventions.is_sparse:
            scores[rows] = _of_impacts(one, other, conventions)
        else:
            scores[rows] = (one * other).sum(axis=1)
    return scores


def _of_impacts(
    queries: NDArray[np.float32], passages: NDArray[np.float32], own: Conventions
) -> NDArray[np.float32]:
    reason = "a word's weight is not finite"
    if np.isfinite(queries).all() and np.isfinite(passages).all():
        try:
            return products_of(queries, passages, own.max_terms, own.impact_scale)
        except RowsFailed as failed:
            reason = failed.reason
    raise InputError(
        f"a dev set's texts: {reason}; lower optimiser.rate or train in fp32. Checkpoints up to "
        "here are kept"
    )


class DevMeasures:
    """Measures on the dev sets, which are opened once."""

    def __init__(self, job: Job) -> None:
        """Raises InputError if a dev set cannot be measured on, or tells no checkpoint apart."""
        self._job, self._dev, self._layouts = job, dev_of(job), layouts_for(job)
        validate = job.recipe.validate_
        for dev, data in zip(job.dev, self._dev, strict=True):
            assert validate is not None
            check_order_counts(dev.qrels, data, validate.measure)
        self._maker = maker_of(job) if job.is_pretraining else None
        self._warn = True  # about queries without candidates, only once

    def values(self, trainee: Trainee, comm: Comm) -> list[float]:
        """The measure of the current weights on each dev set, in every worker.

        Of a pre-training, the masked-word loss on the held-out inputs of each of its sets.
        """
        validate = self._job.recipe.validate_
        assert validate is not None
        if self._maker is not None:
            return measured_losses(trainee, self._maker, comm)
        values = measured(
            trainee,
            self._job.start,
            self._dev,
            validate.measure,
            comm,
            self._layouts,
            warn=self._warn and comm.rank == 0,
        )
        self._warn = False
        return values


def progress_of(job: Job, measurement: Measurement) -> dict[str, Json]:
    """A measurement as a line of the training's progress."""
    assert job.recipe.validate_ is not None
    of = dict(zip(measured_sets(job.recipe), measurement["values"], strict=True))
    facts = {"step": measurement["step"], "measure": job.recipe.validate_.measure}
    return {**facts, "mean": measurement["mean"], "of": of}
