"""Which places are buckets or data sets, and credentials in URIs, which recipe.yaml would show."""

import re
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
