import os
import signal
import subprocess
import sys

import pytest

from raypipe.driver.signals import RAYS_SWITCH, end_on_sigterm, interruptible, leave_to_python
from raypipe.errors import Interrupted


@pytest.mark.fault(
    6, "exit code 128 plus the signal's number for SIGINT and SIGTERM; the first signal counts"
)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_is_a_question_and_then_an_ending(number):
    before = {n: signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)}
    asked = []
    with pytest.raises(Interrupted, match=signal.Signals(number).name) as told:
        with interruptible() as should_stop:
            assert should_stop() is None
            os.kill(os.getpid(), number)
            os.kill(os.getpid(), signal.SIGTERM)  # the first one counts
            asked.append(should_stop())
    assert told.value.exit_code == 128 + number == asked[0].exit_code
    assert {n: signal.getsignal(n) for n in before} == before
    with interruptible() as should_stop:
        assert should_stop() is None
    assert {n: signal.getsignal(n) for n in before} == before


def test_sigterm_outside_of_an_invocation_is_an_error_that_says_so():
    before = signal.getsignal(signal.SIGTERM)
    try:
        end_on_sigterm()
        with pytest.raises(Interrupted, match="SIGTERM: the same command resumes") as told:
            os.kill(os.getpid(), signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert told.value.exit_code == 143


ALARMED = """
import os, signal, sys
from raypipe.driver.signals import interruptible
if sys.argv[1:]:
    sys.modules["ray"] = sys
try:
    with interruptible():
        signal.alarm(60)
        os.kill(os.getpid(), signal.SIGTERM)
        left = signal.alarm(0)
except Exception as error:
    print(error.exit_code, left > 0)
"""


@pytest.mark.fault(6, "the abort that Ray's own handler sets for 3 s after SIGTERM is called off")
@pytest.mark.parametrize("ray", [True, False])
def test_an_alarm_is_called_off_only_where_it_can_be_rays(ray):
    command = [sys.executable, "-c", ALARMED, *(["ray"] if ray else [])]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["143", str(not ray)]


@pytest.mark.parametrize(("given", "found"), [(None, "1"), ("0", "0")])
def test_rays_handler_is_kept_out_unless_the_user_wants_it(monkeypatch, given, found):
    monkeypatch.setenv(RAYS_SWITCH, given or "")  # restored afterwards
    if given is None:
        monkeypatch.delenv(RAYS_SWITCH)
    leave_to_python()
    assert os.environ[RAYS_SWITCH] == found
