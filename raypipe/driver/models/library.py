"""Asks a hub through huggingface_hub: which commit, and which files. No other module asks anybody.

Its environment variables hold as it documents them: HF_ENDPOINT, HF_TOKEN, HF_HUB_OFFLINE, HF_HOME
and others. Fetched are JSON, vocab.txt, spiece.model and safetensors; no code, and no pickle.
"""

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from raypipe.errors import InputError, first_line
from raypipe.models.folder.adapters import WEIGHTS as ADAPTER
from raypipe.models.folder.config_checks import config_problems
from raypipe.models.folder.evidence import read_object
from raypipe.uris import redacted

WEIGHTS = "model.safetensors"
PARTS = r"(?:\d+_\w+/)?"
"""A folder of a sentence-transformers module, such as 1_Pooling/."""
WANTED = re.compile(
    rf"{PARTS}(?:[\w.-]+\.json|vocab\.txt|spiece\.model|{re.escape(WEIGHTS)})|{re.escape(ADAPTER)}",
    re.ASCII,
)
SMALL = ["*.json", "*vocab.txt", "spiece.model"]
LARGE = [WEIGHTS, ADAPTER, f"[0-9]*_*/{WEIGHTS}"]
ELSEWHERE = ["*/*/*", "[!0-9]*/*"]
"""Other folders: weights in other formats."""
PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl")


def newest_commit(repository: str, revision: str | None) -> str:
    """The commit that a branch or tag, or the default branch, means now.

    Offline it is the one that the library's cache has for it.

    Raises:
        InputError: the hub does not say, with the reason.
    """
    from huggingface_hub import HfApi

    with _told(repository, revision):
        found = HfApi(library_name="raypipe").resolve_revision(repository, revision=revision)
    return str(found.resolved)


def fetched(repository: str, commit: str) -> dict[str, Path]:
    """The files of a model at a commit by name, in the library's cache; sorted.

    The small ones come first, so that a model that cannot be computed is refused before its weights
    are fetched.

    Raises:
        InputError: the hub does not give them, the architecture cannot be computed, or there are
            no weights in safetensors.
    """
    folder = _snapshot(repository, commit, SMALL)
    config = folder / "config.json"
    problems = config_problems(read_object(config)) if config.exists() else []
    if problems:
        raise InputError([f"{repository}: config.json: {problem}" for problem in problems])
    _snapshot(repository, commit, SMALL + LARGE)
    names = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    found = {name: folder / name for name in names if WANTED.fullmatch(name)}
    if WEIGHTS not in found and ADAPTER not in found:
        raise InputError(_without_weights(repository, commit))
    return found


def _snapshot(repository: str, commit: str, patterns: list[str]) -> Path:
    """The library's folder of a commit, with the files of these patterns."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.utils import (
        are_progress_bars_disabled,
        disable_progress_bars,
        enable_progress_bars,
    )

    hidden = not sys.stderr.isatty() and not are_progress_bars_disabled()
    if hidden:  # in a file they are lines without end
        disable_progress_bars()
    try:
        with _told(repository, commit):
            return Path(
                snapshot_download(
                    repository,
                    revision=commit,
                    allow_patterns=patterns,
                    ignore_patterns=ELSEWHERE,
                    library_name="raypipe",
                )
            )
    finally:
        if hidden:
            enable_progress_bars()


def _without_weights(repository: str, commit: str) -> str:
    from huggingface_hub import HfApi

    with _told(repository, commit):
        names = HfApi(library_name="raypipe").list_repo_files(repository, revision=commit)
    pickles = sorted(name for name in names if name.endswith(PICKLES))
    others = sorted(name for name in names if name.endswith(".safetensors"))
    found = "no weights"
    if others:
        found = f"{', '.join(others[:3])}: weights in parts, or under another name"
    elif pickles:
        found = f"{', '.join(pickles[:3])}: pickles, which can run code and are not fetched"
    return (
        f"{repository} at {commit}: expected {WEIGHTS}, found {found}. Name a revision that has "
        "it, or fetch the repository yourself, `raypipe model convert FOLDER --out DIR`, and name "
        "DIR"
    )


@contextmanager
def _told(repository: str, revision: str | None) -> Iterator[None]:
    """Turn what the library raises into an error that names the repository and the hub.

    Raises:
        InputError: whatever the library raised, but for a disk that is full or cannot be written.
    """
    from huggingface_hub import constants
    from huggingface_hub.errors import (
        GatedRepoError,
        HfHubHTTPError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    try:
        yield
    except InputError:
        raise
    except Exception as error:  # of many kinds: the library's own, and those of what it asks with
        of_disk = isinstance(error, OSError) and error.errno is not None
        if of_disk and not isinstance(error, HfHubHTTPError | ConnectionError):
            raise
        where = redacted(constants.ENDPOINT)
        if isinstance(error, GatedRepoError):
            remedy = "accept its terms there, and set HF_TOKEN to a token of that account"
        elif isinstance(error, RevisionNotFoundError):
            remedy = f"expected a commit, branch or tag that it has, found {revision!r}"
        elif isinstance(error, RepositoryNotFoundError):
            remedy = (
                "no such repository, or a private one, for which HF_TOKEN must be set; "
                f"for a folder, write ./{repository} or create it"
            )
        elif constants.HF_HUB_OFFLINE:
            remedy = "HF_HUB_OFFLINE is set, and neither stores nor the library's cache have it"
        else:
            remedy = "see that the hub can be reached (HF_ENDPOINT names another), and run again"
        reason = redacted(first_line(error)).strip()
        raise InputError(
            f"{repository}{f' at {revision}' if revision else ''}: huggingface_hub could not fetch "
            f"it from {where}: {remedy}. It says: {reason}"
        ) from error
