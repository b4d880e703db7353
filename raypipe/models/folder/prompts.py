"""Text that some encoders were trained with in front of queries and passages, where it is known.

A folder's own files come first. What neither they nor this table says is asked for: without it such
a model ranks, and ranks worse, and nothing shows why.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ASKED = re.compile(r"(?<![a-z0-9])(e5|bge|gte|qwen3-embedding)(?![a-z0-9])", re.IGNORECASE)
"""The families whose models differ in their prompts, as names of models have them."""
WITHOUT = ("gte",)
"""Of these, families whose models have no prompts unless their files say so."""
CACHED = re.compile(r"models--(?:(.+?)--)?(.+)")
"""The folder of a repository in huggingface_hub's cache; the model is in snapshots/COMMIT."""


@dataclass(frozen=True, slots=True)
class Prompts:
    """What is put before a query and before a passage, and who says so."""

    query: str
    passage: str
    source: str


_E5 = Prompts("query: ", "passage: ", "Wang et al. 2022, arXiv 2212.03533; the model's card")
_E5_MANY = Prompts("query: ", "passage: ", "Wang et al. 2024, arXiv 2402.05672; the model's card")
_BGE = Prompts(
    "Represent this sentence for searching relevant passages: ",
    "",
    "Xiao et al. 2023, arXiv 2309.07597; the model's card",
)
_BGE_ZH = Prompts("为这个句子生成表示以用于检索相关文章：", "", _BGE.source)  # noqa: RUF001
_BGE_M3 = Prompts("", "", "Chen et al. 2024, arXiv 2402.03216; the model's card")
_GTE = Prompts("", "", "Li et al. 2023, arXiv 2308.03281; the model's card")
_GTE_MODERN = Prompts("", "", "Zhang et al. 2024, arXiv 2407.19669; the model's card")
_QWEN3 = Prompts(
    "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery:",
    "",
    "Zhang et al. 2025, arXiv 2506.05176; the model's own prompt for queries",
)
_SIZES = ("small", "base", "large")

KNOWN: Mapping[str, Prompts] = {
    **{f"intfloat/e5-{size}": _E5 for size in _SIZES},
    **{f"intfloat/e5-{size}-v2": _E5 for size in _SIZES},
    **{f"intfloat/multilingual-e5-{size}": _E5_MANY for size in _SIZES},
    **{f"baai/bge-{size}-en": _BGE for size in _SIZES},
    **{f"baai/bge-{size}-en-v1.5": _BGE for size in _SIZES},
    **{f"baai/bge-{size}-zh": _BGE_ZH for size in _SIZES},
    **{f"baai/bge-{size}-zh-v1.5": _BGE_ZH for size in _SIZES},
    "baai/bge-m3": _BGE_M3,
    **{f"thenlper/gte-{size}": _GTE for size in _SIZES},
    **{f"thenlper/gte-{size}-zh": _GTE for size in _SIZES},
    "alibaba-nlp/gte-modernbert-base": _GTE_MODERN,
    **{f"qwen/qwen3-embedding-{size}": _QWEN3 for size in ("0.6b", "4b", "8b")},
    # all-MiniLM-L6-v2, by its weights: it was trained without any.
    "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db": Prompts(
        "", "", "the model's card"
    ),
}
"""By the hub's name of a repository in small letters, or by the SHA-256 of model.safetensors."""


def known_prompts(hub_name: str | None, weights_sha256: str) -> tuple[str, Prompts] | None:
    """The key in the table and what it says; None if it has neither the name nor the weights."""
    for key in ((hub_name or "").lower(), weights_sha256):
        if key in KNOWN:
            return key, KNOWN[key]
    return None


def family_that_asks(names: Sequence[str]) -> str | None:
    """The first family that a name belongs to, if its models need to say their prompts."""
    for name in names:
        found = ASKED.search(name)
        if found is not None:
            return found[1].lower()
    return None


def hub_name_of(folder: Path) -> str | None:
    """OWNER/NAME, or NAME, of a folder in huggingface_hub's own cache; None of any other."""
    if folder.parent.name != "snapshots":
        return None
    found = CACHED.fullmatch(folder.parents[1].name)
    return None if found is None else "/".join(part for part in found.groups() if part)
