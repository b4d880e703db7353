"""Runs a command as the driver of a Ray job, for `jobs/VERB.py`."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from string import Template

from raypipe.cli.main import main
from raypipe.cli.options import HELP, value_of_out
from raypipe.config.load import read_recipe, recipe_names, recipe_text
from raypipe.config.yaml import parse_yaml
from raypipe.errors import InputError
from raypipe.uris import in_bucket

VANISHES = "the folder a job runs in is Ray's copy on the head and is deleted"


def run_job(verb: str, arguments: Sequence[str]) -> None:
    """Run a command on the cluster that accepted the job, and exit with its code."""
    problems = [] if {*HELP} & {*arguments} else job_problems(arguments, os.environ)
    main([verb, *arguments], problems)


def job_problems(arguments: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    """Reasons why these arguments cannot run as a job here; empty if they can."""
    problems = []
    if not environment.get("RAY_ADDRESS"):
        problems.append(
            "RAY_ADDRESS: expected the cluster that accepted this job, found none; submit it with "
            "`ray job submit --address ... -- python -I jobs/...`, or run `raypipe` for one machine"
        )
    out = value_of_out(arguments)
    if out is None or not (Path(out).is_absolute() or in_bucket(out)):
        shown_out = "none" if out is None else repr(out)
        problems.append(
            "--out: expected a bucket (s3://, gs://), or an absolute folder, shared by all nodes "
            "unless `stores` is a bucket, "
            f"found {shown_out}; {VANISHES}"
        )
    stores = _stores(arguments, environment)
    if stores is not None and "://" not in stores and not Path(stores).is_absolute():
        problems.append(
            "stores: expected a bucket (s3://, gs://) or an absolute folder that every node "
            f"mounts, found {stores!r}; {VANISHES}. Add stores=s3://BUCKET/stores to the job"
        )
    return problems


def _stores(arguments: Sequence[str], environment: Mapping[str, str]) -> str | None:
    """The place of the stores as written: the last override, or in a recipe in the job's folder.

    None if nothing is written, if the recipe's own path is absolute (`stores` is relative to the
    recipe), or if it cannot be read: the command itself then reports the problem.
    """
    recipes = [Path(a) for a in arguments if a.endswith((".yaml", ".yml"))]
    if any(recipe.is_absolute() for recipe in recipes):
        return None
    written = [a.removeprefix("stores=") for a in arguments if a.startswith("stores=")]
    if not written:
        texts = [text for recipe in recipes if (text := _text(recipe)) is not None]
        texts += [recipe_text(name) for name in arguments if name in recipe_names()]
        written = [stores for text in texts if (stores := _written(text))]
    return Template(written[-1]).safe_substitute(environment) if written and written[-1] else None


def _text(recipe: Path) -> str | None:
    try:
        return read_recipe(recipe)
    except InputError:
        return None


def _written(recipe: str) -> str | None:
    try:
        data = parse_yaml(recipe, origin=str).data
    except InputError:
        return None
    stores = data.get("stores") if isinstance(data, dict) else None
    return stores if isinstance(stores, str) else None
