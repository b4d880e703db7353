"""A model's settings as data: the inputs that its weights expect and the meaning of its outputs."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Annotated, Any

from pydantic import ConfigDict, Field

from raypipe.models.folder.schema import (
    MAX_CHARACTERS,
    FileName,
    Flag,
    MaybePieces,
    Pieces,
    Segment,
    Text,
    Words,
    one_of,
    schema_problems,
)
from raypipe.text.prompts import DUO_PLACES, MONO_PLACES, prompt_problems
from raypipe.vocabulary import Precision, ScoreScale, words

DOCUMENTED = 'docs/commands.md, "Models", says what each key means'
POOLINGS = ("mean", "cls", "max", "last")
SEGMENT_ROWS = ("zero", "copy")
LEAST_TOKENS = 8
"""Of an input of pre-training: two texts and their special tokens."""
CLOSED = ConfigDict(extra="forbid")
_Precision = Annotated[str | None, one_of(*words(Precision), "null")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Conventions:
    """How an encoder's inputs are built and its output is read; part of the fingerprint."""

    __pydantic_config__ = CLOSED
    kind: Annotated[str, one_of("encoder")] = "encoder"
    pooling: Annotated[str, one_of(*POOLINGS)]
    """mean or max over all tokens, [CLS] and [SEP] included, or cls or last, one token's."""
    normalise: Flag
    """Whether embeddings are normalised to length 1, after all else."""
    query_segment: Segment
    passage_segment: Segment
    query_limit: Pieces
    """Word pieces of a query, without special tokens."""
    passage_limit: Pieces
    """Word pieces of a passage, without special tokens."""
    query_prefix: Words = ""
    passage_prefix: Words = ""
    dense: Annotated[
        tuple[FileName, ...], Field(description="a list of folders' names, and normalise")
    ] = ()
    """What follows pooling, in order: folders of dense layers, such as 2_Dense, and `normalise`.
    The layers' content is in the fingerprint, not their folders' names."""
    truncate_dim: Annotated[
        int | None, Field(strict=True, ge=1, description="a count of dimensions or null")
    ] = None
    """How many of the first dimensions are kept, after dense layers; None means all."""
    precision: _Precision = None
    """fp32, tf32, bf16 or fp16; None means that of the invocation, or else fp32."""
    start_weights_saw: Words = "not stated"
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

    __pydantic_config__ = CLOSED
    kind: Annotated[str, one_of("mono", "duo")]
    """mono or duo."""
    query_limit: MaybePieces
    """Word pieces of a query, without special tokens; None means that the longest text is cut
    first."""
    passage_limit: MaybePieces
    """Word pieces of each passage; None means what total_limit leaves, in equal parts for two
    passages."""
    total_limit: Annotated[int, Field(strict=True, description="a count of tokens")]
    """Tokens of the whole input, with special tokens."""
    relevant_label: Annotated[
        int | None, Field(strict=True, ge=0, le=1, description="0, 1 or null")
    ]
    """The unit for relevant (duoBERT: i more than j); None if the head has one unit."""
    score: Annotated[str, one_of(*words(ScoreScale))]
    """log-probability or probability of that unit, or raw, its logit; for duoBERT, probability."""
    segment_row: Annotated[str | None, one_of(*SEGMENT_ROWS, "null")] = None
    """A duoBERT model's third segment if the checkpoint has two rows: zero, or copy (of row 1)."""
    first_tokenizer: Flag = False
    """Whether texts become word pieces as in BERT's first code: a run of Chinese characters is one
    word, and `[SEP]` in a text is no special token."""
    prompt: Annotated[
        str | None,
        Field(strict=True, max_length=MAX_CHARACTERS, description="text beside answers"),
    ] = None
    """The input as text, with {query} and {passage}, or a duoT5 model's {query}, {passage_0} and
    {passage_1}; None for BERT's inputs."""
    answers: Annotated[
        tuple[Text, Text] | None,
        Field(description="the words of units 0 and 1", examples=[["false", "true"]]),
    ] = None
    """The words whose logits are units 0 and 1 of a model that reads a prompt."""
    query_prefix: Words = ""
    passage_prefix: Words = ""
    precision: _Precision = None
    """fp32, tf32, bf16, fp16 or int8; None means that of the invocation, or else fp32."""
    blend: Annotated[
        float, Field(strict=True, ge=0, allow_inf_nan=False, description="a number from 0")
    ] = 0.0
    """The weight a in the score of a monoBERT model's ranking, s = a z + f: see `ranking.blend`.
    Its scores themselves, f, do not depend on it. 0 means f alone."""
    start_weights_saw: Words = "not stated"
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

    __pydantic_config__ = CLOSED
    kind: Annotated[str, one_of("pretrained")] = "pretrained"
    total_limit: Annotated[
        int, Field(strict=True, ge=LEAST_TOKENS, description=f"{LEAST_TOKENS} tokens or more")
    ]
    """Tokens of the whole input, with special tokens."""
    start_weights_saw: Words = "not stated"
    """What the weights were trained on, for tables; not part of the fingerprint."""

    def to_json(self) -> dict[str, Any]:
        """The settings in a fingerprint."""
        return _without_words(asdict(self))

    def prefix(self, side: str) -> str:
        """No text is put before another."""
        return ""


