"""A model's settings as data: the inputs that its weights expect and the meaning of its outputs.

They are checked by pydantic. A key is `Annotated` with `Field(description=...)`: the words for what
is expected there. They come by a preset's name, or from raypipe.json beside the weights.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from difflib import get_close_matches
from functools import cache
from typing import Annotated, Any, ClassVar, get_type_hints

from pydantic import AfterValidator, ConfigDict, Field, TypeAdapter, ValidationError

from raypipe.errors import InputError
from raypipe.vocabulary import Precision, ScoreScale, words

DOCUMENTED = 'docs/models.md, "Settings", says what each key means'
SPLADE, SPLADE_LOG = "splade", "splade-log1p"
BY_LIBRARY, BY_LIBRARY_SPARSE = "library", "library-sparse"
"""The poolings of a model that sentence-transformers computes: as its folder says. No settings
name them."""
OF_WORDS = (SPLADE, SPLADE_LOG)
"""The poolings by the head that predicts masked words."""
POOLINGS = ("mean", "cls", "max", "last", *OF_WORDS)
SEGMENT_ROWS = ("zero", "copy")
LEAST_TOKENS = 8
"""Least length of an input of pre-training: two texts and their special tokens."""
MAX_CHARACTERS = 10_000
"""A longer prefix leaves no room for a text, and is put before every passage in memory."""
LONGEST_NAME = 255
"""Bytes of a file's or folder's name, on the usual file systems."""
SHOWN = 60
"""Characters of a wrong value in an error."""
CLOSED = ConfigDict(extra="forbid")


def one_of(*known: str) -> Any:
    """The field of a word among these, the last of which may be null."""
    *others, last = known
    choices = "|".join(re.escape(word) for word in known if word != "null")
    listed = f"{', '.join(others)} or {last}" if others else last
    return Field(strict=True, pattern=f"^(?:{choices})$", description=listed)


def _file_name(value: str) -> str:
    if "\0" in value or len(value.encode()) > LONGEST_NAME:
        raise ValueError("no file system has such a name")
    return value


Text = Annotated[str, Field(strict=True, description="text")]
Words = Annotated[str, Field(strict=True, max_length=MAX_CHARACTERS, description="text")]
FileName = Annotated[Text, AfterValidator(_file_name)]
"""A name that a file system can look for."""
Flag = Annotated[bool, Field(strict=True, description="true or false")]
Segment = Annotated[int, Field(strict=True, ge=0, description="a segment id, from 0")]
NOT_STATED = "not stated"
Pieces = Annotated[int, Field(strict=True, ge=1, description="a count of word pieces")]
MaybePieces = Annotated[
    int | None, Field(strict=True, ge=1, description="a count of word pieces or null")
]
_Precision = Annotated[str | None, one_of(*words(Precision), "null")]


class Settings:
    """What the settings of every kind have."""

    __slots__ = ()
    OMITTED: ClassVar[tuple[str, ...]] = ("start_weights_saw",)
    """Settings that are not part of a fingerprint."""

    @property
    def is_sparse(self) -> bool:
        """Whether a vector has a weight a word piece, few of them above 0; an encoder's alone."""
        return False

    def to_json(self: Any) -> dict[str, Any]:
        """The settings in a fingerprint."""
        body = {name: value for name, value in asdict(self).items() if name not in self.OMITTED}
        return body | ({"precision": body["precision"] or "fp32"} if "precision" in body else {})

    def prefix(self, side: str) -> str:
        """Text put before a query or passage."""
        return str(getattr(self, f"{side}_prefix", ""))


