"""A damaged or missing file, as `raypipe verify` tells it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Damage:
    """A file whose bytes differ from those that were written, or that is gone."""

    name: str
    """Its name under the root of the stores, or in the workspace's folder."""
    problem: str
    remedy: str
