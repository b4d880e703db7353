"""Ray's daemons that a cluster of one process does without; which run is in test_living_workers."""

import pytest
from ray._private import parameter, services

from raypipe.cluster.fewer_daemons import fewer_daemons


def test_within_the_block_ray_is_told_to_start_fewer_and_afterwards_as_before():
    before = parameter.RayParams, services.start_api_server
    with pytest.raises(RuntimeError, match="Ray does not start"), fewer_daemons():
        given = parameter.RayParams(num_cpus=3)
        assert (given.no_monitor, given.include_log_monitor, given.num_cpus) == (True, False, 3)
        assert services.start_api_server(False, port=1) == (None, None)
        raise RuntimeError("Ray does not start")
    assert (parameter.RayParams, services.start_api_server) == before
    given = parameter.RayParams()
    assert not given.no_monitor and given.include_log_monitor is None
