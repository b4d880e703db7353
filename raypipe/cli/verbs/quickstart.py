"""The command quickstart."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from raypipe.cli.options import AsJson, Out
from raypipe.cli.output import print_result
from raypipe.cli.verbs.pipeline import execute, tell_run
from raypipe.cli.verbs.train import execute_training, tell_model
from raypipe.config import load_recipe, load_training, recipe_text

if TYPE_CHECKING:
    from raypipe.driver.training.train import Trained


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(quickstart)


def quickstart(
    out: Out = Path("raypipe-quickstart"),
    passages: Annotated[
        int | None, typer.Option(help="Use a smaller collection, of 100 passages or more.", min=100)
    ] = None,
    train: Annotated[
        bool, typer.Option("--train", help="Then train a reranker for a minute with Ray Train.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Index, search and rerank Python's own documentation; nothing is downloaded."""
    from raypipe.driver.pipeline import Options
    from raypipe.driver.report.lines import to_stderr

    overrides = [] if passages is None else [f"collection.max_passages={passages}"]
    recipe = load_recipe(recipe_text("quickstart"), overrides=overrides, source="quickstart")
    to_stderr("quickstart: Python's own documentation, BM25, MiniLM and two rerankers")
    shown = None if train and as_json else as_json
    outcome = execute(recipe, out, Options(), as_json=shown, last=False)
    trained = _train(out, passages) if train else None
    if trained is not None:
        both = {**outcome.summary, "train": trained.summary}
        print_result(both, trained.table, as_json=as_json)
    from raypipe.report.contents import report
    from raypipe.report.finished import open_finished

    page = report(open_finished(out))
    if not as_json:
        print(_next(out, page), flush=True)
    if trained is not None:
        tell_model(trained)
    tell_run(outcome, out)


def _train(out: Path, passages: int | None) -> "Trained":
    """Search the quickstart's own train queries, then train on them for a minute."""
    from raypipe.driver.pipeline import Options
    from raypipe.driver.report.lines import to_stderr

    own = (out / "train-queries").absolute()
    overrides = [f"stores={(out / 'stores').absolute()}"]
    overrides += [] if passages is None else [f"collection.max_passages={passages}"]
    recipe = load_recipe(recipe_text("python-docs"), overrides=overrides, source="python-docs")
    to_stderr("quickstart: runs over the train and dev queries, then a minute of training")
    execute(recipe, own, Options(), as_json=None)
    training = load_training(
        recipe_text("quickstart-train"),
        overrides=[f"stores={(out / 'stores').absolute()}"],
        env={"OWN": str(own)},
        source="quickstart-train",
    )
    return execute_training(training, out / "trained")


def _next(out: Path, page: Path) -> str:
    called = Path(sys.argv[0])
    program = str(called) if called.name == "raypipe" else "raypipe"
    return (
        "Runs, measures and this table are in the workspace. Next, change a setting; only what\n"
        "depends on it is computed:\n\n"
        f"    {program} pipeline quickstart --out {out} stages.fused.method=alternate\n\n"
        f"For your own collection, start from a recipe that `{program} recipes` lists.\n\n"
        f"One page shows what the runs say, with charts and single queries: {page}\n\n"
        "Open it in a browser. This writes it anew:\n\n"
        f"    {program} report {out}"
    )
