import io
import re
import sys

from raypipe.driver.report.lines import to_stderr


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_line_has_a_time_stamp_where_stderr_is_no_terminal(capsys):
    to_stderr("x")
    out, error = capsys.readouterr()
    assert out == "" and re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d x\n", error)


def test_a_line_on_a_terminal_stands_as_it_is(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    to_stderr("x")
    assert sys.stderr.getvalue() == "x\n"
