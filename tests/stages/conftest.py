"""What tests of stages share: stores of given tables, and a stage run to its finished store."""

import pytest
from given_stores import Stores


@pytest.fixture
def stores(tmp_path):
    return Stores(tmp_path)
