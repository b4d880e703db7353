"""How others open a trained model: sentence-transformers' files in its folder, and its card."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from raypipe.models.folder.model_folder import ModelFolder, layout_of, open_tokenizer
from raypipe.models.folder.settings import (
    OF_WORDS,
    SPLADE,
    AnyConventions,
    Conventions,
    PairConventions,
)
from raypipe.training.job import Job

MODULES = "sentence_transformers.models"
"""The place of the classes in every release since 2.0."""
SPARSE_MODULES = "sentence_transformers.sparse_encoder.models"
"""The same of a SparseEncoder, since 5.0."""
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
    """The files for `SentenceTransformer(folder)`, of splade for `SparseEncoder(folder)`, or for
    `CrossEncoder(folder)`; none if it cannot open the model.

    Args:
        conventions: the model's settings.
        width: the hidden size, or of splade the size of the vocabulary.
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


def _encoder(conventions: Conventions, width: int, num_specials: int) -> PeerFiles:
    longest = max(conventions.query_limit, conventions.passage_limit) + num_specials
    place, steps = MODULES, [("Transformer", ""), ("Pooling", "1_Pooling")]
    if conventions.is_sparse:
        place = SPARSE_MODULES
        steps = [("MLMTransformer", ""), ("SpladePooling", "1_SpladePooling")]
    steps += [("Normalize", "2_Normalize")] if conventions.normalise else []
    modules = [
        {"idx": number, "name": str(number), "path": path, "type": f"{place}.{name}"}
        for number, (name, path) in enumerate(steps)
    ]
    # Without model_type a SparseEncoder puts an autoencoder behind the weights.
    sparse = {"model_type": "SparseEncoder", "max_active_dims": conventions.max_terms}
    prompts = {"query": conventions.query_prefix, "document": conventions.passage_prefix}
    files = {
        "modules.json": modules,
        f"{steps[1][1]}/config.json": _pooling(conventions.pooling, width),
        "sentence_bert_config.json": {"max_seq_length": longest, "do_lower_case": False},
        "config_sentence_transformers.json": {
            "prompts": prompts,
            "default_prompt_name": None,
            "similarity_fn_name": "dot",
            **(sparse if conventions.is_sparse else {}),
        },
    }
    return PeerFiles(files, {}, longest)


def _pooling(pooling: str, width: int) -> Mapping[str, Any]:
    if pooling in OF_WORDS:
        activation = "relu" if pooling == SPLADE else "log1p_relu"
        how = {"pooling_strategy": "max", "activation_function": activation}
        return {**how, "word_embedding_dimension": width}
    modes = ("cls_token", "mean_tokens", "max_tokens", "mean_sqrt_len_tokens", "lasttoken")
    named = {"mean": "mean_tokens", "cls": "cls_token", "max": "max_tokens", "last": "lasttoken"}
    chosen = named[pooling]
    keys = {f"pooling_mode_{mode}": mode == chosen for mode in modes}
    return {"word_embedding_dimension": width, **keys}


def _notes_of_encoder(conventions: Conventions) -> list[str]:
    if not opens(conventions):
        return [
            "sentence-transformers cannot open it: it puts every text in segment 0, and this "
            f"model's queries are in segment {conventions.query_segment}, its passages in segment "
            f"{conventions.passage_segment}."
        ]
    if conventions.query_limit == conventions.passage_limit:
        return []
    return [
        f"raypipe cuts queries at {conventions.query_limit} word pieces and passages at "
        f"{conventions.passage_limit}; sentence-transformers has one limit, the larger one."
    ]


def _notes_of_cross_encoder(conventions: PairConventions) -> list[str]:
    notes = []
    if conventions.query_limit is not None or conventions.passage_limit is not None:
        notes.append(
            f"raypipe cuts queries at {conventions.query_limit} word pieces and then passages; "
            "sentence-transformers cuts the longer of the two."
        )
    if conventions.query_prefix or conventions.passage_prefix:
        notes.append(
            f"raypipe puts {conventions.query_prefix!r} before queries and "
            f"{conventions.passage_prefix!r} before passages; CrossEncoder puts nothing there."
        )
    if conventions.first_tokenizer:
        notes.append(
            "raypipe makes word pieces as BERT's first code does, with a run of Chinese characters "
            "as one word; CrossEncoder makes each character a word."
        )
    if conventions.relevant_label is not None:
        notes.append(
            "CrossEncoder returns both units; raypipe's score is the "
            f"{'logit' if conventions.score == 'raw' else conventions.score} of unit "
            f"{conventions.relevant_label}"
            + ("." if conventions.score == "raw" else " after a softmax over both.")
        )
    if conventions.blend:
        notes.append(
            f"raypipe ranks by the model's log odds and {conventions.blend:g} times the first "
            "stage's score, from 0 to 1; CrossEncoder knows of no first stage."
        )
    return notes


