"""What tests of stages share: stores of given tables, and a stage run to its finished store."""

import pytest
from given_stores import Stores
from quick_java import quick_java  # noqa: F401  (for each test here)


@pytest.fixture
def stores(tmp_path):
    return Stores(tmp_path)
