"""Settings in the files of sentence-transformers: an encoder's modules, or a cross-encoder's head.

Each setting has its source. Modules that raypipe does not compute itself are that library's work.
"""

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from raypipe.errors import InputError
from raypipe.models.family import family_of
from raypipe.models.folder.files import SPECIALS, part_of
from raypipe.models.folder.modules import (
    QUERY_TABLE,
    ROUTER,
    SETTINGS,
    TRANSFORMERS,
    ModelFiles,
    as_saved,
)
from raypipe.models.folder.settings import SPLADE, SPLADE_LOG
from raypipe.models.tensors import Config

STATED = " prompts."
"""In the source of a prefix that the folder's own files state, if only as empty text."""
LARGEST_LENGTH = 1e300
"""transformers writes 1e30 for a tokenizer without a limit; an infinite number is none either."""
POOLINGS = {"mean": "mean", "cls": "cls", "max": "max", "lasttoken": "last"}
"""raypipe's word by sentence-transformers'."""
OLD_POOLING = re.compile(r"pooling_mode_(\w+?)(?:_tokens?)?")
"""A key of releases before 6, such as pooling_mode_mean_tokens; later ones write `pooling_mode`."""
SPLADE_POOLING = "SpladePooling"
OTHER_PROMPTS = ("passage", "corpus")
"""Names of prompts for passages that encode_document would look for if `document` had no place."""
SCORES = {"Identity": "raw", "Sigmoid": "probability"}
"""Scores by the last part of an activation's dotted name."""
ONE_UNIT, TWO_UNITS = 1, 2


@dataclass(slots=True)
class Evidence:
    """The settings read so far; each open field is a problem."""

    values: dict[str, Any] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)
    """Field -> why it is open; raypipe.json can give the field."""
    by_library: str | None = None
    """Why sentence-transformers computes the model, and raypipe does not."""
    notes: list[str] = field(default_factory=list)

    def add(self, source: str, **values: Any) -> None:
        """Add values from one source."""
        self.values |= values
        self.sources |= dict.fromkeys(values, source)


def read_sentence_transformer(files: ModelFiles) -> Evidence:
    """The settings of its `encode`: one text per row, each in segment 0."""
    evidence = Evidence()
    inner, modules, routes = files.transformer, files.modules, files.routes
    names = [name for name, _ in modules]
    sparse = names[:1] in [[each] for each in TRANSFORMERS] and names[1:] == [SPLADE_POOLING]
    by_route = {route: [name for name, _ in each] for route, each in routes.items()}
    by_table = {"document": names, "query": [QUERY_TABLE]}
    plain = names in (["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"])
    if not (sparse or plain) or (routes and not (sparse and by_route == by_table)):
        shown = "; ".join(f"{route}: {', '.join(each)}" for route, each in by_route.items())
        evidence.by_library = f"its modules are {shown or ', '.join(names) or ROUTER}"
        return evidence
    normalise = names[-1] == "Normalize"
    evidence.add("modules.json", kind="encoder")
    where = "modules.json: Normalize" if normalise else "modules.json: no Normalize"
    evidence.add(where, normalise=normalise)
    read = _read_splade if sparse else _read_pooling
    read(files, str(Path(modules[1][1], "config.json")), evidence)
    _read_finishing(files, evidence)
    evidence.add("one text alone is segment 0", query_segment=0, passage_segment=0)
    check_tokenizer(inner, evidence)
    limit, source = token_limit(inner, inner.config)
    if type(limit) is int and limit > SPECIALS:
        evidence.add(source, query_limit=limit - SPECIALS, passage_limit=limit - SPECIALS)
    else:
        problem = (
            f"no max_seq_length, model_max_length or positions above {SPECIALS}, found {limit!r}"
        )
        evidence.problems |= {"query_limit": problem, "passage_limit": problem}
    if routes:
        _read_table(ModelFiles(files.folder / routes["query"][0][1]), evidence)
    read_prompts(files, evidence)
    return evidence


def _read_pooling(files: ModelFiles, name: str, evidence: Evidence) -> None:
    body = files.read(name)
    old = [match[1] for key in body if (match := OLD_POOLING.fullmatch(key)) and body[key]]
    modes: Any = body.get("pooling_mode", old)
    modes = [str(mode) for mode in (modes if isinstance(modes, list) else [modes])]
    if len(modes) != 1 or modes[0] not in POOLINGS:
        evidence.by_library = f"its pooling is {' and '.join(modes) or 'not stated'}"
    else:
        evidence.add(name, pooling=POOLINGS[modes[0]])


