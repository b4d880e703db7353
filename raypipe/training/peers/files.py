"""Files with which sentence-transformers opens a model folder as raypipe computes it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from raypipe.models.folder.conventions import AnyConventions, Conventions, PairConventions

MODULES = "sentence_transformers.models"
"""The place of the classes in every release since 2.0."""
ACTIVATIONS = {
    "raw": "torch.nn.modules.linear.Identity",
    "probability": "torch.nn.modules.activation.Sigmoid",
    "log-probability": "torch.nn.modules.activation.LogSigmoid",
}
"""Of a head of one unit, by score."""


@dataclass(frozen=True, slots=True)
class PeerFiles:
    """JSON files by name, keys to add to config.json, and what they cannot say."""

    files: dict[str, Any] = field(default_factory=dict)
    config: dict[str, Any] = field(default_factory=dict)
    longest: int | None = None
    """Tokens of an input, for the tokenizer."""
    notes: tuple[str, ...] = ()
    """Where sentence-transformers differs, in sentences; empty if it does not."""


def peer_files(conventions: AnyConventions, *, width: int, num_specials: int) -> PeerFiles:
    """The files for `SentenceTransformer(folder)` or `CrossEncoder(folder)`.

    Args:
        conventions: the model's settings.
        width: the hidden size.
        num_specials: special tokens of an input of one text.
    """
    if isinstance(conventions, Conventions):
        return _encoder(conventions, width, num_specials)
    if isinstance(conventions, PairConventions) and conventions.kind == "mono":
        return _cross_encoder(conventions)
    return PeerFiles()


def _encoder(found: Conventions, width: int, num_specials: int) -> PeerFiles:
    if found.query_segment or found.passage_segment:
        return PeerFiles(
            notes=(
                "sentence-transformers cannot open it: it puts every text in segment 0, and this "
                f"model's queries are in segment {found.query_segment}, its passages in segment "
                f"{found.passage_segment}.",
            )
        )
    longest = max(found.query_limit, found.passage_limit) + num_specials
    steps = [("Transformer", ""), ("Pooling", "1_Pooling")]
    steps += [("Normalize", "2_Normalize")] if found.normalise else []
    modules = [
        {"idx": number, "name": str(number), "path": path, "type": f"{MODULES}.{name}"}
        for number, (name, path) in enumerate(steps)
    ]
    prompts = {"query": found.query_prefix, "document": found.passage_prefix}
    files = {
        "modules.json": modules,
        "1_Pooling/config.json": _pooling(found.pooling, width),
        "sentence_bert_config.json": {"max_seq_length": longest, "do_lower_case": False},
        "config_sentence_transformers.json": {
            "prompts": prompts,
            "default_prompt_name": None,
            "similarity_fn_name": "dot",
        },
    }
    notes: tuple[str, ...] = ()
    if found.query_limit != found.passage_limit:
        notes = (
            f"raypipe cuts queries at {found.query_limit} word pieces and passages at "
            f"{found.passage_limit}; sentence-transformers has one limit, the larger one.",
        )
    return PeerFiles(files, {}, longest, notes)


def _pooling(pooling: str, width: int) -> Mapping[str, Any]:
    modes = ("cls_token", "mean_tokens", "max_tokens", "mean_sqrt_len_tokens")
    chosen = {"mean": "mean_tokens", "cls": "cls_token"}[pooling]
    keys = {f"pooling_mode_{mode}": mode == chosen for mode in modes}
    return {"word_embedding_dimension": width, **keys}


def _cross_encoder(found: PairConventions) -> PeerFiles:
    notes = []
    if found.query_limit is not None or found.passage_limit is not None:
        notes.append(
            f"raypipe cuts queries at {found.query_limit} word pieces and then passages; "
            "sentence-transformers cuts the longer of the two."
        )
    if found.relevant_label is None:
        config = {"sentence_transformers": {"activation_fn": ACTIVATIONS[found.score]}}
        return PeerFiles({}, config, found.total_limit, tuple(notes))
    notes.append(
        f"CrossEncoder returns both units; raypipe's score is the {found.score} of unit "
        f"{found.relevant_label}" + ("." if found.score == "raw" else " after a softmax over both.")
    )
    return PeerFiles({}, {}, found.total_limit, tuple(notes))