@dataclass(frozen=True, slots=True, kw_only=True)
class Conventions(Settings):
    """How an encoder's inputs are built and its output is read; part of the fingerprint."""

    __pydantic_config__ = CLOSED
    OMITTED: ClassVar[tuple[str, ...]] = ("start_weights_saw", "query_table")
    kind: Annotated[str, one_of("encoder")] = "encoder"
    pooling: Annotated[str, one_of(*POOLINGS)]
    """mean or max over all tokens, [CLS] and [SEP] included, or cls or last, one token's; splade is
    a weight a word piece: max over all tokens of log(1 + relu(logit of the masked-word head)).
    splade-log1p is log(1 + that)."""
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
    truncate_dim: Annotated[
        int | None, Field(strict=True, ge=1, description="a count of dimensions or null")
    ] = None
    """How many of the first dimensions are kept, after dense layers; None means all."""
    max_terms: Annotated[
        int | None, Field(strict=True, ge=1, description="a count of word pieces or null")
    ] = None
    """Number of a text's largest weights that splade keeps; None means all above 0."""
    impact_scale: Annotated[
        float | None,
        Field(strict=True, gt=0, allow_inf_nan=False, description="a number above 0 or null"),
    ] = None
    """Impact of a weight of 1 in splade; None means 100."""
    query_table: Annotated[FileName | None, Field(description="a folder's name or null")] = None
    """Folder with a weight for each word piece, for splade. A query has the weights of its word
    pieces, and no forward pass. Its content is in the fingerprint of queries, not its name."""
    precision: _Precision = None
    """fp32, tf32, bf16 or fp16; None means that of the invocation, or else fp32."""
    start_weights_saw: Words = NOT_STATED
    """Training data of the weights, for tables; not part of the fingerprint."""

    @property
    def is_sparse(self) -> bool:
        """Whether a vector has a weight a word piece, few of them above 0."""
        return self.pooling in (*OF_WORDS, BY_LIBRARY_SPARSE)

    def by_table(self, side: str) -> bool:
        """Whether a query or passage is encoded by a table, without a forward pass."""
        return side == "query" and self.query_table is not None

    def limit(self, side: str) -> int:
        """Number of word pieces kept of a query or passage."""
        return self.query_limit if side == "query" else self.passage_limit

    def segment(self, side: str) -> int:
        """Segment id of every token of a query or passage."""
        return self.query_segment if side == "query" else self.passage_segment


@dataclass(frozen=True, slots=True, kw_only=True)
class PairConventions(Settings):
    """How a reranker's inputs are built and its output is read; part of the fingerprint.

    A monoBERT model reads [CLS] query [SEP] passage [SEP] in segments 0 and 1, a duoBERT model
    [CLS] query [SEP] passage i [SEP] passage j [SEP] in segments 0, 1 and 2; each [SEP] has the
    segment of the text before it. A model of T5's architecture reads a prompt, without segments.
    `text.inputs.cut_to` applies the limits.
    """

    __pydantic_config__ = CLOSED
    OMITTED: ClassVar[tuple[str, ...]] = ("start_weights_saw", "blend", "blend_over_bm25")
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
    blend_over_bm25: Annotated[
        float | None, Field(strict=True, ge=0, allow_inf_nan=False, description="a number from 0")
    ] = None
    """The weight over a run of BM25 alone; None means `blend`."""
    start_weights_saw: Words = NOT_STATED
    """Training data of the weights, for tables; not part of the fingerprint."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class PretrainedConventions(Settings):
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
    start_weights_saw: Words = NOT_STATED
    """Training data of the weights, for tables; not part of the fingerprint."""


AnyConventions = Conventions | PairConventions | PretrainedConventions
KINDS: dict[str, type[AnyConventions]] = {
    "encoder": Conventions,
    "mono": PairConventions,
    "duo": PairConventions,
    "pretrained": PretrainedConventions,
}
"""The class of each kind's settings."""
_ENCODER = Conventions(
    pooling="mean",
    normalise=False,
    query_segment=0,
    passage_segment=0,
    query_limit=254,
    passage_limit=254,
)
_MONO = PairConventions(
    kind="mono",
    query_limit=64,
    passage_limit=None,
    total_limit=512,
    relevant_label=1,
    score="log-probability",
)
_DUO = PairConventions(
    kind="duo",
    query_limit=62,
    passage_limit=223,
    total_limit=512,
    relevant_label=1,
    score="probability",
)
_MONO_T5 = replace(
    _MONO,
    query_limit=256,
    prompt="Query: {query} Document: {passage} Relevant:",
    answers=("false", "true"),
)
PRESETS: dict[str, AnyConventions] = {
    # Zhan et al. 2020 and its code: limits without special tokens, passages in segment 1.
    "repbert": replace(_ENCODER, passage_segment=1, query_limit=20, passage_limit=256),
    # all-MiniLM-L6-v2: 256 tokens with special tokens, for queries and passages.
    "minilm": replace(_ENCODER, normalise=True),
    # SPLADE (Formal et al. 2021); the limit, 256 tokens with special tokens, is ours.
    "splade": replace(_ENCODER, pooling=SPLADE),
    # Nogueira & Cho 2019, section 2.2: query 64 tokens, the whole input 512.
    "monobert": _MONO,
    # dl4marco-bert: the query's 64 include [CLS] and [SEP], the whole input has at most 511; it and
    # duobert share one tokenization.py, of BERT's first release.
    "monobert-reference": replace(_MONO, query_limit=62, total_limit=511, first_tokenizer=True),
    # pygaggle: no limit for the query, 512 in all, the longer of the two is cut first. Its slow
    # tokenizer gives an odd piece to the query, where both are cut; here the longer one gets it.
    "monobert-longest-first": replace(_MONO, query_limit=None),
    # Nogueira et al. 2019, section 3.3: 62, 223 and 223 pieces.
    "duobert": _DUO,
    # duobert: the query's 64 include [CLS] and [SEP]; passages share what is left of 510.
    "duobert-reference": replace(_DUO, passage_limit=None, total_limit=510, first_tokenizer=True),
    # Nogueira et al. 2020, section 3: the prompt, and the softmax over two words; pygaggle: 512
    # tokens. It has no limit of the query, and cuts the end of the prompt. Here the passage is cut,
    # as in pyterrier_t5, and the query has at most half.
    "monot5": _MONO_T5,
    # Bonifacio et al. 2021: the same, but mMARCO's mT5-base models answer with other words.
    "monot5-mmarco": replace(_MONO_T5, answers=("no", "yes")),
    # Pradeep et al. 2021, section 3.3: the prompt; pygaggle: 512 tokens, without other limits. Here
    # the query has at most a quarter, and the passages share what is left.
    "duot5": replace(
        _DUO,
        query_limit=128,
        passage_limit=None,
        prompt="Query: {query} Document0: {passage_0} Document1: {passage_1} Relevant:",
        answers=("false", "true"),
    ),
    # Devlin et al. 2019, appendix A.2: 512 tokens.
    "bert": PretrainedConventions(total_limit=512),
}


