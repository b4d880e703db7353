"""A model's conventions as data: what its weights expect and its numbers mean."""

from dataclasses import asdict, dataclass
from typing import Any

from raypipe.vocabulary import ScoreScale, words

POOLINGS = ("mean", "cls")
SCORES = words(ScoreScale)
SEGMENT_ROWS = ("zero", "copy")


@dataclass(frozen=True, slots=True, kw_only=True)
class Conventions:
    """How an encoder is fed and read; part of the fingerprint."""

    kind: str = "encoder"
    pooling: str
    """mean over all tokens, [CLS] and [SEP] included, or cls."""
    normalise: bool
    """Whether embeddings have length 1."""
    query_segment: int
    passage_segment: int
    query_limit: int
    """Word pieces of a query, specials not counted."""
    passage_limit: int
    """Word pieces of a passage, specials not counted."""
    query_prefix: str = ""
    passage_prefix: str = ""
    start_weights_saw: str = "not stated"
    """What training the weights have seen, for tables; not part of the fingerprint."""

    def to_json(self) -> dict[str, Any]:
        """What a fingerprint holds."""
        return _without_words(asdict(self))

    def limit(self, side: str) -> int:
        """Word pieces kept of a query or passage."""
        return self.query_limit if side == "query" else self.passage_limit

    def segment(self, side: str) -> int:
        """Segment id of every token of a query or passage."""
        return self.query_segment if side == "query" else self.passage_segment

    def prefix(self, side: str) -> str:
        """Text put before a query or passage."""
        return self.query_prefix if side == "query" else self.passage_prefix


@dataclass(frozen=True, slots=True, kw_only=True)
class PairConventions:
    """How a reranker is fed and read; part of the fingerprint.

    A mono model reads [CLS] query [SEP] passage [SEP] in segments 0 and 1, a duo model
    [CLS] query [SEP] passage i [SEP] passage j [SEP] in segments 0, 1 and 2; each [SEP] has the
    segment of what it ends. `text.pairs.piece_counts` says how the limits cut.
    """

    kind: str
    """mono or duo."""
    query_limit: int | None
    """Word pieces of a query, specials not counted; None: the longest is cut first."""
    passage_limit: int | None
    """Word pieces of each passage; None: what total_limit leaves, a duo's two in equal parts."""
    total_limit: int
    """Tokens of the whole input, specials counted."""
    relevant_label: int | None
    """The unit that says relevant (of a duo: i more than j); None where the head has one unit."""
    score: str
    """log-probability or probability of that unit, or raw, its logit; a duo's is probability."""
    segment_row: str | None = None
    """What a duo's third segment is where the checkpoint has two rows: zero, or copy of row 1."""
    query_prefix: str = ""
    passage_prefix: str = ""
    start_weights_saw: str = "not stated"
    """What training the weights have seen, for tables; not part of the fingerprint."""

    @property
    def num_passages(self) -> int:
        """Passages of one input."""
        return 2 if self.kind == "duo" else 1

    @property
    def segments(self) -> tuple[int, ...]:
        """Segment of the query and of each passage."""
        return tuple(range(1 + self.num_passages))

    def to_json(self) -> dict[str, Any]:
        """What a fingerprint holds."""
        return _without_words(asdict(self))

    def prefix(self, side: str) -> str:
        """Text put before a query or passage."""
        return self.query_prefix if side == "query" else self.passage_prefix


AnyConventions = Conventions | PairConventions


def _without_words(body: dict[str, Any]) -> dict[str, Any]:
    del body["start_weights_saw"]
    return body
