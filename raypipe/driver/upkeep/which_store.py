"""Which store a path means: the current generation's, another generation's, or the newest."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from raypipe.config import read_resolved
from raypipe.errors import InputError
from raypipe.storage.generations import generation_names, generation_numbers, held_generation
from raypipe.storage.places.opening import open_storage
from raypipe.storage.storage import Storage


@contextmanager
def which_store(path: Path, generation: int | None = None) -> Iterator[tuple[Storage, str, str]]:
    """The parts (stores, name, fingerprint) of STORES/NAME or STORES/NAME/FINGERPRINT.

    Without a fingerprint it is the store of the current generation, or of the one with this number,
    which is held while the block runs. Where no generation names such a store, it is the one that
    was completed last.

    Raises:
        InputError: no complete store, no such generation, or a generation without this store.
    """
    if (path / "plan.json").exists():
        if generation is not None:
            raise InputError(
                f"--generation {generation}: {path} names a fingerprint already; leave one out"
            )
        yield open_storage(str(path.parent.parent)), path.parent.name, path.name
        return
    stores, name = open_storage(str(path.parent)), path.name
    with ExitStack() as end:
        line = _line(path.parent, stores, generation)
        if line is not None:
            held = end.enter_context(held_generation(stores, line, generation))
            if name in held.stores:
                yield stores, name, held.stores[name]
                return
            if generation is not None:
                raise InputError(
                    f"{path}: generation {generation} of {line} has no such store; it has "
                    f"{', '.join(sorted(held.stores))}"
                )
        yield stores, name, _newest(path)


def _line(root: Path, stores: Storage, generation: int | None) -> str | None:
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
    around = root.absolute().parent
    is_workspace = all((around / file).is_file() for file in ("workspace.json", "recipe.yaml"))
    own = str(read_resolved(around / "recipe.yaml").get("name")) if is_workspace else None
    if own in names:
        return own
    raise InputError(
        f"{root}: it has generations of {', '.join(names)}; expected those of one recipe. Name "
        "STORES/NAME/FINGERPRINT; each generations/RECIPE/NUMBER.json lists its fingerprints"
    )


def _newest(path: Path) -> str:
    """The fingerprint of the store that was completed last."""
    complete = sorted(path.glob("*/manifest.json"), key=lambda p: p.stat().st_mtime)
    if not complete:
        raise InputError(
            f"{path}: expected STORES/NAME or STORES/NAME/FINGERPRINT of a complete store"
        )
    return complete[-1].parent.name
