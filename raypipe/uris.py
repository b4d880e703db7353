"""Whether a place is in a bucket, a data set or a model of a hub; and the credentials in URIs.

hf://OWNER/NAME            always the hub's
hf://OWNER/NAME@REVISION   at a commit, a branch or a tag
OWNER/NAME[@REVISION]      the hub's, unless OWNER is a folder, file or link here
anything else              a path: ./OWNER/NAME, /OWNER/NAME, NAME, A/B/C
"""

import os
import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

NO_SECRETS = (
    "a URI without credentials; put them into AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY or a "
    "profile in ~/.aws for s3://, into GOOGLE_APPLICATION_CREDENTIALS for gs://"
)
"""What is expected in the place of a URI that has some."""


DATASET = "irds:"
"""What stands before the id of a data set of ir_datasets in the place of a file."""


def dataset_id(place: object) -> str | None:
    """The id of the data set that a place names; None if it names a file or a bucket."""
    text = str(place)
    return text.removeprefix(DATASET) if text.startswith(DATASET) else None


def in_bucket(place: str) -> bool:
    """Whether a place is in a bucket, rather than a folder that machines mount."""
    return place.startswith(("s3://", "gs://"))


def has_secret(uri: str) -> bool:
    """Whether a URI names a user, a password or settings; a key may hold slashes."""
    scheme, separator, rest = uri.partition("://")
    if not separator or scheme == "file":
        return False
    place = rest.partition("/")[0]
    user = "@" in place or re.search(r":(?!\d+$)", place) is not None
    return user or "=" in urlsplit(uri).query


def redacted(text: str) -> str:
    """The text, in which `...` stands for the credentials of every URI."""
    text = re.sub(r"(?<=://)\S+@", "...@", text)
    return re.sub(r"(://[^\s?]*\?)[^\s'\"]*=[^\s'\"]*", r"\1...", text)


SCHEME = "hf://"
FILE = "file://"
NEWEST = "main"
"""The branch whose newest commit is taken where no revision is named, as the library does."""
COMMIT = re.compile(r"[0-9a-f]{40}")
_PART = r"[A-Za-z0-9](?:[\w.-]*[\w])?"
_NAME = re.compile(rf"(?P<repository>{_PART}/{_PART})(?:@(?P<revision>[^@\s]+))?", re.ASCII)
_LEGACY = re.compile(rf"(?P<repository>{_PART})(?:@(?P<revision>[^@\s]+))?", re.ASCII)


@dataclass(frozen=True, slots=True)
class HubName:
    """A repository of a hub, and perhaps a commit, branch or tag of it."""

    repository: str
    """OWNER/NAME, or NAME alone for the hub's oldest models."""
    revision: str | None = None

    @property
    def uri(self) -> str:
        """The repository as recipe.yaml names it, whatever folders there are."""
        return f"{SCHEME}{self.repository}"

    @property
    def is_commit(self) -> bool:
        """Whether the revision can never mean anything else."""
        return self.revision is not None and COMMIT.fullmatch(self.revision) is not None


def hub_name(text: str, base: Path) -> HubName | None:
    """The hub's name that a text is, by the rule above; None if it is a path.

    Args:
        text: what a recipe or a command gives as a model.
        base: the folder that relative paths begin from.
    """
    if text.startswith(SCHEME):
        rest = text.removeprefix(SCHEME)
        match = _NAME.fullmatch(rest) or _LEGACY.fullmatch(rest)
    else:
        match = _NAME.fullmatch(text)
        # A link to a folder that is not there now, such as a disk's, is here too.
        if match is not None and os.path.lexists(base / text.split("/")[0]):
            return None
    return None if match is None else HubName(match["repository"], match["revision"])


def is_hub(path: str) -> bool:
    """Whether a resolved recipe's path names a model of a hub."""
    return path.startswith(SCHEME)


def address(path: str, revision: str | None) -> str:
    """A resolved recipe's model as it is opened: hf://OWNER/NAME@COMMIT of a hub's."""
    return f"{path}@{revision}" if is_hub(path) and revision is not None else path


def located(
    key: str, path: str, revision: str | None, base: Path
) -> tuple[HubName | None, list[str]]:
    """The hub's name that a model's path and revision are, and what is wrong with them.

    Args:
        key: where the recipe has the model, for messages.
        path: as written.
        revision: the recipe's own key for it.
        base: as in `hub_name`.
    """
    named = hub_name(path, base)
    if named is not None:
        if None in (named.revision, revision) or named.revision == revision:
            return HubName(named.repository, named.revision or revision), []
        return named, [
            f"{key}.revision: {revision}, and the name of the model has {named.revision}; give one"
        ]
    if is_hub(path):
        name = path.removeprefix(SCHEME)
        return None, [f"{key}: {name!r}: expected after {SCHEME} OWNER/NAME or OWNER/NAME@REVISION"]
    if "://" in path.removeprefix(FILE):
        return None, [
            f"{key}: {redacted(path)}: expected a folder, a packaged model or a hub's as "
            f"{SCHEME}OWNER/NAME, found a URI"
        ]
    if revision is None:
        return None, []
    return None, [
        f"{key}.revision: {revision}: of a hub's model only, and {path} is a folder or comes with "
        f"raypipe; remove it, or name the hub's as {SCHEME}OWNER/NAME"
    ]
