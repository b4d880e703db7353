import pytest

from raypipe.engines.lucene.java import find_java

pytestmark = [pytest.mark.jvm, pytest.mark.slow]


def test_a_java_that_lucene_can_run_on_is_found():
    assert int(find_java().version.partition(".")[0]) >= 21
