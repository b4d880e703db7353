"""The words and numbers that recipes, help texts and code share: each stands here, once."""

from typing import Literal, get_args

Format = Literal["msmarco-v1", "msmarco-v2", "beir", "pyserini", "ir-datasets", "python-docs"]
"""Formats of a collection. msmarco-v1 means id TAB text, whatever the collection."""
FusionMethod = Literal["alternate", "rrf", "weighted", "average"]
Aggregation = Literal["sum", "binary", "min", "max", "sample", "symmetric-sum", "symmetric-log-sum"]
ScoreScale = Literal["log-probability", "probability", "raw"]
"""Of a monoBERT model's scores; a duoBERT model's are probabilities."""
LossName = Literal[
    "cross-entropy",
    "multi-label-margin",
    "info-nce",
    "margin-mse",
    "kl",
    "pairwise-hinge",
]
Tail = Literal["keep", "drop"]
"""Of the candidates below the first k that a reranker scores."""

K0 = 1000
"""Candidates a query for a monoBERT model (Nogueira et al. 2019)."""
K1 = 50
"""Candidates a query for a duoBERT model (Nogueira et al. 2019)."""
DEPTH = 1000
"""Passages a query in a run."""
BM25_K1 = 0.9
BM25_B = 0.4
"""Anserini's and Pyserini's, for any collection."""
RRF_K = 60.0
"""Cormack et al. 2009, section 2."""

MEASURES = ("nDCG@10", "RR@10", "AP", "R@1000")
"""What commands measure unless asked for others."""


def words(of: object) -> tuple[str, ...]:
    """The words of one of the types above, in their order."""
    return get_args(of)


def listed(of: object, *without: str) -> str:
    """The same for a help text: `a, b or c`."""
    *most, last = [word for word in words(of) if word not in without]
    return f"{', '.join(most)} or {last}"
