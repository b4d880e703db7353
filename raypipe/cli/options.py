"""Arguments and options that several commands have."""

from pathlib import Path
from typing import Annotated

import typer

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
