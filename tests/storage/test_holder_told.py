from raypipe.storage.holder import Process, this_process, wait_until_dead


def test_the_living_are_told_after_the_wait_and_the_dead_at_once():
    dead = Process("x", "y", "z", 1, 1.0)
    gone = Process(**{**this_process().to_json(), "start_time": 1.0})
    assert wait_until_dead([], 60) == [] and wait_until_dead([gone], 60) == []
    assert this_process() in wait_until_dead([this_process(), gone], 0.05)
    assert Process.from_json(dead.to_json()) == dead and str(dead) == "process 1 on x"
