"""A pytest plugin, beside coverage: the lines that each test reaches, and its processor seconds.

Child processes are measured too: `context` of the configuration names the test that started them.
"""

import json
import os
import resource

import coverage
import pytest

SECONDS, SETTINGS = "MUTANTS_SECONDS", "MUTANTS_SETTINGS"
CONFIGURATION = """
[run]
source = {raypipe}
data_file = {data}
parallel = true
patch = subprocess, _exit
context = ${{PYTEST_CURRENT_TEST-}}
disable_warnings = no-data-collected, module-not-measured, module-not-imported
"""


def pytest_configure():
    """Let a child read the settings anew, where `context` is the test of that moment.

    Coverage hands it its own instead, whose context is that of its start: none.
    """
    os.environ.pop("COVERAGE_PROCESS_CONFIG", None)
    os.environ["COVERAGE_PROCESS_START"] = os.environ[SETTINGS]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item, nextitem):
    """Attribute what runs to the test."""
    measuring = coverage.Coverage.current()
    if measuring is not None:
        measuring.switch_context(item.nodeid)
    before = _used()
    result = yield
    with open(os.environ[SECONDS], "a") as out:
        out.write(json.dumps([item.nodeid, _used() - before]) + "\n")
    return result


def _used() -> float:
    times = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(time.ru_utime + time.ru_stime for time in times)
