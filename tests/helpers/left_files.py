"""What finished invocations leave, and damage to it."""

import re
import shutil
from fnmatch import fnmatchcase
from pathlib import Path

from raypipe.driver.upkeep.status import open_workspace
from raypipe.driver.workspace import read_refs
from raypipe.storage.generations import held_stores
from raypipe.storage.ledger import read_manifest
from raypipe.storage.records import Manifest, seal, unseal

LIST = Path(__file__).parents[2] / "docs" / "reliability.md"


def listed():
    """Pattern -> (what becomes of a damaged file, of a deleted one), in the order of the list."""
    lines = re.findall(r"^\| `(\S+)` \| (.+) \| (.+) \|$", LIST.read_text(), flags=re.MULTILINE)
    return {pattern: fates for pattern, *fates in lines}


def pattern_of(name):
    """The first pattern of the list that fits a file; None if there is none."""
    return next((pattern for pattern in listed() if fits(pattern, name)), None)


def fits(pattern, name):
    if pattern.endswith("/**"):
        return name.startswith(pattern[:-2])
    mine, parts = pattern.split("/"), name.split("/")
    return len(mine) == len(parts) and all(map(fnmatchcase, parts, mine))


def files_in(folder):
    """Every file of a workspace that something refers to, by name."""
    stores = open_workspace(folder).stores
    kept = held_stores(stores)
    for ref in stores.names("refs"):
        refs = read_refs(stores, Path(ref).stem)
        kept |= {*refs.stores.items(), *refs.sources.items()}
    manifests = [read_manifest(stores, *place) for place in kept]
    blobs = {r.sha256 for m in manifests if isinstance(m, Manifest) for r in m.records}
    places = {"/".join(place) for place in kept}

    def referred(name):
        parts = name.split("/")
        if parts[:2] == ["stores", "blobs"]:
            return parts[-1] in blobs
        own = len(parts) < 4 or parts[1] in ("generations", "refs", "gc", "blobs")
        return parts[0] != "stores" or own or "/".join(parts[1:3]) in places

    names = [p.relative_to(folder).as_posix() for p in sorted(folder.rglob("*")) if p.is_file()]
    return [name for name in names if referred(name)]


def flip(path, position):
    data = bytearray(path.read_bytes())
    if data:
        data[position % len(data)] ^= 1 << (position % 7)
    else:
        data = bytearray(b"x")
    replace(path, bytes(data))


def cut(path, position):
    data = path.read_bytes()
    replace(path, data[: position % len(data)] if data else b"x")


def gone(path, position):
    path.unlink()


def replace(path, data):
    """The file anew: one of the copies' hard links must not be written through."""
    path.unlink()
    path.write_bytes(data)


WAYS = {"flipped": flip, "cut": cut, "deleted": gone}


def follow(remedy, folder):
    """Delete what a remedy says."""
    for words in re.findall(r"delete (.+?)(?: and run|: |$|;)", remedy):
        for word in re.split(r", | and | too|\s", words.replace("the folder ", "")):
            for place in (folder / "stores" / word, folder / word):
                if word and "." in word + "/".join(place.parts[-2:]) and place.is_file():
                    place.unlink()
                elif word and "the folder " in words and place.is_dir():
                    shutil.rmtree(place)


def end_holders(folder):
    """Make the leases those of a process that has ended, as a command's are."""
    for path in folder.rglob("lease.json*/*.json"):
        body = unseal(path.name, path.read_bytes())
        holder = {**body["holder"], "start_time": body["holder"]["start_time"] - 1}
        path.write_bytes(seal({**body, "holder": holder}))
