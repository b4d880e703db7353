"""Which workspace a command works in, by its arguments, before they are parsed."""

from collections.abc import Sequence
from pathlib import Path

from raypipe.errors import InputError
from raypipe.uris import in_bucket

DEFAULT_FOLDERS = {
    "pipeline": "raypipe-work",
    "reindex": "raypipe-work",
    "train": "raypipe-train",
    "quickstart": "raypipe-quickstart",
}
VERBS = (*DEFAULT_FOLDERS, "prepare", "tokenize", "encode", "index", "search", "score", "aggregate")
"""Those that work in a workspace, new or not."""
ONLY_IN_FOLDERS = ("train", "quickstart")
READERS = ("analyse", "report", "show", "table", "status", "verify", "gc", "history", "rollback")
"""Those whose argument is a workspace."""
WORKSPACES_READ = ("--index", "--collection", "--pairs")
"""Options that name a workspace, to read it."""
FLAGS = frozenset(
    (
        "--json --html --each --fill --frozen --train --accept --yes --allow-open-cluster "
        "--allow-fewer-rows --inputs --json-schema --help --version --install-completion "
        "--show-completion"
    ).split()
)
"""Options without a value."""


def value_of_out(arguments: Sequence[str]) -> str | None:
    """The value of --out, as `--out DIR` or `--out=DIR`; the last one counts."""
    found = None
    for position, argument in enumerate(arguments):
        if argument == "--out" and position + 1 < len(arguments):
            found = arguments[position + 1]
        elif argument.startswith("--out="):
            found = argument.removeprefix("--out=")
    return found


def workspace_of(arguments: Sequence[str]) -> Path | None:
    """The existing workspace in which a command works; None for other commands and new folders."""
    if not arguments or arguments[0] not in VERBS:
        return None
    named = value_of_out(arguments) or DEFAULT_FOLDERS.get(arguments[0])
    if named is None or not (Path(named) / "workspace.json").is_file():
        return None
    return Path(named)


def with_folders(arguments: Sequence[str]) -> list[str]:
    """The command's arguments, with a mirror's folder in the place of a workspace's URI.

    Raises:
        InputError: the command cannot work in a bucket, or reads files of this machine only.
    """
    if not any(in_bucket(_value(argument)) for argument in arguments):
        return list(arguments)
    verb, *rest = arguments
    found = [verb]
    for before, argument in zip(arguments, rest, strict=False):
        value = _value(argument)
        if in_bucket(value):
            option = argument.partition("=")[0] if value != argument else before
            takes_value = option.startswith("--") and option not in FLAGS | {"--"}
            folder = _folder(verb, option if takes_value else None, value)
            argument = argument.removesuffix(value) + folder
        found.append(argument)
    return found


def _value(argument: str) -> str:
    """The value in --option=VALUE; of any other argument all of it."""
    return argument.partition("=")[2] if argument.startswith("--") else argument


def _folder(verb: str, option: str | None, uri: str) -> str:
    """What the command gets for a URI: a folder that mirrors the workspace, or the URI itself."""
    from raypipe.driver.mirror import mirror_of  # only where a workspace is in a bucket

    if option == "--out":
        if verb not in (*VERBS, "plan") or verb in ONLY_IN_FOLDERS:
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
    return str(mirror_of(uri)) if option is None and verb in READERS else uri
