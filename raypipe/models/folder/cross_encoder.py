"""Settings in the files of a cross-encoder of sentence-transformers: a monoBERT model's."""

from typing import Any

from raypipe.models.folder.files import part_of
from raypipe.models.folder.modular import as_saved
from raypipe.models.folder.modules import SETTINGS, ModelFiles
from raypipe.models.folder.sentence_transformers import (
    STATED,
    Evidence,
    check_tokenizer,
    default_prompt,
    token_limit,
)
from raypipe.models.tensors import Config

SCORES = {"Identity": "raw", "Sigmoid": "probability"}
"""Scores by the last part of an activation's dotted name."""
ONE_UNIT, TWO_UNITS = 1, 2


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
