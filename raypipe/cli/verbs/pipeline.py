"""The commands pipeline, beir, table and recipes."""

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from raypipe.config import Recipe, named_recipe, recipe_names, recipe_text
from raypipe.errors import InputError
from raypipe.vocabulary import TableFormat, listed, words

if TYPE_CHECKING:
    from raypipe.driver.pipeline import Options, Outcome

Out = Annotated[Path, typer.Option("--out", help="The workspace; created if new, resumed if not.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")]
Overrides = Annotated[
    list[str] | None, typer.Argument(help="Changed settings, such as stages.bm25.depth=100.")
]
RecipeName = Annotated[str, typer.Argument(help="A YAML file, or the name of a packaged recipe.")]
Frozen = Annotated[
    bool, typer.Option("--frozen", help="Exit with 4 if a setting differs from the last run's.")
]
OpenCluster = Annotated[
    bool,
    typer.Option("--allow-open-cluster", help="Accept a cluster without token authentication."),
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command(name="pipeline")(pipeline)
    app.command()(beir)
    app.command()(table)
    app.command()(recipes)


def pipeline(
    recipe: RecipeName,
    overrides: Overrides = None,
    out: Out = Path("raypipe-work"),
    only: Annotated[
        str | None, typer.Option(help="Run only this stage; its inputs must be stored.")
    ] = None,
    until: Annotated[
        str | None, typer.Option(help="Run this stage and everything it needs.")
    ] = None,
    frozen: Frozen = False,
    allow_open_cluster: OpenCluster = False,
    as_json: AsJson = False,
) -> None:
    """Run a recipe; run the same command again to resume."""
    from raypipe.driver.pipeline import Options

    options = Options(
        only=only,
        until=until,
        frozen=frozen,
        ray_address=os.environ.get("RAY_ADDRESS"),
        allow_open_cluster=allow_open_cluster,
    )
    named = named_recipe(recipe, overrides=overrides or [], env=os.environ)
    execute(named, out, options, as_json=as_json)


def beir(
    folder: Annotated[
        Path, typer.Argument(help="A folder with corpus.jsonl, queries.jsonl and qrels/SPLIT.tsv.")
    ],
    overrides: Overrides = None,
    out: Out = Path("raypipe-work"),
    split: Annotated[str, typer.Option(help="Which judgements: qrels/SPLIT.tsv.")] = "test",
    model: Annotated[str, typer.Option(help="The encoder: minilm, or a model folder.")] = "minilm",
    allow_open_cluster: OpenCluster = False,
    as_json: AsJson = False,
) -> None:
    """Search a collection of BEIR with BM25, with an encoder and with both, and measure it."""
    from raypipe.driver.pipeline import Options
    from raypipe.driver.verbs.beir import beir_recipe

    recipe = beir_recipe(folder, split, model, overrides or [])
    address = os.environ.get("RAY_ADDRESS")
    options = Options(ray_address=address, allow_open_cluster=allow_open_cluster)
    execute(recipe, out, options, as_json=as_json)


def table(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A pipeline's workspace.")],
    written: Annotated[str, typer.Option("--format", help=f"{listed(TableFormat)}.")] = "md",
    query_set: Annotated[
        str | None, typer.Option("--queries", help="A query set; by default each one.")
    ] = None,
    measures: Annotated[
        str, typer.Option(help="Measures, in the notation of ir_measures; by default the recipe's.")
    ] = "",
    out: Annotated[
        Path | None, typer.Option(help="Write a file, new or replaced, and print its name.")
    ] = None,
) -> None:
    """Print the results table of a finished pipeline, for a paper or a program."""
    from raypipe.driver.analysis.finished import open_finished
    from raypipe.driver.results.results import results
    from raypipe.driver.results.writing import in_format, write_beside

    if written not in words(TableFormat):
        raise InputError(f"--format {written}: expected {listed(TableFormat)}")
    finished = open_finished(folder)
    found = results(finished, query_set, measures.replace(",", " ").split())
    text = in_format(found, written)
    if out is None:
        print(text, end="")
    else:
        print(write_beside(finished, out, text))


def recipes(
    name: Annotated[str | None, typer.Argument(help="Print this recipe.")] = None,
) -> None:
    """List the packaged recipes, or print one of them."""
    if name is not None:
        print(recipe_text(name).rstrip())
        return
    width = max(map(len, recipe_names()))
    for verb in ("pipeline", "train"):
        for each in recipe_names(verb):
            print(f"{each:{width}}  raypipe {verb}")


def execute(recipe: Recipe, out: Path, options: "Options", *, as_json: bool | None) -> "Outcome":
    """Run a recipe and print its table, or its summary as JSON; None prints neither."""
    from raypipe.driver.mirror import address_of
    from raypipe.driver.pipeline import run_pipeline, to_stderr
    from raypipe.driver.report.progress import TerminalWatcher

    watcher = TerminalWatcher(sys.stderr)
    try:
        outcome = run_pipeline(recipe, out, options, watcher=watcher, say=to_stderr)
    finally:
        watcher.stop()
    stages = outcome.summary["stages"]
    reused = sum(1 for stage in stages.values() if stage["reused"])
    done = f"{len(stages)} stages, {reused} reused, {outcome.summary['seconds']} s"
    to_stderr(f"{done}: {address_of(out)}")
    if as_json:
        print(json.dumps(outcome.summary))
    elif outcome.table and as_json is not None:
        print(outcome.table)
    return outcome
