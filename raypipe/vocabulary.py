"""The words and numbers that recipes, help texts and code share, each defined once."""

from typing import Literal, get_args

Format = Literal[
    "msmarco-v1",
    "msmarco-v2",
    "msmarco-doc-v1",
    "msmarco-doc-v2",
    "jsonl",
    "csv",
    "parquet",
    "txt",
    "beir",
    "pyserini",
    "trec-car",
    "trec-car-tools",
    "ir-datasets",
    "python-docs",
]
"""Formats of a collection. msmarco-v1 means id TAB text, whatever the collection; the two of
documents are split into passages, and jsonl with named fields may be."""
WITH_FIELDS = ("jsonl", "csv", "parquet", "ir-datasets")
"""Formats whose records have named fields, which a recipe's `fields` may choose."""
FORMAT_WORDS = {"tsv": "msmarco-v1", "msmarco": "msmarco-v1", "msmarco-passage": "msmarco-v1"}
FORMAT_WORDS |= dict.fromkeys(("json", "ndjson", "jsonlines"), "jsonl")
FORMAT_WORDS |= {"text": "txt", "pq": "parquet", "irds": "ir-datasets", "car": "trec-car"}
"""Our word for a collection's format, by what others call it; msmarco-v1 is id TAB text."""
Ids = Literal["file-row"]
"""How ids are made where records have none."""
TopicLevel = Literal["article", "top-level", "hierarchical"]
"""What a topic of TREC CAR is: a page, one of its sections, or any section in sections."""
Language = (
    Literal["en", "ar", "bn", "da", "de", "es", "fa", "fi", "fr", "ha", "hi", "hu", "id", "it"]
    | Literal["ja", "ko", "nl", "no", "pl", "pt", "ru", "so", "sv", "sw", "te", "th", "tr", "uk"]
    | Literal["yo", "zh"]
)
"""Languages with an analyzer of Lucene, as Anserini and Pyserini name them."""
FusionMethod = Literal["alternate", "rrf", "weighted", "average"]
Aggregation = Literal["sum", "binary", "min", "max", "sample", "symmetric-sum", "symmetric-log-sum"]
Precision = Literal["fp32", "tf32", "bf16", "fp16", "int8"]
"""In which a model's matrix products are computed; see raypipe.models.machine.precision."""
Precisions = Literal[Precision, "int8+bf16"]
"""Of all models of an invocation: int8 is for rerankers alone, `+bf16` is for the others."""
ScoreScale = Literal["log-probability", "probability", "raw"]
"""What a monoBERT model's scores are; a duoBERT model's are always probabilities."""
SplitBy = Literal["words", "sentences", "whole", "given"]
"""What a document is split into, or `given`: the collection's files hold passages already."""
DocumentMethod = Literal["maxp", "k-max-avgp", "firstp", "sump", "avgp"]
"""How the scores of a document's passages become the document's."""
Unit = Literal["passages", "documents"]
"""What a run ranks."""
LossName = Literal[
    "cross-entropy",
    "multi-label-margin",
    "info-nce",
    "margin-mse",
    "mse",
    "kl",
    "pairwise-hinge",
    "listwise",
    "masked-language-model",
]
TableFormat = Literal["md", "csv", "latex", "json"]
"""What `raypipe table` writes."""
BreakTies = Literal["id", "rank"]
"""How a run file's equal scores are ordered: by passage id descending, as in trec_eval, or as the
file has them, by its ranks or otherwise its lines."""
Tail = Literal["keep", "drop"]
"""What happens to the candidates below the first k, which the reranker does not score."""

MASKED_WORD_LOSS = "masked_word_loss"
"""What checkpoints of a pre-training are measured by; the lower the better."""

K0 = 1000
"""Candidates per query for a monoBERT model (Nogueira et al. 2019)."""
K1 = 50
"""Candidates per query for a duoBERT model (Nogueira et al. 2019)."""
K_MAX = 4
"""Passages of a document whose scores k-max-avgp averages (CIP at TREC 2021 DL)."""
DEPTH = 1000
"""Passages per query in a run."""
BM25_K1 = 0.9
BM25_B = 0.4
"""The defaults of Anserini and Pyserini, for any collection."""
RRF_K = 60.0
"""The constant of reciprocal rank fusion (Cormack et al. 2009, section 2)."""

MEASURES = ("nDCG@10", "RR@10", "AP", "R@1000")
"""What commands measure by default."""


def words(of: object) -> tuple[str, ...]:
    """The words of one of the types above, a `Literal` or a union of some, in their order."""
    return tuple(word for part in get_args(of) for word in get_args(part) or (part,))


def units() -> tuple[Unit, ...]:
    """The units that runs and judgements can name."""
    return get_args(Unit)


def listed(of: object, *without: str) -> str:
    """The same words, except `without`, for a help text: `a, b or c`."""
    *most, last = [word for word in words(of) if word not in without]
    return f"{', '.join(most)} or {last}"


LEAST_GENERATIONS = 2
"""Fewest generations kept: a reader of the one before the newest may have just begun."""
