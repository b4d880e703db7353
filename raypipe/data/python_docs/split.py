"""Splits modules into train, dev and test; chooses sections for a smaller collection."""

import hashlib
from collections.abc import Mapping

SHARES = {"train": 0.62, "dev": 0.15, "test": 0.23}
"""Share of the queries in each split."""
PACKAGE_SHARES = {"train": 0.94, "dev": 0.03, "test": 0.03}
"""The shares for installed packages' documentation, which is meant for training."""
PRIORITY = tuple(SHARES)
"""Of two near-duplicates, the one in the earlier split is removed, so that test keeps its texts."""
_UNITS = {"genericpath": "os", "ntpath": "os", "posixpath": "os", "sre_compile": "re"}
_UNITS |= {"sre_constants": "re", "sre_parse": "re", "html": "xml", "asynchat": "asyncore"}
"""Modules that document the subject of another module and stay with it."""


def unit_of(module: str) -> str:
    """The unit of modules that stay together, from the name of one of them."""
    return _UNITS.get(module, module)


def split_units(sizes: Mapping[str, int], shares: Mapping[str, float] = SHARES) -> dict[str, str]:
    """Unit -> split; the largest first, each into the split whose share is then filled least.

    Ties in size are ordered by name, ties between splits by the order of the shares.
    """
    filled = dict.fromkeys(shares, 0)
    splits: dict[str, str] = {}
    for unit, size in sorted(sizes.items(), key=lambda each: (-each[1], each[0])):
        split = min(shares, key=lambda name: (filled[name] + size) / shares[name])
        filled[split] += size
        splits[unit] = split
    return splits


def choose_sections(
    passages: Mapping[str, list[str]],
    *,
    splits: Mapping[str, str],
    max_passages: int,
    shares: Mapping[str, float] = SHARES,
) -> set[str]:
    """Names of whole sections with at most `max_passages` different passages in all.

    Each split gets its share of the passages. Sections come in the order of the SHA-256 of their
    names, so a larger collection holds most of a smaller one; one that no longer fits is skipped.

    Args:
        passages: section -> ids of its passages.
        splits: section -> split.
        max_passages: bound on the number of different passages.
        shares: the share of each split.
    """
    left = {split: int(max_passages * share) for split, share in shares.items()}
    chosen: set[str] = set()
    held: set[str] = set()
    for name in sorted(passages, key=_stable_hash):
        fresh = set(passages[name]) - held
        if len(fresh) <= left[splits[name]]:
            left[splits[name]] -= len(fresh)
            held |= fresh
            chosen.add(name)
    return chosen


def _stable_hash(name: str) -> bytes:
    return hashlib.sha256(name.encode()).digest()
