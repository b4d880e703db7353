"""Writes what changed in a store of embeddings between two generations, for a store of vectors."""

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from raypipe import schema
from raypipe.driver.upkeep.export import line_of, parts_of, refuse_filled, stored_of, texts_of
from raypipe.errors import IncompleteError, InputError, RefusedError
from raypipe.stages.embeddings import dim_of, vectors_of_rows
from raypipe.stages.ids import TextHashes, column_of_rows, id_index
from raypipe.stages.reuse.pairing import rows_by_id
from raypipe.stages.reuse.source import hashes_of_collection
from raypipe.storage.files import appear, folder_beside
from raypipe.storage.generations import Generation, held_generation
from raypipe.storage.payloads import ROW_GROUP_ROWS
from raypipe.storage.records import Json, hash_file
from raypipe.storage.storage import Storage

Int64 = NDArray[np.int64]
NO_VALUE = -1
WHOLE = (
    "Hand over the whole in its place, from which a consumer starts anew: "
    "`raypipe export STORE --to parquet --since 0 --out DIR`"
)
UPSERTS, DELETES, MANIFEST = "upserts.parquet", "deletes.parquet", "manifest.json"


def export_delta(
    store: Path | str, since: int, out: Path, *, generation: int | None = None
) -> dict[str, Json]:
    """The manifest of the folder `out`, which leads a consumer from a generation to a newer one.

    upserts.parquet has id, text and vector (float32) of each passage that is new, or whose text or
    vector is another; deletes.parquet the id of each one that is gone or has no vector any more;
    manifest.json `since`, `generation`, the fingerprints of both, counts, and the SHA-256 of both
    files. Rows are in the order of the collection: of the newer one, and of the older one. Applied
    once or again, to what equals generation `since`, they give generation `generation`.

    The hashes of all ids and texts are compared, 32 bytes a passage of either generation. Texts and
    vectors are read where they changed.

    Args:
        store: STORES/NAME of a collection's embeddings.
        since: the generation that the consumer has; 0: it has nothing, and gets everything.
        out: a new or empty folder.
        generation: the number of the generation to lead to; by default the current one.

    Raises:
        InputError: no such store or generation, or no embeddings of a collection.
        RefusedError: `since` was retired or refused, or its vectors were made with other settings.
        IncompleteError: a store of either generation was deleted.
    """
    refuse_filled(out)
    with _generations(str(store), since, generation) as (stores, name, now, before):
        new = _Side(stores, name, now)
        old = None if before is None else _older(stores, name, before, new)
        with folder_beside(out) as folder:
            upserts = new.differing_from(old)
            _write_upserts(folder / UPSERTS, new, upserts)
            num_deletes = _write_deletes(folder / DELETES, new, old)
            files = {file: hash_file(folder / file) for file in (UPSERTS, DELETES)}
            manifest = {
                "format": 1,
                "name": now.name,
                "store": name,
                "since": since,
                "generation": now.number,
                "fingerprints": {
                    "since": None if before is None else before.stores[name],
                    "generation": now.stores[name],
                },
                "dim": dim_of(new.embeddings),
                "upserts": len(upserts),
                "deletes": num_deletes,
                "rows": new.num_values,
                "files": files,
            }
            (folder / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
            appear(folder, out)
    return manifest


@contextmanager
def _generations(
    place: str, since: int, number: int | None
) -> Iterator[tuple[Storage, str, Generation, Generation | None]]:
    """The stores, the store's name, and both generations, held while the block runs.

    Raises:
        InputError: the place names a fingerprint, or there is no such generation.
        RefusedError: the older one was retired or refused.
    """
    stores, root, name, fingerprint = parts_of(place)
    option = f"--since {since}"
    if fingerprint is not None:
        raise InputError(
            f"{option}: {place} names a fingerprint, and generations name the store; leave the "
            "fingerprint out"
        )
    line = line_of(root, stores, option)
    assert line is not None
    with ExitStack() as end:
        now = end.enter_context(held_generation(stores, line, number))
        if since > now.number:
            raise InputError(
                f"{option}: expected a generation up to {now.number}, to which this export leads"
            )
        before = None
        if since:
            try:
                before = end.enter_context(held_generation(stores, line, since))
            except InputError as error:
                raise RefusedError(f"{option}: {error}. {WHOLE}") from error
        yield stores, name, now, before


class _Side:
    """A generation's embeddings by row, with the ids and texts of the passages."""

    def __init__(self, stores: Storage, name: str, generation: Generation) -> None:
        """Open the stores.

        Raises:
            InputError: the generation has no such store, or it holds no collection's embeddings.
            IncompleteError: a store was deleted.
        """
        where = f"{name} in generation {generation.number} of {generation.name}"
        if name not in generation.stores:
            raise InputError(
                f"{where}: no such store; it has {', '.join(sorted(generation.stores))}"
            )
        self.embeddings = stored_of(stores, name, generation.stores[name])
        self.spec = self.embeddings.spec
        if self.spec.produces != "vectors" or self.spec.params["side"] == "query":
            raise InputError(f"{where}: --since is for a collection's embeddings, which it has not")
        self.texts = texts_of(stores, self.spec)
        ids = hashes_of_collection(self.texts)
        if ids is None:
            raise IncompleteError(
                f"{where}: the index of its ids was deleted; run its pipeline again"
            )
        self.ids, self.hashes = ids, TextHashes(ids).hashes
        manifest = self.embeddings.manifest
        self.classes = [str(record.facts.get("numerics")) for record in manifest.records]
        self._stops = np.array([record.shard.stop for record in manifest.records], np.int64)
        self._skipped = np.array(manifest.skipped_rows, np.int64)
        self.num_values = manifest.num_rows - len(self._skipped)

    def class_of(self, rows: Int64, classes: list[str]) -> Int64:
        """The numerics class in which each row's vector was computed, by its place in `classes`.

        NO_VALUE for a row in quarantine.
        """
        places = np.array([classes.index(each) for each in self.classes], np.int64)
        of_rows = places[np.searchsorted(self._stops, rows, side="right")]
        return np.where(np.isin(rows, self._skipped), NO_VALUE, of_rows)

    def differing_from(self, other: "_Side | None") -> Int64:
        """The rows with a vector that the other side lacks or has otherwise, ascending.

        A vector is another if its text is, or the class of the machine that computed it.
        """
        if other is None:
            return np.delete(np.arange(self.embeddings.num_rows), self._skipped)
        classes = sorted({*self.classes, *other.classes})
        differing = [np.empty(0, np.int64)]
        for rows, others in rows_by_id(self.ids, other.ids):
            mine = self.class_of(rows, classes)
            same = (others >= 0) & (mine != NO_VALUE)
            mine_of, theirs = rows[same], others[same]
            same[same] = (self.hashes[mine_of] == other.hashes[theirs]).all(axis=1) & (
                mine[same] == other.class_of(theirs, classes)
            )
            differing.append(rows[~same & (mine != NO_VALUE)])
        return np.sort(np.concatenate(differing))


def _older(stores: Storage, name: str, generation: Generation, new: _Side) -> _Side:
    """The older generation's side.

    Raises:
        RefusedError: it has no such store, or its vectors were made with other settings.
    """
    try:
        old = _Side(stores, name, generation)
    except InputError as error:
        raise RefusedError(f"{error}. {WHOLE}") from error
    if old.spec.reuse_key != new.spec.reuse_key:
        changes = "; ".join(map(str, old.spec.settings_diff(new.spec)))
        raise RefusedError(
            f"{name}: its vectors were made with other settings since generation "
            f"{generation.number}, so all of them changed: "
            f"{changes or 'the model, or how texts are tokenised'}. {WHOLE}"
        )
    return old


def _write_upserts(path: Path, side: _Side, rows: Int64) -> None:
    dim = dim_of(side.embeddings)
    columns = schema.upserts(dim)
    with pq.ParquetWriter(path, columns) as writer:
        for start in range(0, len(rows), ROW_GROUP_ROWS):
            part = rows[start : start + ROW_GROUP_ROWS]
            values = pa.array(vectors_of_rows(side.embeddings, part).astype(np.float32).ravel())
            ids, texts = (column_of_rows(side.texts, part, c) for c in schema.PASSAGES.names)
            vectors = pa.FixedSizeListArray.from_arrays(values, dim)
            writer.write_table(pa.table([ids, texts, vectors], schema=columns))


def _write_deletes(path: Path, new: _Side, old: _Side | None) -> int:
    """Write the ids that have a vector in the older generation alone; returns their number."""
    gone: list[str] = []
    rows = np.empty(0, np.int64) if old is None else old.differing_from(new)
    index = id_index(new.texts, new.ids)
    for start in range(0, len(rows), ROW_GROUP_ROWS):
        assert old is not None
        ids = column_of_rows(old.texts, rows[start : start + ROW_GROUP_ROWS], "passage_id")
        new_rows = index.rows_of(ids)
        stays = new_rows >= 0
        stays[stays] = new.class_of(new_rows[stays], new.classes) != NO_VALUE
        gone += [each for each, is_there in zip(ids, stays, strict=True) if not is_there]
    pq.write_table(pa.table([pa.array(gone, pa.string())], schema=schema.DELETES), path)
    return len(gone)
