import os
import signal

import pytest

from raypipe.driver.machine.signals import interruptible
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
