"""Settings in the files of sentence-transformers: an encoder's modules, and a cross-encoder."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, Field

from raypipe.errors import InputError
from raypipe.models.folder.evidence import (
    Evidence,
    check_tokenizer,
    part_of,
    read_json,
    read_object,
    read_prompts,
    token_limit,
)
from raypipe.models.folder.layers import EMBEDDING, NORMALISE
from raypipe.models.folder.schema import FileName, schema_problems

SETTINGS = "config_sentence_transformers.json"


def read_finishing(folder: Path, modules: Sequence[tuple[str, str]], found: Evidence) -> None:
    """Read dense layers, normalisation and `truncate_dim`, and refuse other similarities.

    Args:
        folder: the model's.
        modules: (Dense or Normalize, folder) of what follows Pooling, in order.
        found: is added to.
    """
    for name, place in modules:
        _check_reads_vectors(folder / place, name, found)
    names = [name for name, _ in modules]
    normalise = names[-1:] == ["Normalize"]
    where = "modules.json: Normalize" if normalise else "modules.json: no Normalize at the end"
    found.add(where if "Normalize" in names else "modules.json: no Normalize", normalise=normalise)
    steps = [place if name == "Dense" else NORMALISE for name, place in modules]
    steps = steps[:-1] if normalise else steps
    if steps:
        found.add("modules.json", dense=tuple(steps))
    settings = read_object(folder / SETTINGS)
    if settings.get("truncate_dim") is not None:
        found.add(f"{SETTINGS} truncate_dim", truncate_dim=settings["truncate_dim"])
    if normalise and "truncate_dim" in found.values:
        found.notes.append(
            "embeddings are cut and then normalised; sentence-transformers' encode normalises "
            "first: its embeddings are these if it is called with normalize_embeddings=True"
        )
    stated = settings.get("similarity_fn_name")
    if stated == "cosine" and not normalise:
        found.notes.append(
            "scores are inner products of embeddings as encode gives them; "
            f"{SETTINGS} says similarity_fn_name cosine: to rank by it, put "
            '"normalise": true in raypipe.json'
        )
    if stated not in (None, "cosine", "dot"):
        found.refusals.append(
            f"{folder / SETTINGS}: similarity_fn_name: expected cosine or dot, found {stated}"
        )


def _check_reads_vectors(place: Path, name: str, found: Evidence) -> None:
    """Refuse a Normalize of tokens' states, which are pooled before all this."""
    stated = read_object(place / "config.json") if name == "Normalize" else {}
    for key in ("module_input_name", "module_output_name"):
        if stated.get(key) not in (None, EMBEDDING):
            found.refusals.append(
                f"{place / 'config.json'}: {key}: expected {EMBEDDING}, found {stated[key]!r}"
            )


POOLINGS = {"mean": "mean", "cls": "cls", "max": "max", "lasttoken": "last"}
"""raypipe's word by sentence-transformers'."""
OLD_POOLINGS = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
"""The keys of releases before 6; later ones write `pooling_mode`."""


class Module(BaseModel):
    """An entry of modules.json; other keys of it are not read."""

    path: Annotated[FileName, Field(description="a folder's name")] = ""


def modules_of(folder: Path) -> list[tuple[str, str]]:
    """(class, folder) of each module in modules.json, in order; empty if there are none.

    Raises:
        InputError: not JSON, or the path of a module is no name.
    """
    file = folder / "modules.json"
    body = read_json(file)
    modules = [each for each in body if isinstance(each, dict)] if isinstance(body, list) else []
    for module in modules:
        problems = schema_problems(Module, module, missing="save the model anew")
        if problems:
            raise InputError([f"{file}: {problem}" for problem in problems])
    return [(str(m.get("type", "")).rpartition(".")[2], m.get("path", "")) for m in modules]


def is_sentence_transformer(folder: Path) -> bool:
    """Whether modules.json has pooling; a cross-encoder's has only a Transformer."""
    modules = [name for name, _ in modules_of(folder)]
    return len(modules) > 1


def transformer_folder(folder: Path) -> Path:
    """The folder of the transformer's own files: the folder itself, or the one in modules.json."""
    modules = modules_of(folder)
    place = modules[0][1] if modules and modules[0][0] == "Transformer" else ""
    inside = folder / place
    return inside if place and Path(place).name == place and inside.is_dir() else folder


def read_sentence_transformer(folder: Path) -> Evidence:
    """The settings of its `encode`: one text per row, each in segment 0."""
    found = Evidence()
    inner = transformer_folder(folder)
    modules = modules_of(folder)
    names = [name for name, _ in modules]
    if names[:2] != ["Transformer", "Pooling"] or not {*names[2:]} <= {"Dense", "Normalize"}:
        found.refusals.append(
            f"{folder / 'modules.json'}: expected Transformer, Pooling, and then at most Dense and "
            f"Normalize, found {', '.join(names)}"
        )
        return found
    found.add("modules.json", kind="encoder")
    _read_pooling(folder, folder / modules[1][1] / "config.json", found)
    read_finishing(folder, modules[2:], found)
    found.add("one text alone is segment 0", query_segment=0, passage_segment=0)
    config = read_object(inner / "config.json")
    layout = check_tokenizer(inner, found, pair=False)
    specials = 2 if layout is None else layout.num_specials
    limit, source = token_limit(inner, config)
    if isinstance(limit, int) and not isinstance(limit, bool) and limit > specials:
        found.add(source, query_limit=limit - specials, passage_limit=limit - specials)
    else:
        problem = (
            f"no max_seq_length, model_max_length or positions above {specials}, found {limit!r}"
        )
        found.problems |= {"query_limit": problem, "passage_limit": problem}
    read_prompts(folder, found)
    _check_lower_case(inner, found)
    return found


