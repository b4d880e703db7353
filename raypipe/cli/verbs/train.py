"""The command train."""

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from raypipe.cli.verbs.pipeline import AsJson, OpenCluster, Out
from raypipe.config import Training, load_training, read_recipe, recipe_text, verb_of
from raypipe.config.training.phases import PhasedTraining
from raypipe.errors import InputError

if TYPE_CHECKING:
    from raypipe.driver.training.place import TrainOptions
    from raypipe.driver.training.train import Trained


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(train)


def train(
    recipe: Annotated[str, typer.Argument(help="A YAML file, or the name of a packaged recipe.")],
    overrides: Annotated[
        list[str] | None, typer.Argument(help="Changed settings, such as steps=1000.")
    ] = None,
    out: Out = Path("raypipe-train"),
    allow_open_cluster: OpenCluster = False,
    as_json: AsJson = False,
) -> None:
    """Fine-tune an encoder, a monoBERT or a duoBERT model, or pre-train; again to resume."""
    from raypipe.driver.training.place import TrainOptions

    options = TrainOptions(
        ray_address=os.environ.get("RAY_ADDRESS"), allow_open_cluster=allow_open_cluster
    )
    trained = execute_training(named_training(recipe, overrides or []), out, options)
    print(json.dumps(trained.summary) if as_json else trained.table.rstrip())


def execute_training(
    recipe: Training | PhasedTraining, out: Path, options: "TrainOptions | None" = None
) -> "Trained":
    """Train with progress on stderr."""
    from raypipe.driver.pipeline import to_stderr
    from raypipe.driver.report.progress import TerminalWatcher
    from raypipe.driver.training.train import run_training

    watcher = TerminalWatcher(sys.stderr)
    try:
        trained = run_training(recipe, out, options, watcher=watcher, say=to_stderr)
    finally:
        watcher.stop()
    to_stderr(f"model: {trained.model}")
    return trained


def _refuse_pipeline(text: str, name: str) -> None:
    if verb_of(text) == "pipeline" and "\nstages:" in text:
        raise InputError(
            f"{name}: this is a pipeline recipe (it has stages); use `raypipe pipeline {name}`"
        )


def named_training(recipe: str, overrides: list[str]) -> Training | PhasedTraining:
    """The recipe in a file, or the packaged one of that name."""
    path = Path(recipe)
    if path.suffix in (".yaml", ".yml") or path.exists():
        if not path.is_file():
            raise InputError(f"{path}: no such recipe file; `raypipe recipes` lists packaged ones")
        _refuse_pipeline(read_recipe(path), recipe)
        return load_training(path, overrides=overrides, env=os.environ)
    text = recipe_text(recipe)
    _refuse_pipeline(text, recipe)
    return load_training(
        text, overrides=overrides, env=os.environ, base=Path.cwd(), source=f"recipe {recipe}"
    )
