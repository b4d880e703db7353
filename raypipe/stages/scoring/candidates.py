"""The candidates that remain to be scored: one part of a growing table of scores.

Scores are kept by model, collection and queries, whatever run requested them. Part n of a table is
two stores: the candidates, fixed by the first worker to commit them, and their scores. A request
gets a part with the candidates that no earlier part has committed; it may be empty.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from raypipe import schema
from raypipe.errors import IncompleteError
from raypipe.ranking.candidates import Keys, missing, positions
from raypipe.stages.scoring.requests import Asking
from raypipe.stages.stage import Beat, Needs, Opened, Payload, Rows, Site, Sizing
from raypipe.storage.payloads import read_table, write_table
from raypipe.storage.records import Shard
from raypipe.storage.spec import StageSpec
from raypipe.storage.store import Stored

CANDIDATE_BYTES = 20
SCORE_BYTES = 24
IN_COMMON = (
    "scores that an earlier request over another run has in common with this one are counted twice"
)


@dataclass(frozen=True)
class Part:
    """One part of a table of scores."""

    candidates: Stored
    scores: Stored | None
    """Its committed scores; None before they are planned."""

    def keys(self, start: int = 0, stop: int | None = None) -> Keys:
        """The part's candidates of rows [start, stop)."""
        (record,) = self.candidates.manifest.records
        path = self.candidates.path(record)
        return keys_of(read_table(path, schema.CANDIDATES, start=start, stop=stop))

    @property
    def sha256(self) -> str:
        """Hash of the candidates, which their store's fingerprint does not determine."""
        return self.candidates.manifest.records[0].sha256

    @property
    def num_rows(self) -> int:
        """Number of candidates of the part."""
        return int(self.candidates.manifest.records[0].facts["rows"])

    def scored(self, queries: tuple[int, int] | None = None) -> pa.Table:
        """Committed scores (schema.SCORES) of query rows [start, stop), and some of other rows."""
        tables = []
        for record in self.scores.manifest.records if self.scores else ():
            first, last = record.facts["first_query"], record.facts["last_query"]
            if queries is None or (first < queries[1] and last >= queries[0]):
                assert self.scores is not None
                tables.append(read_table(self.scores.path(record), schema.SCORES))
        return pa.concat_tables(tables) if tables else schema.SCORES.empty_table()

    def failed(self) -> Keys:
        """Candidates in quarantine: they have no score and are never ranked."""
        rows = self.scores.manifest.skipped_rows if self.scores else ()
        whole = self.keys() if rows else _NO_KEYS
        first, second, third = (part[list(rows)] for part in whole)
        return first, second, third


def keys_of(table: pa.Table) -> Keys:
    """The key columns of candidates or scores, int64."""
    names = ("query_row", "passage_row", "other_row")
    first, second, third = (table[name].to_numpy().astype(np.int64) for name in names)
    return first, second, third


def passages_of(keys: Keys) -> NDArray[np.int64]:
    """Rows of the passages among candidates, ascending, each once."""
    distinct = np.unique(np.concatenate(keys[1:]))
    return distinct[distinct >= 0]


def find_scores(
    parts: Sequence[Part], wanted: Keys, queries: tuple[int, int], *, what: str
) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """(scores float32 [N], NaN for a missing one; whether each is in quarantine, bool [N]).

    Raises:
        IncompleteError: no part has scored some candidates; the message gives their number.
    """
    tables = [part.scored(queries) for part in parts]
    held = pa.concat_tables(tables) if tables else schema.SCORES.empty_table()
    places = positions(wanted, keys_of(held))
    scores = np.full(len(places), np.nan, np.float32)
    found = places >= 0
    scores[found] = held["score"].to_numpy()[places[found]]
    failed = np.zeros(len(places), bool)
    for part in parts:
        failed |= ~missing(wanted, part.failed())
    failed &= ~found
    lacking = int((~found & ~failed).sum())
    if lacking:
        raise IncompleteError(
            f"{what}: {lacking} of {len(places)} candidates have no score; score them first: "
            "a missing score is never made up"
        )
    return scores, failed


def unscored(
    wanted: Keys, parts: Sequence[Part], beat: Callable[[], None] = lambda: None
) -> NDArray[np.bool_]:
    """Whether each candidate is neither scored in a part nor in quarantine there, bool [N]."""
    lacking = np.ones(len(wanted[0]), bool)
    for part in parts:
        beat()
        lacking &= missing(wanted, keys_of(part.scored()))
        lacking &= missing(wanted, part.failed())
    return lacking


@dataclass(frozen=True)
class CandidatesStage:
    """The requested candidates that no earlier part has committed; fixed once."""

    base: StageSpec
    """What the scores depend on; see score.score_base."""
    part: int
    run_store: Stored
    request: Asking
    held: tuple[Part, ...]
    needs: Needs = Needs()
    skips_rows: ClassVar[bool] = False

    @property
    def spec(self) -> StageSpec:
        """The table and the number of the part; the first to commit the part fixes its content."""
        return candidates_spec(self.base, self.part)

    def shards(self, sizing: Sizing) -> list[Shard]:
        """One shard; its record has the number of rows."""
        return [Shard(0, 0, 1)]

    def estimated_bytes(self, num_rows: int, num_planned: int) -> int:
        """See Stage."""
        return CANDIDATE_BYTES * self.request.num_candidates(self.run_store)

    def open(self, site: Site) -> Opened:
        """See Stage; the payload is schema.CANDIDATES, sorted."""
        return Opened(partial(self._run, site.scratch))

    def _run(self, scratch: Path, shard: Shard, skip: Rows, beat: Beat) -> Payload:
        beat(())
        wanted = self.request.keys(self.run_store.whole_table(schema.RUN))
        lacking = unscored(wanted, self.held, lambda: beat(()))
        first, second, third = (column[lacking] for column in wanted)
        table = pa.table([first.astype(np.int32), second, third], schema=schema.CANDIDATES)
        path = scratch / "candidates.parquet"
        num_rows = write_table(path, schema.CANDIDATES, [table])
        asked = self.request.digest(self.run_store)
        return Payload(path, {"rows": num_rows, "request": asked, "wanted": len(lacking)})


def candidates_spec(base: StageSpec, part: int) -> StageSpec:
    """The spec of part n of a table of scores, from 1."""
    inputs = {"scores": base.fingerprint()}
    return StageSpec("candidates", 1, {"part": part}, inputs, "candidates")


_NONE = np.empty(0, np.int64)
_NO_KEYS: Keys = (_NONE, _NONE, _NONE)
