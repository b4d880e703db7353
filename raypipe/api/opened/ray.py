"""A Ray that is started, or joined, once and serves one call after another."""

import os
from contextlib import AbstractContextManager
from pathlib import Path

from raypipe.driver.place import SharedRay
from raypipe.errors import InputError


def open_ray(
    address: str | None = None,
    *,
    folder: str | Path | None = None,
    allow_open_cluster: bool = False,
) -> "Ray":
    """A Ray for the `ray` of `run`, `score` and `rerank`.

    It starts, or is joined, when the first of them computes on it.

    The processes of its workers live on between calls: for a minute on this machine, for ten
    seconds on a cluster, where others may wait for what they hold.

    Args:
        address: of a cluster; by default RAY_ADDRESS, and if that is not set, a Ray of this process
            alone.
        folder: where `score` and `rerank` write while they compute; on a cluster a folder that
            every node has under this name. By default a temporary one, on this machine alone.
        allow_open_cluster: also join a cluster that requires no token and that other machines can
            reach.

    Raises:
        InputError: an address or a folder that is none.
    """
    if address is not None and not isinstance(address, str):
        raise InputError(f"address: expected that of a cluster, host:port; found {address!r}")
    found = os.environ.get("RAY_ADDRESS") if address is None else address
    if folder is not None and not Path(folder).is_dir():
        raise InputError(f"folder: expected an existing folder; found {str(folder)!r}")
    shared = SharedRay(found or None, allow_open=allow_open_cluster)
    return Ray(shared, None if folder is None else Path(folder))


class Ray(AbstractContextManager["Ray"]):
    """A Ray for many calls, one at a time."""

    def __init__(self, shared: SharedRay, folder: Path | None) -> None:
        """Use `open_ray`."""
        self._shared: SharedRay | None = shared
        self._folder = folder

    @property
    def shared(self) -> SharedRay:
        """What an invocation takes.

        Raises:
            InputError: it is closed.
        """
        if self._shared is None:
            raise InputError("ray: closed; open another with open_ray")
        return self._shared

    @property
    def folder(self) -> Path | None:
        """Where `score` writes while it computes; None means a temporary folder of this machine.

        Raises:
            InputError: it is closed, or it is a cluster and no folder was given.
        """
        if self.shared.address is not None and self._folder is None:
            raise InputError(
                f"ray: the nodes of {self.shared.address} exchange files with this process; name a "
                "folder that every node has: open_ray(folder=...)"
            )
        return self._folder

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """End its processes, or leave the cluster; once is enough."""
        shared, self._shared = self._shared, None
        if shared is not None:
            shared.close()

    def __repr__(self) -> str:
        if self._shared is None:
            return "<Ray, closed>"
        return f"<Ray at {self._shared.address or 'this machine'}>"


def shared_of(ray: Ray) -> SharedRay:
    """What an invocation takes of a call's `ray`.

    Raises:
        InputError: it is closed, or nothing that `open_ray` opened.
    """
    if not isinstance(ray, Ray):
        raise InputError(f"ray: expected what open_ray opened; found {type(ray).__name__}")
    return ray.shared
