"""The parts of a recipe other than its stages, with their types."""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from raypipe.config.fields import (
    OWN,
    AllOrCount,
    AutoOrCount,
    Count,
    ExcludedPlace,
    Listed,
    Location,
    Measure,
    ModelPlace,
    Name,
    OneOrMore,
    Section,
    Source,
    Text,
)
from raypipe.vocabulary import Format, Ids, Precisions, SplitBy, TopicLevel, Unit, units

PACKAGED_MODELS = ("minilm", "general-mono", "minilm-mono", "minilm-duo")
"""The values of `path` that name packaged models: all-MiniLM-L6-v2, and two rerankers based on
it."""


CIP = "CIP at TREC 2021 DL, section 3"
Words = Annotated[int, Field(ge=0, le=10**12)]


class Fields(Section):
    """The names of the fields, or columns, of the records."""

    id: Text
    body: Text
    """The text of a passage, or of a document."""
    title: Text | None = None
    """In front of the text, with a blank, and so are headings. Where a title is named, a body that
    is null is empty."""
    headings: Text | None = None
    document: Text | None = None
    """For `by: given`: the id of the document that a passage is part of."""
    spans: Text | None = None
    """For `by: given`: where a passage is in its document, as in MS MARCO v2: `(0,75),(80,99)`."""


class Split(Section):
    """How documents become the passages of the collection; passage N of ID has the id `ID#N`."""

    by: Annotated[SplitBy, Source(CIP)] = "words"
    """`whole` makes one passage of a document; `given` takes passages from the files, with the
    document that each names."""
    length: Annotated[
        Count | None,
        Source(CIP, value=lambda split: 100 if split.by == "words" else None),
        Source(OWN, value=lambda split: 10 if split.by == "sentences" else None),
    ] = None
    """Words or sentences in a passage."""
    stride: Annotated[
        Count | None,
        Source(CIP, value=lambda split: 50 if split.by == "words" else None),
        Source(OWN, value=lambda split: 5 if split.by == "sentences" else None),
    ] = None
    """From the beginning of a passage to that of the next."""
    title_words: Annotated[Words | None, Source(CIP, value=16)] = None
    """Words of the title in front of each passage."""
    headings_words: Annotated[Words | None, Source(CIP, value=32)] = None
    """Words of the headings after those."""
    at_most: Count | None = None
    """Passages of a document, the first ones; None keeps all. CIP trains on 32, and ranks all."""
    delimiter: Text | None = None
    """For `by: given`: what ends the document's id in a passage's id, such as `#` in MS MARCO
    v2.1's `msmarco_v2.1_doc_00_0#0_0`. Pyserini calls it max-passage delimiter."""


class Collection(Section):
    """The passages, or documents to be split into passages."""

    format: Format
    """How the input is read. msmarco-v1 means id TAB text, whatever the collection. csv, parquet,
    and jsonl without `fields`, take any of the field's names for id, title and text; of txt, the
    number of a line is its id."""
    input: Annotated[tuple[Location, ...], OneOrMore] = ()
    """Files and folders, or ids for ir-datasets. For python-docs: folders with installed packages,
    whose docstrings are read; none for Python's own documentation."""
    snapshots: Annotated[tuple[Location, ...], OneOrMore] = ()
    """A folder with a folder for each snapshot of a changing collection, which `raypipe reindex`
    runs in the order of their names. `{snapshot}` in a place stands for that name, and relative
    places of `input` and of the queries are in the snapshot's folder. With ir-datasets, the
    names themselves, in order."""
    id: Ids | None = None
    """For parquet and jsonl only. `file-row`: a passage's id is the name of its file and its number
    there, from 1, such as part-0.parquet:17; a field with ids is not read."""
    fields: Fields | None = None
    """The names of a record's fields or columns, for jsonl, csv, parquet and ir-datasets. Each
    record is a passage, or with `split` a document."""
    split: Split | None = None
    """For documents only: every stage but `documents` works over the passages."""
    errors: Annotated[Literal["strict", "replace"], Source(OWN)] = "strict"
    """What to do with bytes that are not UTF-8: refuse them, or replace them with U+FFFD and count
    them."""
    max_passages: Annotated[
        Count | None, Source(f"a minute of encoding on two cores, {OWN}", value=6000)
    ] = None
    """For python-docs only: at most this number of passages, in whole sections."""

    @property
    def field_names(self) -> dict[str, str] | None:
        """The names of the fields, by what they are."""
        return None if self.fields is None else self.fields.model_dump(exclude_none=True)


class CarTopics(Section):
    """Headings of TREC CAR's pages as queries, whose paragraphs are relevant."""

    level: TopicLevel
    """Pages, their sections of the first level, or all sections."""
    outlines: Annotated[tuple[Location, ...], OneOrMore] = ()
    """Files of outlines or pages, in CBOR: all their headings are topics. Without them, the topics
    are those with judgements, as in Nogueira & Cho 2019."""
    pages: Annotated[tuple[Location, ...], OneOrMore] = ()
    """Files of pages, in CBOR, from which the automatic judgements are made."""
    qrels: Annotated[tuple[Location, ...], OneOrMore] = ()
    """Instead of pages: the judgements as released, such as one file for each fold."""

    def files(self) -> dict[str, tuple[str, ...]]:
        """The files under each key."""
        return {"outlines": self.outlines, "pages": self.pages, "qrels": self.qrels}


