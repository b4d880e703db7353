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
    """JSON files by name, and keys to add to config.json."""

    files: dict[str, Any] = field(default_factory=dict)
    config: dict[str, Any] = field(default_factory=dict)
    longest: int | None = None
    """Tokens of an input, for the tokenizer."""


def opens(conventions: AnyConventions) -> bool:
    """Whether sentence-transformers computes what raypipe computes."""
    if isinstance(conventions, Conventions):
        return not (conventions.query_segment or conventions.passage_segment)
    return isinstance(conventions, PairConventions) and conventions.kind == "mono"


def peer_files(conventions: AnyConventions, *, width: int, num_specials: int) -> PeerFiles:
    """The files for `SentenceTransformer(folder)` or `CrossEncoder(folder)`; none if neither can.

    Args:
        conventions: the model's settings.
        width: the hidden size.
        num_specials: special tokens of an input of one text.
    """
    if not opens(conventions):
        return PeerFiles()
    if isinstance(conventions, Conventions):
        return _encoder(conventions, width, num_specials)
    assert isinstance(conventions, PairConventions)
    activation = {"activation_fn": ACTIVATIONS[conventions.score]}
    one_unit = conventions.relevant_label is None
    config = {"sentence_transformers": activation} if one_unit else {}
    return PeerFiles({}, config, conventions.total_limit)


def peer_notes(conventions: AnyConventions) -> list[str]:
    """Where sentence-transformers differs, in sentences; empty if it does not."""
    if isinstance(conventions, Conventions):
        return _notes_of_encoder(conventions)
    if isinstance(conventions, PairConventions) and conventions.kind == "mono":
        return _notes_of_cross_encoder(conventions)
    return []


def _encoder(found: Conventions, width: int, num_specials: int) -> PeerFiles:
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
    return PeerFiles(files, {}, longest)


def _pooling(pooling: str, width: int) -> Mapping[str, Any]:
    modes = ("cls_token", "mean_tokens", "max_tokens", "mean_sqrt_len_tokens", "lasttoken")
    named = {"mean": "mean_tokens", "cls": "cls_token", "max": "max_tokens", "last": "lasttoken"}
    chosen = named[pooling]
    keys = {f"pooling_mode_{mode}": mode == chosen for mode in modes}
    return {"word_embedding_dimension": width, **keys}


def _notes_of_encoder(found: Conventions) -> list[str]:
    if not opens(found):
        return [
            "sentence-transformers cannot open it: it puts every text in segment 0, and this "
            f"model's queries are in segment {found.query_segment}, its passages in segment "
            f"{found.passage_segment}."
        ]
    if found.query_limit == found.passage_limit:
        return []
    return [
        f"raypipe cuts queries at {found.query_limit} word pieces and passages at "
        f"{found.passage_limit}; sentence-transformers has one limit, the larger one."
    ]


def _notes_of_cross_encoder(found: PairConventions) -> list[str]:
    notes = []
    if found.query_limit is not None or found.passage_limit is not None:
        notes.append(
            f"raypipe cuts queries at {found.query_limit} word pieces and then passages; "
            "sentence-transformers cuts the longer of the two."
        )
    if found.query_prefix or found.passage_prefix:
        notes.append(
            f"raypipe puts {found.query_prefix!r} before queries and {found.passage_prefix!r} "
            "before passages; CrossEncoder puts nothing there."
        )
    if found.first_tokenizer:
        notes.append(
            "raypipe makes word pieces as BERT's first code does, with a run of Chinese characters "
            "as one word; CrossEncoder makes each character a word."
        )
    if found.relevant_label is not None:
        notes.append(
            "CrossEncoder returns both units; raypipe's score is the "
            f"{'logit' if found.score == 'raw' else found.score} of unit {found.relevant_label}"
            + ("." if found.score == "raw" else " after a softmax over both.")
        )
    if found.blend:
        notes.append(
            f"raypipe ranks by the model's log odds and {found.blend:g} times the first stage's "
            "score, from 0 to 1; CrossEncoder knows of no first stage."
        )
    return notes