AnyConventions = Conventions | PairConventions | PretrainedConventions


def settings_problems(kinds: type[AnyConventions], body: Mapping[str, Any]) -> list[str]:
    """The problems of settings that no model can have, key by key; empty if there are none.

    Keys that contradict each other are compared once each is right for itself.
    """
    problems = schema_problems(kinds, body, missing=DOCUMENTED)
    if problems:
        return problems
    settings = kinds(**body)
    return _pair_problems(settings) if isinstance(settings, PairConventions) else []


def conventions_problems(found: AnyConventions) -> list[str]:
    """The same of settings that were made in Python."""
    return settings_problems(type(found), {f.name: getattr(found, f.name) for f in fields(found)})


def _pair_problems(found: PairConventions) -> list[str]:
    """What a reranker's settings say that is right key by key, and not together."""
    problems = _prompt_problems(found)
    fewest = 2 * found.num_passages + 3
    if found.total_limit < fewest:
        problems.append(f"total_limit: expected {fewest} tokens or more, found {found.total_limit}")
    if problems:
        return problems
    if found.kind == "duo" and found.score != "probability":
        problems.append(f"score: a duoBERT model's is probability, found {found.score}")
    if found.kind == "duo" and found.blend:
        problems.append(f"blend: only for a monoBERT model, found {found.blend:g}; remove it")
    if found.kind == "duo" and found.query_limit is None:
        problems.append("query_limit: expected a count of word pieces for duoBERT, found null")
    if found.query_limit is None and found.passage_limit is not None:
        problems.append("passage_limit: if the longest text is cut first, a passage has no limit")
    if found.query_limit is not None and found.prompt is None:  # else see `prompt_layout`
        least = found.query_limit + 2 + found.num_passages * (1 + (found.passage_limit or 1))
        if least > found.total_limit:
            problems.append(
                f"total_limit: {found.total_limit} tokens do not hold the other limits, which "
                f"need {least}"
            )
    return problems


def _prompt_problems(found: PairConventions) -> list[str]:
    """The problems of a prompt and its answers, and of keys that such a model does not have."""
    prompt, answers = found.prompt, found.answers
    if prompt is None and answers is None:
        return []
    if prompt is None:
        return ["prompt: expected text beside answers, found None"]
    problems = prompt_problems(prompt, DUO_PLACES if found.kind == "duo" else MONO_PLACES)
    if answers is None:
        problems.append(
            'answers: expected the words of units 0 and 1, found None; as in ["false", "true"], '
            "with quotes also in YAML"
        )
    elif answers[0] == answers[1]:
        problems.append(f"answers: expected two words, found {answers[0]!r} twice")
    if found.relevant_label is None:
        problems.append("relevant_label: expected 0 or 1, the place in answers, found null")
    without = {"segment_row": found.segment_row, "first_tokenizer": found.first_tokenizer or None}
    problems += [
        f"{name}: only for a BERT's inputs, not for a prompt; remove it"
        for name, value in without.items()
        if value is not None
    ]
    return problems


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
