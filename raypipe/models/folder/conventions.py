"""A model's settings as data: the inputs that its weights expect and the meaning of its outputs."""

from dataclasses import asdict, dataclass
from typing import Any

from raypipe.vocabulary import ScoreScale, words

POOLINGS = ("mean", "cls", "max", "last")
SCORES = words(ScoreScale)
SEGMENT_ROWS = ("zero", "copy")


@dataclass(frozen=True, slots=True, kw_only=True)
class Conventions:
    """How an encoder's inputs are built and its output is read; part of the fingerprint."""

    kind: str = "encoder"
    pooling: str
    """mean or max over all tokens, [CLS] and [SEP] included, or cls or last, one token's."""
    normalise: bool
    """Whether embeddings are normalised to length 1, after all else."""
    query_segment: int
    passage_segment: int
    query_limit: int
    """Word pieces of a query, without special tokens."""
    passage_limit: int
    """Word pieces of a passage, without special tokens."""
    query_prefix: str = ""
    passage_prefix: str = ""
    dense: tuple[str, ...] = ()
    """What follows pooling, in order: folders of dense layers, such as 2_Dense, and `normalise`.
    The layers' content is in the fingerprint, not their folders' names."""
    truncate_dim: int | None = None
    """How many of the first dimensions are kept, after dense layers; None means all."""
    precision: str | None = None
    """fp32, tf32, bf16 or fp16; None means that of the invocation, or else fp32."""
    start_weights_saw: str = "not stated"
    """What the weights were trained on, for tables; not part of the fingerprint."""

    def __post_init__(self) -> None:
        """A list, as JSON has it, becomes a tuple: settings are keys of mappings."""
        if isinstance(self.dense, list):
            object.__setattr__(self, "dense", tuple(self.dense))

    def to_json(self) -> dict[str, Any]:
        """The settings in a fingerprint, without dense layers: see `ModelFolder.forward_config`."""
        body = _without_words(asdict(self))
        del body["dense"]
        if self.truncate_dim is None:  # so older stores keep their fingerprints
            del body["truncate_dim"]
        return body

    def limit(self, side: str) -> int:
        """Number of word pieces kept of a query or passage."""
        return self.query_limit if side == "query" else self.passage_limit

    def segment(self, side: str) -> int:
        """Segment id of every token of a query or passage."""
        return self.query_segment if side == "query" else self.passage_segment

    def prefix(self, side: str) -> str:
        """Text put before a query or passage."""
        return self.query_prefix if side == "query" else self.passage_prefix


@dataclass(frozen=True, slots=True, kw_only=True)
class PairConventions:
    """How a reranker's inputs are built and its output is read; part of the fingerprint.

    A monoBERT model reads [CLS] query [SEP] passage [SEP] in segments 0 and 1, a duoBERT model
    [CLS] query [SEP] passage i [SEP] passage j [SEP] in segments 0, 1 and 2; each [SEP] has the
    segment of the text before it. A model of T5's architecture reads a prompt, without segments.
    `text.inputs.cut_to` applies the limits.
    """

    kind: str
    """mono or duo."""
    query_limit: int | None
    """Word pieces of a query, without special tokens; None means that the longest text is cut
    first."""
    passage_limit: int | None
    """Word pieces of each passage; None means what total_limit leaves, in equal parts for two
    passages."""
    total_limit: int
    """Tokens of the whole input, with special tokens."""
    relevant_label: int | None
    """The unit for relevant (duoBERT: i more than j); None if the head has one unit."""
    score: str
    """log-probability or probability of that unit, or raw, its logit; for duoBERT, probability."""
    segment_row: str | None = None
    """A duoBERT model's third segment if the checkpoint has two rows: zero, or copy (of row 1)."""
    first_tokenizer: bool = False
    """Whether texts become word pieces as in BERT's first code: a run of Chinese characters is one
    word, and `[SEP]` in a text is no special token."""
    prompt: str | None = None
    """The input as text, with {query} and {passage}, or a duoT5 model's {query}, {passage_0} and
    {passage_1}; None for BERT's inputs."""
    answers: tuple[str, str] | None = None
    """The words whose logits are units 0 and 1 of a model that reads a prompt."""
    query_prefix: str = ""
    passage_prefix: str = ""
    precision: str | None = None
    """fp32, tf32, bf16, fp16 or int8; None means that of the invocation, or else fp32."""
    blend: float = 0.0
    """The weight a in the score of a monoBERT model's ranking, s = a z + f: see `ranking.blend`.
    Its scores themselves, f, do not depend on it. 0 means f alone."""
    start_weights_saw: str = "not stated"
    """What the weights were trained on, for tables; not part of the fingerprint."""

    def __post_init__(self) -> None:
        """A list of answers, as JSON has them, becomes a tuple."""
        if isinstance(self.answers, list):
            object.__setattr__(self, "answers", tuple(self.answers))

    @property
    def three_segments(self) -> bool:
        """Whether the model is a duoBERT, whose segment table needs a third row."""
        return self.kind == "duo" and self.prompt is None

    @property
    def num_passages(self) -> int:
        """Number of passages in one input."""
        return 2 if self.kind == "duo" else 1

    @property
    def segments(self) -> tuple[int, ...]:
        """Segment of the query and of each passage."""
        return tuple(range(1 + self.num_passages))

    def to_json(self) -> dict[str, Any]:
        """The settings in a fingerprint of scores, which do not depend on the blend."""
        body = _without_words(asdict(self))
        del body["blend"]
        return body

    def prefix(self, side: str) -> str:
        """Text put before a query or passage."""
        return self.query_prefix if side == "query" else self.passage_prefix


@dataclass(frozen=True, slots=True, kw_only=True)
class PretrainedConventions:
    """How a checkpoint of BERT's own pre-training reads texts; it neither encodes nor scores.

    Its inputs are [CLS] text [SEP] in segment 0, or, with next-sentence prediction,
    [CLS] A [SEP] B [SEP] in segments 0 and 1.
    """

    kind: str = "pretrained"
    total_limit: int
    """Tokens of the whole input, with special tokens."""
    start_weights_saw: str = "not stated"
    """What the weights were trained on, for tables; not part of the fingerprint."""

    def to_json(self) -> dict[str, Any]:
        """The settings in a fingerprint."""
        return _without_words(asdict(self))

    def prefix(self, side: str) -> str:
        """No text is put before another."""
        return ""


AnyConventions = Conventions | PairConventions | PretrainedConventions


def _without_words(body: dict[str, Any]) -> dict[str, Any]:
    del body["start_weights_saw"]
    if not body.get("first_tokenizer", True):  # so older stores keep their fingerprints
        del body["first_tokenizer"]
    for name in ("prompt", "answers"):
        if body.get(name, "") is None:  # likewise
            del body[name]
    if body.get("precision", "fp32") in (None, "fp32"):  # likewise
        body.pop("precision", None)
    return body
