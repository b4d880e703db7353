"""Asks a hub through huggingface_hub: which commit, and which files. No other module asks anybody.

Its environment variables hold as it documents them: HF_ENDPOINT, HF_TOKEN, HF_HUB_OFFLINE, HF_HOME
and others. Fetched are JSON, vocab.txt, spiece.model and safetensors; no code, and no pickle.
"""

import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from raypipe.config.hub import COMMIT
from raypipe.driver.models.listed import wrong_files
from raypipe.driver.models.refusals import told
from raypipe.errors import InputError
from raypipe.models.folder.adapters import WEIGHTS as ADAPTER
from raypipe.models.folder.config_checks import config_problems
from raypipe.models.folder.evidence import read_object

WEIGHTS = "model.safetensors"
PARTS = r"(?:\d+_\w+/)?"
"""A folder of a sentence-transformers module, such as 1_Pooling/."""
WANTED = re.compile(
    rf"{PARTS}(?:[\w.-]+\.json|vocab\.txt|{re.escape(WEIGHTS)})|spiece\.model|{re.escape(ADAPTER)}",
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
        InputError: the hub does not say, with the reason, or what it says is no commit, which the
            library would take for the name of a folder.
    """
    from huggingface_hub import HfApi

    with told(repository, revision):
        found = HfApi(library_name="raypipe").resolve_revision(repository, revision=revision)
        return _commit(str(found.resolved))


def _commit(found: str) -> str:
    if not COMMIT.fullmatch(found):
        raise ValueError(f"expected a commit of 40 hexadecimal digits, found {found[:80]!r}")
    return found


def fetched(repository: str, commit: str) -> dict[str, Path]:
    """The files of a model at a commit by name, in the library's cache; sorted.

    The small ones come first, so that a model that cannot be computed is refused before its weights
    are fetched.

    Raises:
        InputError: the hub does not give them all, or not as it lists them, the architecture
            cannot be computed, or there are no weights in safetensors.
    """
    folder = _snapshot(repository, commit, SMALL)
    listed = _listed(repository, commit)
    wanted = {name: listed[name] for name in sorted(listed) if WANTED.fullmatch(name)}
    large = {name: wanted[name] for name in wanted if name.endswith(".safetensors")}
    _check(repository, commit, folder, {n: wanted[n] for n in wanted if n not in large})
    config = folder / "config.json"
    problems = config_problems(read_object(config)) if config.exists() else []
    if problems:
        raise InputError([f"{repository}: config.json: {problem}" for problem in problems])
    if WEIGHTS not in wanted and ADAPTER not in wanted:
        raise InputError(_without_weights(repository, commit, listed))
    _snapshot(repository, commit, SMALL + LARGE)
    _check(repository, commit, folder, large)
    return {name: folder / name for name in wanted}


def _listed(repository: str, commit: str) -> dict[str, str]:
    """Git's hash of each file of a commit, by the library's copy of the hub's list, or by the hub.

    Without it a cache that has some of the files would pass for one that has them all.
    """
    from huggingface_hub import HfApi, RepoFile, get_cached_repo_tree
    from huggingface_hub.errors import CachedRepoTreeNotFoundError

    with told(repository, commit):
        try:
            files = get_cached_repo_tree(repository, revision=commit)
        except CachedRepoTreeNotFoundError:
            asked = HfApi(library_name="raypipe")
            files = asked.list_repo_tree(repository, revision=commit, recursive=True)
        return {file.path: file.blob_id for file in files if isinstance(file, RepoFile)}


def _check(repository: str, commit: str, folder: Path, files: Mapping[str, str]) -> None:
    """Returns nothing if the folder has the files with the bytes that the hub lists.

    Raises:
        InputError: it lacks them, or they have others.
    """
    problems = wrong_files(folder, files)
    if problems:
        raise InputError([f"{repository} at {commit}: {problem}" for problem in problems])


def _snapshot(repository: str, commit: str, patterns: list[str]) -> Path:
    """The library's folder of a commit, with the files of these patterns."""
    from huggingface_hub import get_session, snapshot_download
    from huggingface_hub.utils import (
        are_progress_bars_disabled,
        disable_progress_bars,
        enable_progress_bars,
    )

    hooks = get_session().event_hooks["response"]
    if _check_names not in hooks:
        hooks.append(_check_names)
    hidden = not sys.stderr.isatty() and not are_progress_bars_disabled()
    if hidden:  # in a file they are lines without end
        disable_progress_bars()
    try:
        with told(repository, commit):
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


def _check_names(answer: Any) -> None:
    """Returns nothing if the library may name files by what the hub says of one.

    Raises:
        ValueError: a commit or a hash of a file is a path, which might lead out of the cache.
    """
    for name in ("X-Repo-Commit", "X-Linked-Etag", "ETag"):
        found = answer.headers.get(name, "").removeprefix("W/")
        if answer.request.method == "HEAD" and ("/" in found or ".." in found):
            raise ValueError(f"{name}: expected hexadecimal digits, found {found[:80]!r}")


def _without_weights(repository: str, commit: str, names: Iterable[str]) -> str:
    names = sorted(names)
    pickles = [name for name in names if name.endswith(PICKLES)]
    others = [name for name in names if name.endswith(".safetensors")]
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