def add_peer_files(folder: Path, conventions: AnyConventions, start: ModelFolder) -> None:
    """Write the files beside the weights, and their part of config.json and tokenizer_config.json.

    Args:
        folder: weights, config.json and tokenizer are there.
        conventions: the settings of the model.
        start: where the training began, whose architecture and tokenizer it has.
    """
    sizes = start.family.files.as_bert(start.config())
    single = layout_of(start, open_tokenizer(start), (0,))
    sparse = conventions.is_sparse
    width = sizes["vocab_size" if sparse else "hidden_size"]
    peer = peer_files(conventions, width=width, num_specials=single.num_specials)
    for name, body in peer.files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(json.dumps(body, indent=2) + "\n")
    _merge(folder / "config.json", peer.config)
    if peer.longest is not None:
        _merge(folder / "tokenizer_config.json", {"model_max_length": peer.longest})


def _merge(file: Path, more: dict[str, object]) -> None:
    if more:
        body = json.loads(file.read_bytes()) if file.exists() else {}
        file.write_text(json.dumps(body | more, indent=2) + "\n")


KINDS = {"encoder": "An encoder", "mono": "A monoBERT reranker", "duo": "A duoBERT reranker"}


def model_card(job: Job, made: Mapping[str, Any], table: str) -> str:
    """Markdown with the settings of the training, its data and measures, and how to open it.

    Args:
        job: the training.
        made: what raypipe.json says of the training (`made_by`).
        table: what the training's table.md says: measures, what the guard left out, data.
    """
    kind = KINDS.get(job.conventions.kind, "A pre-trained BERT")
    if job.conventions.is_sparse:
        kind = "A SPLADE model"
    library = "sentence-transformers" if opens(job.conventions) else "raypipe"
    lines = ["---", f"library_name: {library}", "tags: [raypipe]", "---", ""]
    lines += [f"# {made['recipe']}", "", f"{kind}, made by `raypipe train`.", ""]
    lines += ["```python", *_opening(job), "```", ""]
    start = job.start.of_hub or Path(job.recipe.model.start).name  # readers have another disk
    lines += [f"- {note}" for note in peer_notes(job.conventions)]
    lines += [
        f"- start: {start} (weights with SHA-256 {made['start_sha256']})",
        f"- step {made['step']:,} of {made['steps']:,}, {made['batch']} examples a step, loss "
        f"{made['loss']}, seed {made['seed']}",
        "",
        "raypipe.json beside this file has the settings for raypipe.",
        "",
    ]
    return "\n".join([*lines, *_lower(table)])


def _opening(job: Job) -> Sequence[str]:
    if not opens(job.conventions):
        return ["# in a recipe's models: {NAME: {path: THIS_FOLDER}}"]
    if job.conventions.is_sparse:
        return [
            "from sentence_transformers import SparseEncoder",
            "",
            "model = SparseEncoder(THIS_FOLDER)",
            "weights = model.encode_document([PASSAGE])  # encode_query for queries",
        ]
    if job.conventions.kind == "encoder":
        return [
            "from sentence_transformers import SentenceTransformer",
            "",
            "model = SentenceTransformer(THIS_FOLDER)",
            "vectors = model.encode_document([PASSAGE])  # encode_query for queries",
        ]
    return [
        "from sentence_transformers import CrossEncoder",
        "",
        "scores = CrossEncoder(THIS_FOLDER).predict([(QUERY, PASSAGE)])",
    ]


def _lower(table: str) -> list[str]:
    """The lines of the table, its title one level lower."""
    return [f"#{line}" if line.startswith("#") else line for line in table.splitlines()] + [""]
