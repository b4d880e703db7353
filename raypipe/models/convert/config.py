"""The config.json of a checkpoint to be converted."""

from pathlib import Path
from typing import Any

from raypipe.errors import InputError
from raypipe.models.family import family_of
from raypipe.models.folder.evidence import read_object


def read_config(folder: Path) -> tuple[str, dict[str, Any]]:
    """(file name, content) of config.json, or of bert_config.json as Google wrote it.

    Raises:
        InputError: there is neither, or raypipe cannot compute such a model.
    """
    for name in ("config.json", "bert_config.json"):
        if (folder / name).exists():
            config = read_object(folder / name)
            try:
                problems = family_of(config).files.config_problems(config)
            except InputError as error:
                problems = list(error.problems)
            if problems:
                raise InputError([f"{folder / name}: {problem}" for problem in problems])
            return name, config
    raise InputError(f"{folder}: no config.json or bert_config.json beside the checkpoint")
