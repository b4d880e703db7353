"""Arguments and options that several commands have, and the workspace that a command works in."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from raypipe.errors import InputError
from raypipe.uris import dataset_id, in_bucket
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


HELP = ("-h", "--help")
ONLY_IN_FOLDERS = ("train", "quickstart")
"""Commands that cannot work in a bucket."""
WORKSPACES_READ = ("--index", "--collection", "--pairs")
"""Options that name a workspace, to read it."""


def value_of_out(arguments: Sequence[str]) -> str | None:
    """The value of --out, as `--out DIR` or `--out=DIR`; the last one counts."""
    value = None
    for position, argument in enumerate(arguments):
        if argument == "--out" and position + 1 < len(arguments):
            value = arguments[position + 1]
        elif argument.startswith("--out="):
            value = argument.removeprefix("--out=")
    return value


def workspace_of(app: Any, arguments: Sequence[str]) -> Path | None:
    """The folder in which a command works, whether or not it is there; None if in none.

    A mistyped command is taken for one that works where --out says.
    """
    if not arguments or {*HELP} & {*arguments}:
        return None
    verb, out = app.commands.get(arguments[0]), value_of_out(arguments)
    if verb is None:
        return None if out is None else Path(out)
    for parameter in verb.params:
        if parameter.metavar == WORKSPACE and parameter.param_type_name == "argument":
            return next((Path(word) for word in arguments[1:] if _is_workspace(word)), None)
        if parameter.metavar == WORKSPACE:
            named = out or parameter.default
            return None if named is None else Path(named)
    return None


def _is_workspace(word: str) -> bool:
    return os.path.isfile(os.path.join(word, "workspace.json"))


def with_folders(app: Any, arguments: Sequence[str]) -> list[str]:
    """The command's arguments, with a mirror's folder in the place of a workspace's URI.

    Raises:
        InputError: the command cannot work in a bucket, or reads files of this machine only.
    """
    if not any(in_bucket(_value(argument)) for argument in arguments):
        return list(arguments)
    name, *rest = arguments
    new_arguments, given = [name], [*_parameters(app.commands.get(name))]
    flags = {each for one in given if getattr(one, "is_flag", False) for each in one.opts}
    for before, argument in zip(arguments, rest, strict=False):
        value = _value(argument)
        if in_bucket(value):
            option = argument.partition("=")[0] if value != argument else before
            takes_value = option.startswith("--") and option not in {*flags, *HELP, "--"}
            folder = _folder(name, given, option if takes_value else None, value)
            argument = argument.removesuffix(value) + folder
        new_arguments.append(argument)
    return new_arguments


def _parameters(command: Any) -> Iterator[Any]:
    """The options and arguments of a command, or of every command of a group."""
    yield from getattr(command, "params", ())
    for below in getattr(command, "commands", {}).values():
        yield from _parameters(below)


def _value(argument: str) -> str:
    """The value in --option=VALUE; of any other argument all of it."""
    return argument.partition("=")[2] if argument.startswith("--") else argument


def _folder(verb: str, given: Sequence[Any], option: str | None, uri: str) -> str:
    """The argument that replaces a URI: a folder that mirrors the workspace, or the URI itself."""
    from raypipe.driver.mirror import mirror_of  # only where a workspace is in a bucket

    if option == "--out":
        works = any(each.metavar == WORKSPACE for each in given)
        if not (works or verb == "plan") or verb in ONLY_IN_FOLDERS:
            raise InputError(f"--out {uri}: {verb} writes to a folder; name one, and copy it")
        return str(mirror_of(uri))
    if option in WORKSPACES_READ:
        folder = mirror_of(uri)
        if not (folder / "recipe.yaml").is_file():
            raise InputError(
                f"{option} {uri}: no workspace; expected a place that `--out` named. The files of "
                "a collection are read by `raypipe prepare --input`, or by a recipe"
            )
        return str(folder)
    if option is not None and (verb, option) != ("prepare", "--input"):
        raise InputError(
            f"{option} {uri}: {verb} reads it from a folder; copy it there, or name the URI in a "
            "recipe"
        )
    arguments = (each.metavar for each in given if each.param_type_name == "argument")
    return str(mirror_of(uri)) if option is None and {READ, WORKSPACE} & {*arguments} else uri
