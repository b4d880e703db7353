"""Settings of a sentence-transformers folder, from its modules' files."""

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
from raypipe.models.folder.parts.modules import read_finishing
from raypipe.models.folder.schema import FileName, schema_problems

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