def _read_splade(files: ModelFiles, name: str, evidence: Evidence) -> None:
    log = files.read(name).get("activation_function") == "log1p_relu"
    evidence.add(name, pooling=SPLADE_LOG if log else SPLADE)
    if (terms := files.settings.get("max_active_dims")) is not None:
        evidence.add(f"{SETTINGS} max_active_dims", max_terms=terms)


def _read_table(files: ModelFiles, evidence: Evidence) -> None:
    """Read what encodes queries, without special tokens, in the place of the transformer."""
    (limit, _), place = token_limit(files, {}), files.folder.name
    evidence.add("router_config.json", query_table=place)
    evidence.add(f"{place}/tokenizer_config.json model_max_length", query_limit=limit)
    if limit is None:
        evidence.problems["query_limit"] = f"{place}/tokenizer_config.json: no model_max_length"


def _read_finishing(files: ModelFiles, evidence: Evidence) -> None:
    """Read `truncate_dim`, and leave other similarities than products and cosines."""
    settings, normalise = files.settings, evidence.values["normalise"]
    if settings.get("truncate_dim") is not None:
        evidence.add(f"{SETTINGS} truncate_dim", truncate_dim=settings["truncate_dim"])
        if normalise:
            evidence.by_library = "its truncate_dim cuts vectors after their Normalize"
    stated = settings.get("similarity_fn_name")
    evidence.notes += finishing_notes(normalise, stated)
    sparse = evidence.values.get("pooling") in (SPLADE, SPLADE_LOG)
    if similarity_problems(files.folder, stated, sparse=sparse):
        evidence.by_library = f"its similarity is {stated}"


def finishing_notes(normalise: bool, similarity: str | None) -> list[str]:
    """Notes on embeddings that are not used as sentence-transformers' encode gives them."""
    if similarity != "cosine" or normalise:
        return []
    return [
        f"scores are inner products of embeddings as encode gives them; {SETTINGS} says "
        'similarity_fn_name cosine: to rank by it, put "normalise": true in raypipe.json'
    ]


def similarity_problems(folder: Path, similarity: str | None, *, sparse: bool) -> list[str]:
    """The problem of a similarity by which no index of raypipe ranks."""
    known = ("dot",) if sparse else ("cosine", "dot")
    if similarity in (None, *known):
        return []
    expected = " or ".join(known)
    return [f"{folder / SETTINGS}: similarity_fn_name: expected {expected}, found {similarity}"]


def token_limit(files: ModelFiles, config: Config) -> tuple[int | None, str]:
    """(tokens of an input with special tokens, source), as sentence-transformers reads it.

    It is max_seq_length, or the tokenizer's model_max_length up to the model's positions.
    """
    stated = files.read("sentence_bert_config.json").get("max_seq_length")
    if stated is not None:
        return stated, "sentence_bert_config.json max_seq_length, specials included"
    positions = config.get("max_position_embeddings")
    if type(positions) is int:
        positions = family_of(config).files.num_positions(config)
    longest = files.read("tokenizer_config.json").get("model_max_length")
    if (
        isinstance(longest, int | float)
        and abs(longest) < LARGEST_LENGTH
        and (type(positions) is not int or longest < positions)
    ):
        return int(longest), "tokenizer_config.json model_max_length, specials included"
    return positions, "config.json max_position_embeddings, specials included"


def read_prompts(files: ModelFiles, evidence: Evidence) -> None:
    """Read the prefixes that encode_query and encode_document use: those named so."""
    prompts = files.prompts
    for side, name in (("query", "query"), ("passage", "document")):
        where = f"{SETTINGS}{STATED}{name}" if name in prompts else f"{SETTINGS}: no prompt {name}"
        evidence.add(where, **{f"{side}_prefix": prompts.get(name) or ""})
    evidence.notes += prompt_notes(files)


