"""Models of a hub in huggingface_hub's own cache. No other module asks anybody.

Its environment variables hold as it documents them: HF_ENDPOINT, HF_TOKEN, HF_HUB_OFFLINE, HF_HOME
and others. Fetched are JSON, vocab.txt, spiece.model and safetensors; no code, and no pickle.
"""

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from raypipe.errors import InputError, first_line
from raypipe.models.folder.adapters import WEIGHTS as ADAPTER
from raypipe.models.folder.discover import why_library
from raypipe.models.folder.files import config_problems, stranger_problems
from raypipe.models.folder.modules import ModelFiles
from raypipe.models.tensors import PICKLES
from raypipe.storage.records import hash_once
from raypipe.uris import COMMIT, HubName, hub_name, redacted

WEIGHTS = "model.safetensors"
PARTS = r"(?:(?:query_|document_)?\d+_\w+/)*"
"""Folders of modules of sentence-transformers, such as 1_Pooling/, or of a route's."""
WANTED = re.compile(
    rf"{PARTS}(?:[\w.-]+\.(?:json|txt|model|jinja|metadata|tiktoken|bpe)"
    rf"|model(?:-\d+-of-\d+)?\.safetensors)|{re.escape(ADAPTER)}",
    re.ASCII,
)
"""The files that are fetched: no weights in other formats, and none of other folders."""
FORBIDDEN = (401, 403)


def snapshot_of(uri: str, say: Callable[[str], None] = lambda line: None) -> Path:
    """This node's folder of hf://OWNER/NAME@COMMIT, in the library's own cache; its files are those
    of the hub's list.

    The small ones come first, so that a model that cannot be computed is refused before its weights
    are fetched. Nobody is asked for files that the cache has. huggingface_hub itself compares sizes
    alone, and takes a part of a model that another program left there for the whole.

    Args:
        uri: with 40 hexadecimal digits of a commit.
        say: takes a line if the weights were fetched now.

    Raises:
        InputError: the hub does not give them all, or not as it lists them, the architecture
            cannot be computed, or there are no weights in safetensors.
    """
    named = hub_name(uri, Path())
    if named is None or named.revision is None or not named.is_commit:
        raise InputError(
            f"{redacted(uri)}: expected hf://OWNER/NAME@COMMIT, with a commit of 40 hexadecimal "
            "digits"
        )
    repository, commit = named.repository, named.revision
    listed = _listed(repository, commit)
    files = {name: listed[name] for name in sorted(listed) if WANTED.fullmatch(name)}
    large = {name: files[name] for name in files if name.endswith(".safetensors")}
    small = {name: files[name] for name in files if name not in large}
    folder = _download(repository, commit, [*small])
    _check(repository, commit, folder, small)
    fetched = ModelFiles(folder)
    own = (folder / "config.json").exists() and why_library(fetched, None) is None
    problems = (config_problems if own else stranger_problems)(fetched.config)
    if problems:
        raise InputError([f"{repository}: config.json: {problem}" for problem in problems])
    if not large:
        raise InputError(_without_weights(repository, commit, listed))
    cached = all((folder / name).exists() for name in large)
    _download(repository, commit, [*files])
    _check(repository, commit, folder, large)
    if not cached:
        size = sum((folder / name).stat().st_size for name in files) / 1e6
        say(f"fetched {len(files)} files of {repository}, {size:,.1f} MB")
    return folder


def newest_commit(repository: str, revision: str | None) -> str:
    """The commit that a branch or tag, or the default branch, means now.

    Offline it is the one that the library's cache has for it.

    Raises:
        InputError: the hub does not say, with the reason, or what it says is no commit, which the
            library would take for the name of a folder.
    """
    from huggingface_hub import HfApi

    with explained(repository, revision):
        found = HfApi(library_name="raypipe").resolve_revision(repository, revision=revision)
        return _commit(str(found.resolved))


def pinned(named: HubName) -> str:
    """hf://OWNER/NAME@COMMIT of a name: its own commit, or the newest one of its branch.

    Raises:
        InputError: the hub does not say.
    """
    commit = named.revision
    if commit is None or not named.is_commit:
        commit = newest_commit(named.repository, commit)
    return f"{named.uri}@{commit}"


def _commit(commit: str) -> str:
    if not COMMIT.fullmatch(commit):
        raise ValueError(f"expected a commit of 40 hexadecimal digits, found {commit[:80]!r}")
    return commit


def _listed(repository: str, commit: str) -> dict[str, str]:
    """Git's hash of each file of a commit, by the library's copy of the hub's list, or by the hub.

    Without it a cache that has some of the files would pass for one that has them all.
    """
    from huggingface_hub import HfApi, RepoFile, get_cached_repo_tree
    from huggingface_hub.errors import CachedRepoTreeNotFoundError

    with explained(repository, commit):
        try:
            files = get_cached_repo_tree(repository, revision=commit)
        except CachedRepoTreeNotFoundError:
            api = HfApi(library_name="raypipe")
            files = api.list_repo_tree(repository, revision=commit, recursive=True)
        return {file.path: file.blob_id for file in files if isinstance(file, RepoFile)}


