"""What libraries say when they cannot write a file, as the operating system says it."""

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from safetensors import SafetensorError

_NUMBER = re.compile(r"\(os error (\d+)\)")


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """While safetensors or numpy writes a file: a full disk is an error of storage, not a bug.

    Raises:
        OSError: with the system's number. numpy does not tell it after a short write: EIO then.
    """
    try:
        yield
    except SafetensorError as error:
        found = _NUMBER.search(str(error))
        if found is None:
            raise
        number = int(found[1])
        raise OSError(number, os.strerror(number), str(path)) from error
    except OSError as error:
        if error.errno is not None:
            raise
        told = f"written in part ({error}); is the disk full?"
        raise OSError(errno.EIO, told, str(path)) from error
