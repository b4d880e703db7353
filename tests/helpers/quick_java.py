"""Java for tests: its second compiler, which pays off after minutes, is left out."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

OPTION = "-XX:TieredStopAtLevel=1"


@contextmanager
def quickly() -> Iterator[None]:
    """Any Java that is started meanwhile takes two thirds of the time; its results are the same."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAVA_TOOL_OPTIONS", OPTION)
        yield


@pytest.fixture(scope="module", autouse=True)
def quick_java() -> Iterator[None]:
    """For each test of the folder whose conftest imports this."""
    with quickly():
        yield