def _download(repository: str, commit: str, names: list[str]) -> Path:
    """The library's folder of a commit, with the files of these names."""
    from huggingface_hub import get_session, snapshot_download
    from huggingface_hub.utils import tqdm

    class OnTerminals(tqdm):  # type: ignore[misc]
        """A bar of the library; in a file it would be lines without end."""

        def __init__(self, *arguments: Any, **settings: Any) -> None:
            super().__init__(*arguments, **{"disable": None, **settings})

    hooks = get_session().event_hooks["response"]
    if _check_names not in hooks:
        hooks.append(_check_names)
    with explained(repository, commit):
        folder = snapshot_download(
            repository,
            revision=commit,
            allow_patterns=names,
            tqdm_class=OnTerminals,
            library_name="raypipe",
        )
    return Path(folder)


def _check_names(answer: Any) -> None:
    """Returns nothing if the library may name files by what the hub says of one.

    Raises:
        ValueError: a commit or a hash of a file is a path, which might lead out of the cache.
    """
    for name in ("X-Repo-Commit", "X-Linked-Etag", "ETag"):
        found = answer.headers.get(name, "").removeprefix("W/")
        if answer.request.method == "HEAD" and ("/" in found or ".." in found):
            raise ValueError(f"{name}: expected hexadecimal digits, found {found[:80]!r}")


def _check(repository: str, commit: str, folder: Path, files: Mapping[str, str]) -> None:
    """Returns nothing if the folder has the files with the bytes that the hub lists.

    Args:
        repository: OWNER/NAME.
        commit: of the folder.
        folder: the library's.
        files: git's hash of each file by name; of one in LFS, such as weights, its pointer's.

    Raises:
        InputError: it lacks them, or they have others.
    """
    problems = []
    for name, listed in files.items():
        path = (folder / name).resolve()
        if not path.is_file():
            problems.append(f"{name}: on the hub's list, and not in {folder}")
        elif not _is_listed(path, listed):
            problems.append(
                f"{name}: expected the bytes of git's hash {listed}, as on the hub's list, found "
                f"others in {path}; delete that file and run again"
            )
    if problems:
        raise InputError([f"{repository} at {commit}: {problem}" for problem in problems])


def _is_listed(path: Path, listed: str) -> bool:
    sha256 = hash_once(path)
    # The cache names a file in LFS by the SHA-256 that the hub gave.
    if path.name == sha256:
        return True
    size = path.stat().st_size
    pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{sha256}\nsize {size}\n"
    return listed == _git_sha1(pointer.encode()) or listed == _git_sha1(path.read_bytes())


def _git_sha1(data: bytes) -> str:
    """The hash by which git names a content."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def _without_weights(repository: str, commit: str, names: Iterable[str]) -> str:
    names = sorted(names)
    pickles = [name for name in names if name.endswith(PICKLES)]
    listing = "no weights"
    if pickles:
        listing = f"{', '.join(pickles[:3])}: pickles, which can run code and are not fetched"
    return (
        f"{repository} at {commit}: expected {WEIGHTS}, found {listing}. Name a revision that has "
        "it, or fetch the repository yourself, `raypipe model convert FOLDER --out DIR`, and name "
        "DIR; a model that sentence-transformers computes is saved anew by its own class, with "
        "MODEL.save_pretrained(DIR)"
    )


@contextmanager
def explained(repository: str, revision: str | None) -> Iterator[None]:
    """Turn what the library raises into an error that names the repository, the hub and a remedy.

    Raises:
        InputError: whatever the library raised, but for a disk that is full or cannot be written.
    """
    from huggingface_hub import constants
    from huggingface_hub.errors import HfHubHTTPError

    try:
        yield
    except InputError:
        raise
    except Exception as error:  # of many kinds: the library's own, and those of what it asks with
        of_disk = isinstance(error, OSError) and error.errno is not None
        if of_disk and not isinstance(error, HfHubHTTPError | ConnectionError):
            raise
        answer = _answer(error)
        where = redacted(constants.ENDPOINT)
        reason = redacted(first_line(answer or error)).strip()
        raise InputError(
            f"{repository}{f' at {revision}' if revision else ''}: huggingface_hub could not fetch "
            f"it from {where}: {_remedy(answer or error, repository, revision)}. It says: {reason}"
        ) from error


def _answer(error: BaseException | None) -> BaseException | None:
    """The hub's answer that an error of the library hides; None if the hub gave none."""
    from huggingface_hub.errors import HfHubHTTPError

    while error is not None and not isinstance(error, HfHubHTTPError):
        error = error.__cause__
    return error


def _remedy(error: BaseException, repository: str, revision: str | None) -> str:
    """The remedy: offline, where a token is asked for, or else. The library says the reason."""
    from huggingface_hub import constants
    from huggingface_hub.errors import HfHubHTTPError

    if constants.HF_HUB_OFFLINE:
        at = f" --revision {revision}" if revision else ""
        return (
            "HF_HUB_OFFLINE is set, and the library's cache does not have it, with the list of "
            f"its files; `hf download {repository}{at}` fetches both"
        )
    see = f"see that it has this name and revision (for a folder, write ./{repository})"
    if isinstance(error, HfHubHTTPError) and error.response.status_code in FORBIDDEN:
        return f"{see}, and set HF_TOKEN to a token of an account that has accepted its terms"
    return f"{see} and can be reached (HF_ENDPOINT names another), and run again later"