def _read_pooling(folder: Path, path: Path, found: Evidence) -> None:
    body = read_object(path)
    modes: Any = body.get("pooling_mode", [OLD_POOLINGS[n] for n in OLD_POOLINGS if body.get(n)])
    modes = [str(mode) for mode in (modes if isinstance(modes, list) else [modes])]
    where = path.relative_to(folder) if path.is_relative_to(folder) else path
    if len(modes) != 1 or modes[0] not in POOLINGS:
        found.refusals.append(
            f"{path}: pooling: expected one of {', '.join(POOLINGS)}, found "
            f"{' and '.join(modes) or 'none'}"
        )
    else:
        found.add(f"{where}", pooling=POOLINGS[modes[0]])
    prompted = folder / "config_sentence_transformers.json"
    prompts = part_of(read_object(prompted), "prompts", prompted)
    if body.get("include_prompt") is False and any(prompts.values()):
        found.refusals.append(f"{path}: include_prompt: expected true, found false with prompts")


def _check_lower_case(inner: Path, found: Evidence) -> None:
    """Refuse do_lower_case: with it, `encode` lower-cases the text itself, and raypipe does not."""
    if not read_object(inner / "sentence_bert_config.json").get("do_lower_case"):
        return
    tokenizer = inner / "tokenizer.json"
    normaliser = part_of(read_object(tokenizer), "normalizer", tokenizer)
    if normaliser.get("lowercase") is not True:
        found.refusals.append(
            f"{inner / 'sentence_bert_config.json'}: do_lower_case is true, and tokenizer.json "
            "does not lower-case; convert it with a tokenizer that does"
        )


SCORES = {"Identity": "raw", "Sigmoid": "probability"}
"""Scores by the last part of an activation's dotted name."""
ONE_UNIT, TWO_UNITS = 1, 2


def num_labels_of(config: Mapping[str, Any]) -> int:
    """Number of head units: num_labels, or the labels named, or transformers' default of two.

    Raises:
        InputError: num_labels is no whole number.
    """
    named, stated = config.get("id2label"), config.get("num_labels")
    if stated is not None:
        if not isinstance(stated, int) or isinstance(stated, bool):
            raise InputError(f"num_labels: expected a count, found {str(stated)[:60]!r}")
        return stated
    return len(named) if isinstance(named, dict | list) and named else TWO_UNITS


def read_cross_encoder(folder: Path) -> Evidence:
    """Settings of a monoBERT model; the longer of query and passage is cut first."""
    found = Evidence()
    config = read_object(folder / "config.json")
    found.add("config.json architectures", kind="mono")
    found.add("the tokenizer cuts the longest first", query_limit=None, passage_limit=None)
    limit, source = token_limit(folder, config)
    if limit is None:
        found.problems["total_limit"] = "no max_seq_length, model_max_length or positions"
    else:
        found.add(source, total_limit=limit)
    try:
        units = num_labels_of(config)
    except InputError as error:
        raise InputError(f"{folder / 'config.json'}: {error}") from error
    if units == ONE_UNIT:
        found.add("config.json: a head of one unit", relevant_label=None)
        _read_score(folder, config, found)
    elif units == TWO_UNITS:
        found.problems["relevant_label"] = (
            "config.json: a head of two units does not say which means relevant: 0 or 1"
        )
        found.problems["score"] = (
            "config.json: a head of two units does not say whether the score is that unit's "
            "log-probability, probability or raw"
        )
    else:
        found.refusals.append(
            f"{folder / 'config.json'}: expected a head of one or two units, found {units}"
        )
    read_prompts(folder, found)
    check_tokenizer(folder, found, pair=True)
    return found


def _read_score(folder: Path, config: Mapping[str, Any], found: Evidence) -> None:
    """Reads the activation saved by sentence-transformers; otherwise the unit's raw value."""
    stated = {
        "config.json sentence_transformers.activation_fn": part_of(
            config, "sentence_transformers", folder / "config.json"
        ).get("activation_fn"),
        "config.json sbert_ce_default_activation_function": config.get(
            "sbert_ce_default_activation_function"
        ),
        "config_sentence_transformers.json activation_fn": read_object(
            folder / "config_sentence_transformers.json"
        ).get("activation_fn"),
    }
    source, activation = next(
        ((source, name) for source, name in stated.items() if name), (None, None)
    )
    if source is None:
        found.add("no activation is stated: the unit's raw value", score="raw")
        return
    score = SCORES.get(str(activation).rpartition(".")[2])
    if score is None:
        found.problems["score"] = f"{source}: expected Identity or Sigmoid, found {activation}"
    else:
        found.add(source, score=score)
