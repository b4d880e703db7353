"""The recipe of `raypipe beir`: the packaged one over a folder in BEIR's layout."""

from pathlib import Path
from typing import Any

from raypipe.config import Recipe, load_recipe, recipe_text
from raypipe.config.yaml import parse_yaml
from raypipe.driver.verbs.single_stage import place_of
from raypipe.errors import InputError

PACKED = ("", ".gz", ".bz2", ".zst")
MODEL = "minilm"


def beir_recipe(folder: Path, split: str, model: str, overrides: list[str]) -> Recipe:
    """The packaged recipe `beir` over this folder; the query set has the split's name.

    Raises:
        InputError: a file is missing, or the overrides are wrong.
    """
    names = {"corpus": "corpus.jsonl", "queries": "queries.jsonl", "qrels": f"qrels/{split}.tsv"}
    found = {key: _packed(folder / name) for key, name in names.items()}
    lacking = [
        f"{folder / names[key]}: no such file; expected BEIR's layout{_others(folder)}"
        for key, path in found.items()
        if path is None
    ]
    if lacking:
        raise InputError(lacking)
    body: dict[str, Any] = parse_yaml(recipe_text("beir"), origin=str).data
    files = {"file": str(found["queries"]), "qrels": str(found["qrels"]), "only_judged": True}
    body["collection"]["input"] = str(folder.absolute())
    body["queries"] = {split: files}
    body["models"][MODEL] |= place_of(model)
    body["evaluate"]["topics"] = f"{folder.absolute().name}, {split}"
    return load_recipe(body, overrides=overrides, source="raypipe beir")


def _packed(path: Path) -> Path | None:
    every = (path.with_name(path.name + ending).absolute() for ending in PACKED)
    return next((each for each in every if each.is_file()), None)


def _others(folder: Path) -> str:
    """The splits that there are, for a message."""
    names = sorted({path.name.split(".")[0] for path in (folder / "qrels").glob("*.tsv*")})
    return f" with --split {' or '.join(names)}" if names else ""
