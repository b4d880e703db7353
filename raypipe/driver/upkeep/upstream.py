"""What a finished store was made of: the stores it names in its spec, and the ids of its rows."""

import numpy as np

from raypipe import schema
from raypipe.errors import IncompleteError
from raypipe.stages.texts.ids import ids_of_rows
from raypipe.storage.ledger import find_spec, read_manifest
from raypipe.storage.spec import StageSpec
from raypipe.storage.storage import Storage
from raypipe.storage.store import Stored


def stored_of(stores: Storage, name: str, fingerprint: str) -> Stored:
    """The store of that name and fingerprint.

    Raises:
        IncompleteError: it is not complete.
    """
    manifest = read_manifest(stores, name, fingerprint)
    if manifest is None:
        raise IncompleteError(f"{name}/{fingerprint}: not complete; run its pipeline again")
    return Stored(stores, manifest)


def upstream(stores: Storage, spec: StageSpec, name: str) -> tuple[StageSpec, Stored]:
    """The spec and the store of an input of the exported store.

    Raises:
        IncompleteError: it was deleted, or remade with another content.
    """
    store, fingerprint = spec.origins[name].split("/")
    found, upstream = stored_of(stores, store, fingerprint), find_spec(stores, store, fingerprint)
    if upstream is None or found.identity != spec.inputs[name]:
        raise IncompleteError(
            f"{store}/{fingerprint}: the store was remade since it was read; run its pipeline again"
        )
    return upstream, found


def texts_of(stores: Storage, spec: StageSpec) -> Stored:
    """The collection or query set whose texts a store of embeddings encodes."""
    tokens, _ = upstream(stores, spec, "tokens")
    return upstream(stores, tokens, "texts")[1]


def row_ids(stores: Storage, spec: StageSpec) -> list[str]:
    """The original ids of a store's embeddings, of passages or of queries, in row order."""
    texts, is_query = texts_of(stores, spec), spec.params["side"] == "query"
    if is_query:
        ids: list[str] = texts.table(schema.QUERIES)["query_id"].to_pylist()
        return ids
    return ids_of_rows(texts, np.arange(texts.num_rows))


def sides_of(stores: Storage, spec: StageSpec) -> tuple[Stored, Stored]:
    """The (query set, collection) of a run, as named in its spec."""
    return upstream(stores, spec, "queries")[1], upstream(stores, spec, "collection")[1]
