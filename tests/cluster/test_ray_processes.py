"""Actors as Ray is asked for them, on a fake of Ray: see test_ray_pool_events."""

import pytest
from ray_on_paper import TASK, Local, ready_worker

from raypipe import numerics
from raypipe.cluster.ray_pool import RayBackend
from raypipe.stages.stage import Needs


def test_an_actor_gets_what_its_stage_needs_and_its_threads(paper):
    ready_worker(paper, threads=3)
    ((options, arguments),) = paper.asked
    environment = {"OMP_NUM_THREADS": "3", **numerics.for_workers()}
    assert options == {
        "num_cpus": 2.0, "num_gpus": 0.5, "runtime_env": {"env_vars": environment},
    }  # fmt: skip
    assert arguments == (3,) and paper.refs[0].arguments == (1, TASK)
    assert paper.waited == [(1, 0.25), (1, 0)]
    RayBackend().start(TASK)
    assert paper.asked[1][1] == (1,)


def test_what_an_actor_inherits_is_not_asked_for_again(paper):
    """Ray starts a new process for every actor whose environment it is asked to set."""
    inherited = {"OMP_NUM_THREADS": "3", **numerics.for_workers()}
    ready_worker(paper, threads=3, local=Local(**inherited))
    assert paper.asked[0][0] == {"num_cpus": 0.0, "num_gpus": 0.5}, "and it reserves no core"
    RayBackend(threads=2, local=Local(**inherited)).start(TASK)
    assert paper.asked[1][0]["runtime_env"] == {"env_vars": {"OMP_NUM_THREADS": "2"}}


@pytest.mark.parametrize(
    ("needs", "fits"),
    [
        ((2.0, 0.0), 3),
        ((4.0, 0.0), 1),
        ((7.0, 0.0), 1),
        ((2.0, 0.5), 3),
        ((0.5, 0.5), 6),
        ((0.0, 0.5), 6),
        ((0.5, 2.0), 1),
        ((0.0, 0.0), 1),
    ],
)
def test_as_many_workers_fit_as_the_scarcer_of_cores_and_gpus_allows(paper, needs, fits):
    wanted = Needs(num_cpus=needs[0], num_gpus=needs[1])
    assert RayBackend(local=Local()).capacity(wanted) == fits
    assert RayBackend().capacity(wanted) == (1 << 30 if needs[1] else fits)
    paper.have = {}
    assert RayBackend(local=Local()).capacity(wanted) == 1


def test_closing_ends_actors_and_cluster(paper):
    local = Local()
    ready_worker(paper, local=local).close()
    assert (paper.killed, paper.shut, local.closed) == ([(1, True)], 0, 1)
    ready_worker(paper).close()
    assert (len(paper.killed), paper.shut) == (2, 1), "who started Ray leaves it too"
    RayBackend().check()
