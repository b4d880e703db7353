import subprocess
import sys

import pytest

from raypipe.engines.lucene.java import find_java

pytestmark = [pytest.mark.jvm, pytest.mark.slow]


def test_a_java_that_lucene_can_run_on_is_found():
    assert int(find_java().version.partition(".")[0]) >= 21


def test_deeply_nested_text_is_refused_beside_a_running_java():
    """Java guards this thread's stack; Python 3.13 was ended there by a segmentation fault."""
    code = (
        "import json; from raypipe.engines.lucene.java import start_jvm; start_jvm()\n"
        "try: json.loads('[' * 100_000)\n"
        "except RecursionError: print('refused')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "refused\n"), done.stderr
