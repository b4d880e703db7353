"""Ray on paper: its answers are given by hand, at moments that the real one (in the tests marked
`ray`) cannot be made to choose.
"""

from types import SimpleNamespace

from bare_stage import BareStage

from raypipe.cluster.backend import Ready, Task
from raypipe.cluster.ray_pool import RayBackend
from raypipe.errors import IncompleteError
from raypipe.stages.stage import Needs
from raypipe.storage.records import Shard

SHARD = Shard(0, 0, 8)


ACTS = ("open", "run", "beats", "leave", "rest")


class Ref:
    """An answer that stands once `outcome` is set."""

    outcome = None


class Method:
    def __init__(self, refs, name):
        self.refs, self.name = refs, name

    def remote(self, *arguments):
        ref = Ref()
        ref.name, ref.arguments = self.name, arguments
        self.refs.append(ref)
        return ref


class OnPaper:
    """The calls of Ray that the backend makes, and the actors it asked for."""

    def __init__(self):
        self.refs, self.asked, self.killed, self.waited = [], [], [], []
        self.have, self.hosts, self.shut = {"CPU": 6.0, "GPU": 3.0}, [], 0

    def options(self, **options):
        def remote(*arguments):
            self.asked.append((options, arguments))
            number = len(self.asked)
            methods = {name: Method(self.refs, name) for name in ACTS}
            return SimpleNamespace(number=number, **methods)

        return SimpleNamespace(remote=remote)

    def wait(self, refs, *, num_returns, timeout):
        self.waited.append((num_returns, timeout))
        ready = [ref for ref in refs if ref.outcome is not None][:num_returns]
        return ready, [ref for ref in refs if ref not in ready]

    def get(self, ref):
        if isinstance(ref.outcome, Exception):
            raise ref.outcome
        return ref.outcome

    def kill(self, actor, *, no_restart):
        self.killed.append((actor.number, no_restart))

    def nodes(self):
        return self.hosts

    def cluster_resources(self):
        return self.have

    def shutdown(self):
        self.shut += 1


class Local:
    """A cluster of this process alone."""

    def __init__(self, **environment):
        self.gone, self.closed, self.environment = False, 0, environment

    def ended(self):
        return self.gone

    def check(self):
        if self.gone:
            raise IncompleteError("Ray's raylet has ended")

    def close(self):
        self.closed += 1


TASK = Task(BareStage(Needs(num_cpus=2.0, num_gpus=0.5)), None)


def ready_worker(paper, **options):
    backend = RayBackend(**options)
    assert backend.start(TASK) == 1
    paper.refs[-1].outcome = ({"x": 1}, "process", "node-a")
    assert backend.wait(0.25) == [Ready(1, {"x": 1}, "process")]
    return backend
