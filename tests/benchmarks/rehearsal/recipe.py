"""The recipe of a rehearsal: the stages of the packaged MS MARCO recipes, in one."""

from pathlib import Path
from typing import Any

import yaml

from raypipe.config.load import recipe_text
from raypipe.storage.files import replace_file

RECIPES = ("msmarco-passage", "msmarco-multistage")
K1 = 10
"""In the place of 50, which makes 27 times the pairs."""
GROUPS = ("lucene", "embeddings", "bm25", "repbert", "fused", "mono", "duo")
"""Stages that are invocations of their own; the last invocation computes the rest."""


def write_recipe(file: Path, *, more: bool) -> None:
    """Write the recipe beside the folders `msmarco` and `models`.

    Args:
        file: the recipe.
        more: whether there are queries of eval.
    """
    found: dict[str, Any] = {}
    for name in RECIPES:
        body = yaml.safe_load(recipe_text(name))
        for section in ("models", "stages"):
            found.setdefault(section, {}).update(body[section])
        found = {**body, **found}
    if not more:
        del found["queries"]["eval"]
    found["name"] = "rehearsal"
    found["stages"]["duo"]["k1"] = K1
    found["evaluate"]["topics"] = "made-up judgements, which measure nothing"
    text = yaml.safe_dump(found, sort_keys=False)
    text = text.replace("${MSMARCO}", "msmarco").replace("${MODELS}", "models")
    replace_file(file, text.encode())
