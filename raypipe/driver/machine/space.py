"""Free space against the plan, before work starts."""

from collections.abc import Sequence

from raypipe.errors import InputError
from raypipe.stages.bm25 import Bm25Stage, IndexStage
from raypipe.stages.encode import EncodeStage
from raypipe.stages.fuse import FuseStage
from raypipe.stages.scoring.candidates import CandidatesStage, Request
from raypipe.stages.scoring.rerank import AggregateStage, PairsStage, RerankStage
from raypipe.stages.scoring.score import ScoreStage
from raypipe.stages.scoring.token_rows import PassageTokensStage
from raypipe.stages.search import MergeStage, PartsStage
from raypipe.stages.stage import Stage
from raypipe.stages.texts.ids import IdsStage
from raypipe.stages.texts.prepare import ConvertStage
from raypipe.stages.texts.tokenize import TokenizeStage
from raypipe.storage.ledger import Ledger
from raypipe.storage.records import Shard
from raypipe.storage.storage import Storage
from raypipe.storage.stored import Stored

RUN_ROW_BYTES = 32
"""Query row, passage row, score, rank, and the name of what scored it."""
ID_BYTES = 24
UNPACKED = 5
"""Bytes of text in a byte of a compressed file, about."""
_CANDIDATE_BYTES = 20
_SCORE_BYTES = 24
LUCENE_BYTES = 3
"""Bytes of Lucene folder and packed copy for a byte of stored passages."""


def check_space(storage: Storage, stage: Stage, ledger: Ledger) -> None:
    """Nothing, where the pending shards fit the free space of the stores.

    Raises:
        InputError: they do not; needed and free bytes are named.
    """
    free = storage.free_bytes()
    if free is None:
        return
    needed = estimated_bytes(stage, ledger.shards, ledger.pending())
    if needed > free:
        raise InputError(
            f"{ledger.store}: {storage.uri}: expected {_size(needed)} free for the shards that "
            f"are missing, found {_size(free)}; free space there, or name another place with "
            "the recipe key `stores`. What is committed stays"
        )


def estimated_bytes(stage: Stage, planned: Sequence[Shard], pending: Sequence[Shard]) -> int:
    """About how many bytes the pending shards of a stage take; 0 where they are small."""
    num_rows = sum(shard.num_rows for shard in pending)
    match stage:
        case ConvertStage(facts=facts):
            whole = sum(f.num_bytes * (UNPACKED if f.compressed else 1) for f in facts)
        case TokenizeStage(texts=texts):
            whole = _stored_bytes(texts) + 8 * texts.num_rows
        case IndexStage(collection=collection):
            whole = LUCENE_BYTES * _stored_bytes(collection)
        case IdsStage():
            return ID_BYTES * num_rows
        case EncodeStage(model=model):
            return 2 * int(model.config()["hidden_size"]) * num_rows
        case Bm25Stage(depth=depth) | PartsStage(depth=depth):
            return RUN_ROW_BYTES * depth * num_rows
        case MergeStage(depth=depth) | FuseStage(depth=depth):
            return RUN_ROW_BYTES * depth * num_rows
        case CandidatesStage(run_store=run, request=request):
            return _CANDIDATE_BYTES * _wanted(run, request)
        case PassageTokensStage(collection=collection):
            whole = _stored_bytes(collection) * num_rows // max(1, collection.num_rows)
            return whole + 8 * num_rows
        case ScoreStage():
            return _SCORE_BYTES * num_rows
        case PairsStage(run_store=run, request=request):
            return _SCORE_BYTES * _wanted(run, request)
        case RerankStage(run_store=run) | AggregateStage(run_store=run):
            return RUN_ROW_BYTES * _lines(run)
        case _:
            return 0
    return whole * num_rows // max(1, sum(shard.num_rows for shard in planned))


def _lines(run: Stored) -> int:
    return sum(int(record.facts["rows"]) for record in run.manifest.records)


def _wanted(run: Stored, request: Request) -> int:
    """At most so many candidates: each line with each of the others that it is paired with."""
    if request.k1 is None:
        return _lines(run)
    others = request.k1 - 1 if request.sample is None else min(request.sample, request.k1 - 1)
    return min(_lines(run), request.k1 * run.num_rows) * others


def _stored_bytes(stored: Stored) -> int:
    return sum(record.num_bytes for record in stored.manifest.records)


def _size(num_bytes: int) -> str:
    """`1.5 GB (1,500,000,000 bytes)`."""
    return f"{num_bytes / 1e9:.1f} GB ({num_bytes:,} bytes)"
