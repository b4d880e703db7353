"""Arguments and options that several commands have."""

from pathlib import Path
from typing import Annotated

import typer

from raypipe.errors import InputError
from raypipe.uris import dataset_id
from raypipe.vocabulary import MEASURES, BreakTies

WORKSPACE = "WORKSPACE"
"""Stands in the help for the folder that a command works in: how it ended is recorded there."""
READ = "DIR"
"""Stands in the help for a workspace that a command reads."""
_OUT = typer.Option(
    "--out", metavar=WORKSPACE, help="The workspace; created if new, resumed if not."
)
Out = Annotated[Path, _OUT]
OutOrNone = Annotated[Path | None, _OUT]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Print the details too.")]
OpenCluster = Annotated[
    bool,
    typer.Option("--allow-open-cluster", help="Accept a cluster without token authentication."),
]
Inline = Annotated[
    bool, typer.Option("--inline", help="Work in this process; by default if there is little.")
]
OnRay = Annotated[
    bool, typer.Option("--ray", help="Work on Ray; by default if there is much, or RAY_ADDRESS.")
]
Folder = Annotated[Path, typer.Argument(metavar=READ, help="A workspace.")]
PipelineFolder = Annotated[Path, typer.Argument(metavar=READ, help="A pipeline's workspace.")]
RecipeName = Annotated[str, typer.Argument(help="A YAML file, or the name of a packaged recipe.")]


Qrels = Annotated[
    Path,
    typer.Option(
        help="Judgements: TREC, MS MARCO, BEIR, CSV, JSON, Parquet, or irds:ID of ir_datasets."
    ),
]
Measures = Annotated[
    str, typer.Option(help="Measures, named as in ir_measures (nDCG@10) or trec_eval (map).")
]


MEASURED = " ".join(MEASURES)
"""Measures that commands compute by default, separated by blanks."""


def missing(*paths: Path | None) -> list[str]:
    """A problem for each path that is not there, and is no data set's name in ir_datasets."""
    given = [path for path in paths if path is not None and dataset_id(path) is None]
    return [f"{path}: no such file" for path in given if not path.exists()]


def refuse_missing(*paths: Path | None) -> None:
    """Nothing, if all of these are there.

    Raises:
        InputError: a line for each that is not.
    """
    problems = missing(*paths)
    if problems:
        raise InputError(problems)


Ties = Annotated[
    BreakTies,
    typer.Option(
        "--break-ties",
        help="Order of a run's equal scores: id (passage id descending, as in trec_eval) or rank "
        "(as in the file).",
    ),
]
