"""What huggingface_hub raises, as errors that name the repository, the hub and the remedy."""

from collections.abc import Iterator
from contextlib import contextmanager

from raypipe.errors import InputError, first_line
from raypipe.uris import redacted

FORBIDDEN = (401, 403)
TOO_MANY = 429
OWN_FAULT = 500


@contextmanager
def told(repository: str, revision: str | None) -> Iterator[None]:
    """Turn what the library raises into an error that names the repository and the hub.

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
    from huggingface_hub import constants
    from huggingface_hub.errors import (
        GatedRepoError,
        HfHubHTTPError,
        HFValidationError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    status = error.response.status_code if isinstance(error, HfHubHTTPError) else None
    if isinstance(error, HFValidationError):
        return f"no repository can have this name; for a folder, write ./{repository}"
    if isinstance(error, GatedRepoError):
        return "accept its terms there, and set HF_TOKEN to a token of that account"
    if isinstance(error, RevisionNotFoundError):
        return f"expected a commit, branch or tag that it has, found {revision!r}"
    if isinstance(error, RepositoryNotFoundError):
        return (
            "no such repository, or a private one, for which HF_TOKEN must be set; for a folder, "
            f"write ./{repository} or create it"
        )
    if status in FORBIDDEN:
        return "set HF_TOKEN to a token that may read it"
    if status == TOO_MANY:
        return "it has had too many requests; wait, or set HF_TOKEN, and run again"
    if status is not None and status >= OWN_FAULT:
        return "the hub cannot answer now; run again later, or name a mirror in HF_ENDPOINT"
    if constants.HF_HUB_OFFLINE:
        at = f" --revision {revision}" if revision else ""
        return (
            "HF_HUB_OFFLINE is set, and neither stores nor the library's cache have it, with the "
            f"list of its files; `hf download {repository}{at}` fetches both"
        )
    return "see that the hub can be reached (HF_ENDPOINT names another), and run again"
