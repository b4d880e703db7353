"""The command train."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from raypipe.cli.options import AsJson, OpenCluster, Out, RecipeName
from raypipe.config import Training, named_training
from raypipe.config.phases import PhasedTraining

if TYPE_CHECKING:
    from raypipe.driver.training.place import TrainOptions
    from raypipe.driver.training.train import Trained


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(train)


def train(
    recipe: RecipeName,
    overrides: Annotated[
        list[str] | None, typer.Argument(help="Changed settings, such as steps=1000.")
    ] = None,
    out: Out = Path("raypipe-train"),
    allow_open_cluster: OpenCluster = False,
    as_json: AsJson = False,
) -> None:
    """Fine-tune an encoder, a monoBERT or a duoBERT model, or pre-train; again to resume."""
    from raypipe.cli.output import print_result
    from raypipe.driver.training.place import TrainOptions

    options = TrainOptions(
        ray_address=os.environ.get("RAY_ADDRESS"), allow_open_cluster=allow_open_cluster
    )
    named = named_training(recipe, overrides=overrides or [], env=os.environ)
    trained = execute_training(named, out, options)
    print_result(trained.summary, trained.table.rstrip(), as_json=as_json)
    tell_model(trained)


def execute_training(
    recipe: Training | PhasedTraining, out: Path, options: "TrainOptions | None" = None
) -> "Trained":
    """Train with progress on stderr."""
    from raypipe.driver.report.lines import to_stderr
    from raypipe.driver.report.progress import TerminalWatcher
    from raypipe.driver.training.train import run_training

    with TerminalWatcher(sys.stderr) as watcher:
        return run_training(recipe, out, options, watcher=watcher, say=to_stderr)


def tell_model(trained: "Trained") -> None:
    """Where the trained model is, as the last line of the command."""
    from raypipe.driver.report.lines import to_stderr

    to_stderr(f"model: {trained.model}")