class QuerySet(Section):
    """Queries from a file, TREC CAR's outlines, or one of python-docs' own sets."""

    file: Location | None = None
    """Lines of id TAB text, JSON lines with `_id` and `text`, or another form of
    docs/collections.md; `irds:ID` is a data set of ir_datasets, for qrels too."""
    car: CarTopics | None = None
    qrels: Location | None = None
    """Judgements of passages. A query set without judgements is ranked but not measured."""
    document_qrels: Location | None = None
    """Judgements of documents, for runs of documents."""
    only_judged: Annotated[bool, Source(OWN)] = False
    """Keep only queries with judgements, as BEIR does: its queries file holds all splits."""
    exclude: ExcludedPlace | None = None
    """Passages that take no place in a query's rankings: `own-id` for the passage of the query's
    own id, as BEIR's evaluation has it, or a file of queries and passages (docs/collections.md)."""
    builtin: Literal["dev", "test", "test-400", "train"] | None = None
    """Instead of a file: a set of python-docs. `test-400` has 400 of the test queries, drawn by a
    hash."""
    report: Annotated[bool, Source(OWN)] = True
    """False for queries used only for tuning: they appear in no run file and no table."""

    @property
    def judged(self) -> bool:
        """Whether the query set has judgements, so that runs can be measured."""
        if self.builtin is not None or any(self.qrels_of(unit) for unit in units()):
            return True
        return self.car is not None and bool(self.car.pages or self.car.qrels)

    def qrels_of(self, unit: Unit) -> Location | None:
        """The judgements of passages or of documents."""
        return self.qrels if unit == "passages" else self.document_qrels


def plain_values(settings: dict[str, Any]) -> dict[str, Any]:
    """The same settings, each of which YAML writes as one value."""
    for name, value in settings.items():
        if not isinstance(value, str | float | int | bool | None):
            text = f"text, a number, true, false or null for {name}"
            raise PydanticCustomError("expected", "{expected}", {"expected": text})
    return settings


class Model(Section):
    """Weights with their tokenizer."""

    path: ModelPlace
    """A folder, a packaged model (`minilm`, `general-mono`, and for Python's documentation
    `minilm-mono` and `minilm-duo`), or a hub's `OWNER/NAME`, also with `@REVISION`."""
    revision: Text | None = None
    """Of a hub's model: a commit, branch or tag; None means the newest commit, which recipe.yaml
    then names."""
    branch: Text | None = None
    """Written by raypipe: what the commit in `revision` was the newest of."""
    preset: Name | None = None
    """The model's settings by name; otherwise `raypipe.json` beside the weights states them."""
    settings: Annotated[dict[str, Any], AfterValidator(plain_values)] = {}
    """Keys of raypipe.json, which override the folder's own and the preset's."""


class Evaluate(Section):
    """What is measured, on every reported query set with judgements."""

    measures: Annotated[tuple[Measure, ...], Listed, Field(min_length=1)]
    """In the notation of ir_measures."""
    baseline: Name | None = None
    """The stage that the others are compared with."""
    relevance: Text | None = None
    """What counts as relevant, in words; printed with every table."""
    topics: Text | None = None
    """The topic set, in words; printed with every table."""


RUN_ENDINGS = ("trec", "tsv", "trec.gz", "tsv.gz")


class RunFiles(Section):
    """The files of runs, runs/QUERYSET/SYSTEM.trec."""

    tsv: Annotated[bool, Source(OWN)] = False
    """Write SYSTEM.tsv too, as MS MARCO takes it: cut at rank 1000, without scores."""
    packed: Annotated[bool, Source(OWN)] = False
    """Pack them with gzip: SYSTEM.trec.gz."""

    @property
    def endings(self) -> list[str]:
        """The endings of a run's files, TREC's first."""
        return [*RUN_ENDINGS[2 * self.packed :][: 1 + self.tsv]]


class Resources(Section):
    """Where and how work runs. Nothing here changes a score within one numerics class."""

    device: Annotated[Literal["auto", "cpu", "cuda"], Source(OWN)] = "auto"
    precision: Annotated[Literal["auto", "fastest", Precisions], Source(OWN)] = "auto"
    """Of the models' products; auto: fp32 on a CPU, bf16 on a GPU that has it, otherwise fp16;
    fastest: the same on a GPU, on a CPU the first of int8+bf16, int8, bf16 and fp32 that it
    computes in, without a bf16 that is slower than fp32. int8 is for rerankers; other models then
    compute in fp32, or with +bf16 in bf16."""
    gpus: Annotated[AllOrCount, Source(OWN)] = "all"
    """GPUs that are used, of those that Ray sees."""
    actors: Annotated[AutoOrCount, Source(OWN)] = "auto"
    """Workers of a stage; auto: one for each GPU, otherwise by the cores. If they are more than the
    GPUs, they share them, in the largest multiple of the GPUs: one computes while another reads,
    writes or commits."""
    threads: Annotated[AutoOrCount, Source(OWN)] = "auto"
    """Threads of each actor."""
    backend: Annotated[Literal["ray", "inline"], Source(OWN)] = "ray"
    numerics: Annotated[Literal["any", "one"], Source(OWN)] = "any"
    """`one` refuses a store whose shards were computed on different kinds of hardware."""
    reuse: Annotated[bool, Source(OWN)] = True
    """Copy word pieces, vectors and scores of equal texts from this workspace's earlier stores."""
    max_failed_rows: Annotated[int, Field(ge=0, le=10**12), Source(OWN)] = 0
    """Rows of a stage that may be in quarantine; with more, the run ends with exit 5."""
    shard_tokens: Annotated[AutoOrCount, Source(OWN)] = "auto"
    """Tokens of work in a shard; auto chooses by the device."""
    shard_rows: Annotated[Count, Source(OWN)] = 100_000
    """Passages in a shard of a stage that does not count tokens."""
    shard_queries: Annotated[Count, Source(OWN)] = 1_000
    """Queries in a shard of a search."""
    budget_tokens: Annotated[AutoOrCount, Source(OWN)] = "auto"
    """Tokens in one forward pass; auto chooses by the device."""
