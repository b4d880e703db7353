"""What a worker's death is, from what Ray says of it: lost, preempted, or short of memory."""

from ray.exceptions import OutOfMemoryError as RayOutOfMemoryError
from ray.exceptions import RayActorError

from raypipe.cluster.backend import Lost, OutOfMemory, Preempted
from raypipe.errors import first_line


def death(
    worker: int, error: RayActorError | RayOutOfMemoryError, *, node_is_dead: bool
) -> Lost | Preempted | OutOfMemory:
    """The event of a worker whose node is known to be dead, or not; it may not have told it yet."""
    if isinstance(error, RayOutOfMemoryError):  # the system's own killer says no reason
        return OutOfMemory(worker, first_line(error))
    gone = node_is_dead or "its node has died" in str(error)
    if gone or getattr(error, "preempted", False):
        return Preempted(worker, str(error))
    return Lost(worker, _why(error))


def _why(error: RayActorError) -> str:
    """Why an actor ended; for one that could not begin, what was missing on its node."""
    first, *others = (line.strip() for line in str(error).splitlines() if line.strip())
    return f"{first} {others[-1]}" if others and "creation task" in first else first
