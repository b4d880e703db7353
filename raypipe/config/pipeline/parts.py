"""The parts of a recipe, except for its stages: types are checked here."""

from typing import Annotated, Literal

from pydantic import Field

from raypipe.config.fields import (
    OWN,
    AllOrCount,
    AutoOrCount,
    Count,
    Listed,
    Location,
    Measure,
    Name,
    OneOrMore,
    Section,
    Source,
    Text,
)
from raypipe.vocabulary import Format

PACKAGED_MODELS = ("minilm", "minilm-mono", "minilm-duo")
"""Each `path` that names what comes with raypipe: all-MiniLM-L6-v2, and rerankers over it."""


class Collection(Section):
    """The passages."""

    format: Format
    """How the input is read. msmarco-v1 means id TAB text, whatever the collection."""
    input: Annotated[tuple[Location, ...], OneOrMore] = ()
    """Files and folders, or ids for ir-datasets. For python-docs folders with installed packages,
    whose docstrings are read; none for Python's own documentation."""
    errors: Annotated[Literal["strict", "replace"], Source(OWN)] = "strict"
    """What to do with bytes that are not UTF-8: refuse them, or put U+FFFD and count."""
    max_passages: Annotated[
        Count | None, Source(f"a minute of encoding on two cores, {OWN}", value=6000)
    ] = None
    """For python-docs only: whole sections of it up to so many passages."""


class QuerySet(Section):
    """Queries from a file, or one of python-docs' own sets."""

    file: Location | None = None
    qrels: Location | None = None
    """Without judgements a query set is ranked and not measured."""
    only_judged: Annotated[bool, Source(OWN)] = False
    """Keep only queries with judgements, as BEIR does: its file holds the queries of all splits."""
    builtin: Literal["dev", "test", "train"] | None = None
    report: Annotated[bool, Source(OWN)] = True
    """False for queries that only tune: they stand in no run file and no table."""

    @property
    def judged(self) -> bool:
        """Whether it can be measured."""
        return self.qrels is not None or self.builtin is not None


class Model(Section):
    """Weights with their tokenizer."""

    path: Text
    """A folder, or what is packaged: `minilm`, `minilm-mono`, `minilm-duo`."""
    preset: Name | None = None
    """Conventions by name; else `raypipe.json` beside the weights says them."""
    segment_row: Literal["zero", "copy"] | None = None
    """What a duo's third segment is where the checkpoint has two rows: zeros, or row 1 again."""


class Evaluate(Section):
    """What is measured, on every reported query set that has judgements."""

    measures: Annotated[tuple[Measure, ...], Listed, Field(min_length=1)]
    """In the notation of ir_measures."""
    baseline: Name | None = None
    """The stage that the others are compared with."""
    relevance: Text | None = None
    """What counts as relevant, in words, printed with every table."""
    topics: Text | None = None
    """The topic set, in words, printed with every table."""


class Resources(Section):
    """Where and how work runs. Nothing here changes a score within one numerics class."""

    device: Annotated[Literal["auto", "cpu", "cuda"], Source(OWN)] = "auto"
    gpus: Annotated[AllOrCount, Source(OWN)] = "all"
    actors: Annotated[AutoOrCount, Source(OWN)] = "auto"
    threads: Annotated[AutoOrCount, Source(OWN)] = "auto"
    """Of each actor."""
    backend: Annotated[Literal["ray", "inline"], Source(OWN)] = "ray"
    numerics: Annotated[Literal["any", "one"], Source(OWN)] = "any"
    """`one` refuses a store whose shards come from different kinds of hardware."""
    max_failed_rows: Annotated[int, Field(ge=0, le=10**12), Source(OWN)] = 0
    shard_tokens: Annotated[AutoOrCount, Source(OWN)] = "auto"
    """Tokens of work in a shard; auto goes by the device."""
    shard_rows: Annotated[Count, Source(OWN)] = 100_000
    """Passages in a shard where no tokens are counted."""
    shard_queries: Annotated[Count, Source(OWN)] = 1_000
    budget_tokens: Annotated[AutoOrCount, Source(OWN)] = "auto"
    """Tokens of one forward; auto goes by the device."""
