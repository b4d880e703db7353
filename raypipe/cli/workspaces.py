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
READERS = ("status", "verify", "gc", "history", "rollback")
"""Those whose argument is a workspace."""


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
        InputError: the command cannot work in a bucket.
    """
    if not any(in_bucket(value.removeprefix("--out=")) for value in arguments):
        return list(arguments)
    from raypipe.driver.mirror import mirror_of  # only where a workspace is in a bucket

    verb, *rest = arguments
    found = [verb]
    for before, value in zip(arguments, rest, strict=False):
        uri = value.removeprefix("--out=")
        is_out = before == "--out" or value.startswith("--out=")
        if is_out and in_bucket(uri):
            if verb not in VERBS or verb in ONLY_IN_FOLDERS:
                raise InputError(f"--out {uri}: {verb} writes to a folder; name one, and copy it")
            value = str(mirror_of(uri)) if before == "--out" else f"--out={mirror_of(uri)}"
        elif verb in READERS and in_bucket(value) and not before.startswith("--"):
            value = str(mirror_of(value))
        found.append(value)
    return found
