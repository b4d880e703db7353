"""Which store a path means: the current generation's, another generation's, or the newest."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from raypipe.config import read_resolved
from raypipe.errors import InputError
from raypipe.storage.generations import generation_names, generation_numbers, held_generation
from raypipe.storage.root import open_storage
from raypipe.storage.storage import Storage


@contextmanager
def which_store(
    place: Path | str, generation: int | None = None
) -> Iterator[tuple[Storage, str, str]]:
    """The parts (stores, name, fingerprint) of STORES/NAME or STORES/NAME/FINGERPRINT.

    Without a fingerprint it is the store of the current generation, or of the one with this number,
    which is held while the block runs. Where no generation names such a store, it is the one that
    was completed last.

    Raises:
        InputError: no complete store, no such generation, or a generation without this store.
    """
    stores, root, name, fingerprint = _parts(str(place))
    if fingerprint is not None:
        if generation is not None:
            raise InputError(
                f"--generation {generation}: {place} names a fingerprint already; leave one out"
            )
        yield stores, name, fingerprint
        return
    with ExitStack() as end:
        line = _line(root, stores, generation)
        if line is not None:
            held = end.enter_context(held_generation(stores, line, generation))
            if name in held.stores:
                yield stores, name, held.stores[name]
                return
            if generation is not None:
                raise InputError(
                    f"{place}: generation {generation} of {line} has no such store; it has "
                    f"{', '.join(sorted(held.stores))}"
                )
        yield stores, name, _newest(stores, name, str(place))


def _parts(place: str) -> tuple[Storage, str, str, str | None]:
    """The opened root of stores and its place, the store's name, and the fingerprint if named."""
    place = place.rstrip("/")
    root, name, last = _split(place)
    if root and name:
        stores = open_storage(root)
        if stores.exists(f"{name}/{last}/plan.json"):
            return stores, root, name, last
    root = place[: -len(last) - 1] if "://" in place else str(Path(place).parent)
    return open_storage(root), root, last, None


def _split(place: str) -> tuple[str, str, str]:
    """ROOT, NAME and LAST of ROOT/NAME/LAST; ROOT is empty where nothing is above the name."""
    if "://" not in place:
        path = Path(place)
        return str(path.parent.parent), path.parent.name, path.name
    root, name, last = place.rsplit("/", 2)
    return "" if root.endswith("/") else root, name, last  # s3://BUCKET is the highest there is


def _line(root: str, stores: Storage, generation: int | None) -> str | None:
    """The name of the generations in a root of stores; None if it has none.

    Where workspaces share the root, it is the recipe's name of the workspace around it.

    Raises:
        InputError: a generation is asked for where there is none, or several lines could be meant.
    """
    names = [name for name in generation_names(stores) if generation_numbers(stores, name)]
    if not names and generation is not None:
        raise InputError(
            f"--generation {generation}: {root} has no generations; `raypipe reindex` makes them"
        )
    if len(names) < 2:
        return names[0] if names else None
    around = Path(root).absolute().parent
    is_workspace = "://" not in root and all(
        (around / file).is_file() for file in ("workspace.json", "recipe.yaml")
    )
    own = str(read_resolved(around / "recipe.yaml").get("name")) if is_workspace else None
    if own in names:
        return own
    raise InputError(
        f"{root}: it has generations of {', '.join(names)}; expected those of one recipe. Name "
        "STORES/NAME/FINGERPRINT; each generations/RECIPE/NUMBER.json lists its fingerprints"
    )


def _newest(stores: Storage, name: str, place: str) -> str:
    """The fingerprint of the store that was completed last."""
    parts = [found.split("/") for found in stores.names(name)]
    manifests = ["/".join(each) for each in parts if each[2:] == ["manifest.json"]]
    times = {entry.name: entry.written for n in manifests if (entry := stores.entry(n))}
    if not times:
        raise InputError(
            f"{place}: expected STORES/NAME or STORES/NAME/FINGERPRINT of a complete store"
        )
    return max(times, key=times.__getitem__).split("/")[1]