def predicts_words(conventions: AnyConventions) -> bool:
    """Whether the model has the head for masked words: a pre-trained or a splade model."""
    if isinstance(conventions, Conventions):
        return conventions.pooling in OF_WORDS
    return isinstance(conventions, PretrainedConventions)


def units_of(conventions: AnyConventions) -> int | None:
    """Number of head units that the settings expect; None for an encoder."""
    if not isinstance(conventions, PairConventions):
        return None
    return 1 if conventions.relevant_label is None else 2


def preset_named(name: str) -> AnyConventions:
    """The settings of a preset.

    Raises:
        InputError: there is none of this name.
    """
    if name not in PRESETS:
        near = get_close_matches(name, PRESETS, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise InputError(f"preset {name!r}: expected one of {', '.join(PRESETS)}{hint}")
    return PRESETS[name]


def conventions_from(body: Mapping[str, Any], where: str) -> AnyConventions:
    """The settings of these keys; `where` begins each problem.

    Raises:
        InputError: keys that are missing, unknown or wrong.
    """
    kind = body.get("kind")
    if not isinstance(kind, str) or kind not in KINDS:
        found = "nothing" if "kind" not in body else repr(kind)
        raise InputError(
            f"{where}: kind: expected encoder, mono, duo or pretrained, found {found}; {DOCUMENTED}"
        )
    problems = settings_problems(KINDS[kind], body)
    if problems:
        raise InputError([f"{where}: {problem}" for problem in problems])
    return KINDS[kind](**body)


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


def _pair_problems(pair: PairConventions) -> list[str]:
    """Problems of a reranker's settings that are right key by key, and not together."""
    problems = _prompt_problems(pair)
    fewest = 2 * pair.num_passages + 3
    if pair.total_limit < fewest:
        problems.append(f"total_limit: expected {fewest} tokens or more, found {pair.total_limit}")
    if problems:
        return problems
    if pair.kind == "duo" and pair.score != "probability":
        problems.append(f"score: a duoBERT model's is probability, found {pair.score}")
    for name in ("blend", "blend_over_bm25"):
        if pair.kind == "duo" and getattr(pair, name):
            problems.append(
                f"{name}: only for a monoBERT model, found {getattr(pair, name):g}; remove it"
            )
    if pair.kind == "duo" and pair.query_limit is None:
        problems.append("query_limit: expected a count of word pieces for duoBERT, found null")
    if pair.query_limit is None and pair.passage_limit is not None:
        problems.append(
            "passage_limit: expected null, since without a query_limit the longest text is cut "
            f"first, found {pair.passage_limit}; give a query_limit too, or remove it"
        )
    if pair.query_limit is not None and pair.prompt is None:  # else see `prompt_layout`
        least = pair.query_limit + 2 + pair.num_passages * (1 + (pair.passage_limit or 1))
        if least > pair.total_limit:
            problems.append(
                f"total_limit: {pair.total_limit} tokens do not hold the other limits, which "
                f"need {least}"
            )
    return problems


def _prompt_problems(pair: PairConventions) -> list[str]:
    """The problems of a prompt and its answers, and of keys that such a model does not have."""
    prompt, answers = pair.prompt, pair.answers
    if prompt is None and answers is None:
        return []
    if prompt is None:
        return ["prompt: expected text beside answers, found None"]
    from raypipe.text.prompts import DUO_PLACES, MONO_PLACES, prompt_problems

    problems = prompt_problems(prompt, DUO_PLACES if pair.kind == "duo" else MONO_PLACES)
    if answers is None:
        problems.append(
            'answers: expected the words of units 0 and 1, found None; as in ["false", "true"], '
            "with quotes also in YAML"
        )
    elif answers[0] == answers[1]:
        problems.append(f"answers: expected two words, found {answers[0]!r} twice")
    if pair.relevant_label is None:
        problems.append("relevant_label: expected 0 or 1, the place in answers, found null")
    without = {"segment_row": pair.segment_row, "first_tokenizer": pair.first_tokenizer or None}
    problems += [
        f"{name}: only for a BERT's inputs, not for a prompt; remove it"
        for name, value in without.items()
        if value is not None
    ]
    return problems


def schema_problems(schema: type, body: Mapping[str, Any], *, missing: str) -> list[str]:
    """One problem for each key of a JSON object that does not fit the schema's.

    Args:
        schema: a dataclass or a pydantic model.
        body: the object.
        missing: the remedy for a key that is missing.
    """
    halves = [name for name in body if re.search("[\ud800-\udfff]", name)]
    if halves:  # pydantic cannot say which key has half a character
        return [f"{name!r}: expected a key without half a character" for name in halves]
    try:
        _adapter(schema).validate_python({**body})
    except ValidationError as error:
        found = error.errors(include_url=False, include_context=False)
        kinds = {str(each["loc"][0]): each["type"] for each in reversed(found)}
        return [_problem(schema, body, name, kinds[name], missing) for name in reversed(kinds)]
    return []


@cache
def _adapter(schema: type) -> TypeAdapter[Any]:
    return TypeAdapter(schema)


def _problem(schema: type, body: Mapping[str, Any], name: str, kind: str, missing: str) -> str:
    hints = get_type_hints(schema, include_extras=True)
    known = {key: hint for key, hint in hints.items() if hasattr(hint, "__metadata__")}
    if name not in known:
        near = get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]}? " if near else ""
        return f"{name}: {hint}expected a JSON object with {', '.join(known)}"
    if kind == "string_too_long":
        return f"{name}: expected at most {MAX_CHARACTERS:,} characters, found {len(body[name]):,}"
    fields = [each for each in known[name].__metadata__ if hasattr(each, "description")]
    field = fields[-1]  # the outermost one
    if name not in body:
        return f"{name}: expected {field.description}, found nothing; {missing}"
    shown = repr(body[name])
    shown = shown if len(shown) <= SHOWN else f"{shown[: SHOWN - 3]}..."
    examples = [json.dumps(example) for example in field.examples or ()]
    remedy = f"; as in {examples[0]}, with quotes also in YAML" if examples else ""
    return f"{name}: expected {field.description}, found {shown}{remedy}"
