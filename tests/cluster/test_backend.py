from raypipe.cluster.backend import Beating, Ready, Task


def test_events_and_tasks_as_they_are_unless_told():
    assert Task(None, None).nonce == ("", "") and Beating(1).rows == ()
    assert Ready(1, {}).process is None
