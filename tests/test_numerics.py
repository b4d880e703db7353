"""Strict mode is asked for by the command line alone, and never over a user's own mode."""

import os

import pytest

from raypipe.cli.main import main
from raypipe.numerics import STRICT, VARIABLE, for_workers, set_strict


@pytest.mark.parametrize("given", ["COMPATIBLE", "AVX2,STRICT", ""])
def test_a_mode_that_the_user_has_set_stays(given):
    environment = {VARIABLE: given}
    set_strict(environment)
    assert environment == {VARIABLE: given} == for_workers(environment)


def test_where_none_is_set_it_is_strict_for_this_process_and_its_workers():
    environment = {"OTHER": "x"}
    assert for_workers(environment) == {VARIABLE: STRICT}
    assert VARIABLE not in environment
    set_strict(environment)
    assert environment == {"OTHER": "x", VARIABLE: STRICT}


@pytest.mark.parametrize(("given", "found"), [(None, STRICT), ("COMPATIBLE", "COMPATIBLE")])
def test_the_command_line_asks_for_it(monkeypatch, tmp_path, given, found):
    monkeypatch.setenv(VARIABLE, given or "")  # restored afterwards
    if given is None:
        monkeypatch.delenv(VARIABLE)
    with pytest.raises(SystemExit):
        main(["status", str(tmp_path)])
    assert os.environ[VARIABLE] == found
