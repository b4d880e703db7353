"""Compares the files of a workspace, outside its stores, with what its last invocation wrote."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from raypipe.driver.mirror import output_hash
from raypipe.driver.upkeep.damage import Damage
from raypipe.storage.records import Json


def file_damage(folder: Path, summary: Mapping[str, Json]) -> Iterator[Damage]:
    """Every file that differs from the one that the summary names, or is gone."""
    for name, expected in summary.get("files", {}).items():
        path = folder / name
        found = output_hash(folder, name) or "no such file"
        if found != expected:
            problem = f"{path}: expected the SHA-256 {expected}, found {found}"
            yield Damage(name, problem, f"delete {_whole(name)} and run again to write it")


def _whole(name: str) -> str:
    """What is deleted together with a file; inputs that raypipe made are made as one folder."""
    parts = name.split("/")
    for made, depth in (("python-docs", 1), ("triples", 2), ("topics", 2)):
        if made in parts[:-1]:
            return "the folder " + "/".join(parts[: parts.index(made) + depth])
    return name