def prompt_notes(files: ModelFiles) -> list[str]:
    """Notes on prompts that encode_query and encode_document do not use."""
    prompts, notes = files.prompts, []
    others = [name for name in OTHER_PROMPTS if prompts.get(name) and not prompts.get("document")]
    if others:
        notes.append(
            f"{SETTINGS} has the prompt {others[0]!r}, which sentence-transformers' "
            'encode_document does not use, and so neither does raypipe: to use it, put "'
            f'passage_prefix": {json.dumps(prompts[others[0]])} in raypipe.json'
        )
    default = default_prompt(files)
    if default and prompts.get(default) and default not in ("query", "document", *OTHER_PROMPTS):
        notes.append(
            f"{SETTINGS} has default_prompt_name {default!r}, which sentence-transformers' "
            "encode_query and encode_document do not use, and so neither does raypipe: to use it, "
            f'put {json.dumps(prompts[default])} in raypipe.json as "query_prefix" or '
            '"passage_prefix"'
        )
    return notes


def default_prompt(files: ModelFiles) -> str | None:
    """The name of the prompt that calls use which name none.

    Raises:
        InputError: it is no text.
    """
    name, file = files.settings.get("default_prompt_name"), files.folder / SETTINGS
    if not isinstance(name, str | None):
        raise InputError(f"{file}: default_prompt_name: expected text, found {name!r}")
    return name


def check_tokenizer(files: ModelFiles, evidence: Evidence) -> None:
    """Leave a tokenizer without its family's special tokens to the library.

    Raises:
        InputError: tokenizer.json cannot be read.
    """
    if not (files.folder / "tokenizer.json").exists():
        return  # a vocab.txt is BERT's, and so are its inputs
    tokenizer = files.tokenizer
    try:
        family_of(files.config).layout(tokenizer, (0,))
    except InputError as error:
        evidence.by_library = f"tokenizer.json: {error.problems[0]}"


def read_cross_encoder(files: ModelFiles) -> Evidence:
    """Settings of a monoBERT model; the longer of query and passage is cut first."""
    evidence = Evidence()
    config = as_saved(files)
    evidence.add("config.json architectures", kind="mono")
    evidence.add("the tokenizer cuts the longest first", query_limit=None, passage_limit=None)
    limit, source = token_limit(files, config)
    if limit is None:
        evidence.problems["total_limit"] = "no max_seq_length, model_max_length or positions"
    else:
        evidence.add(source, total_limit=limit)
    units = num_labels_of(config)
    if units == ONE_UNIT:
        evidence.add("config.json: a head of one unit", relevant_label=None)
        _read_score(files, config, evidence)
    elif units == TWO_UNITS:
        evidence.problems["relevant_label"] = (
            "config.json: a head of two units does not say which means relevant: 0 or 1"
        )
        evidence.problems["score"] = (
            "config.json: a head of two units does not say whether the score is that unit's "
            "log-probability, probability or raw"
        )
    else:
        evidence.by_library = f"its head has {units!r:.60} units"
    _read_prompt(files, evidence)
    check_tokenizer(files, evidence)
    return evidence


def _read_prompt(files: ModelFiles, evidence: Evidence) -> None:
    """Read what `predict` puts before the first text of a pair: the default prompt alone."""
    name = default_prompt(files)
    prompt = files.prompts.get(name) if name else None
    where = f"{SETTINGS}{STATED}{name}" if prompt else f"{SETTINGS}: no default prompt"
    evidence.add(where, query_prefix=prompt or "")
    evidence.add("predict puts no text before a passage", passage_prefix="")


def num_labels_of(config: Config) -> Any:
    """Number of head units: num_labels, or the labels named, or transformers' default of two."""
    named, stated = config.get("id2label"), config.get("num_labels")
    if stated is not None:
        return stated
    return len(named) if isinstance(named, dict | list) and named else TWO_UNITS


def _read_score(files: ModelFiles, config: Config, evidence: Evidence) -> None:
    """Read the activation as `predict` does, which takes Sigmoid where none is stated."""
    part, old = "sentence_transformers", "sbert_ce_default_activation_function"
    own = part_of(config, part, files.folder / "config.json")
    places = [
        (f"{SETTINGS} activation_fn", files.settings.get("activation_fn")),
        (f"config.json {part}.activation_fn", own.get("activation_fn")),
        (f"config.json {old}", config.get(old)),
    ]
    source, activation = next((place for place in places if place[1]), (None, None))
    if source is None:
        evidence.add("no activation is stated: sentence-transformers' Sigmoid", score="probability")
        return
    score = SCORES.get(str(activation).rpartition(".")[2])
    if score is None:
        evidence.problems["score"] = f"{source}: expected Identity or Sigmoid, found {activation}"
    else:
        evidence.add(source, score=score)
