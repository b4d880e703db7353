"""How a recipe's collection becomes stores.

passages:         count -> passages -> ids
documents, split: count -> documents -> windows -> passages -> ids; map of windows
passages given:   count -> passages -> ids; homes -> map -> documents
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from raypipe.config.parts import Collection
from raypipe.data.facts import FileFacts, check_known_collection, has_dense_ids
from raypipe.data.files import not_read
from raypipe.data.formats.json_lines import OBJECTS, in_lines
from raypipe.data.formats.registry import get_format
from raypipe.data.records import LINES
from raypipe.errors import InputError
from raypipe.names import Role, of_collection
from raypipe.stages.ids import ids_stage
from raypipe.stages.prepare import ConvertStage, CountStage, counted
from raypipe.stages.stage import Stage
from raypipe.storage.store import Stored

if TYPE_CHECKING:
    from raypipe.driver.recipe.stores import Stores
    from raypipe.stages.documents.convert import RecordsStage, What
    from raypipe.text.split import Splitting


log = logging.getLogger(__name__)


@dataclass(frozen=True)
class CollectionFiles:
    """The files of a collection, counted, and the stores that are made of them."""

    collection: Collection
    stores: Stores
    files: Sequence[Path]
    facts: Sequence[FileFacts]
    sources: Mapping[str, str]

    def passages(self) -> dict[Role, Stored]:
        """Every store of the collection by its role: passages and ids, and those of documents."""
        split = self.collection.split
        if split is None:
            stores = {Role.PASSAGES: self._ensure(Role.PASSAGES, self._passages())}
        elif split.by == "given":
            stores = self._given()
        else:
            stores = self._split()
        whole = split is not None and split.by != "given"  # then rows are no records of files
        # An earlier count, of other files, where only settings are compared.
        counts = [facts.num_records for facts in self.facts]
        named = zip([f"{file}: {self._unit(file)}" for file in self.files], counts, strict=False)
        dense = has_dense_ids(self.facts) and split is None
        ids = ids_stage(stores[Role.PASSAGES], dense, () if whole else tuple(named))
        return {**stores, Role.IDS: self._ensure(Role.IDS, ids)}

    def _unit(self, file: Path) -> str:
        """The word for the file's records in messages."""
        way = get_format(self.collection.format).split
        if way is OBJECTS:
            return "line" if in_lines(file) else "object"
        return "line" if way.place is LINES.place else "record"

    def _split(self) -> dict[Role, Stored]:
        from raypipe.stages.documents.passage_map import MapStage
        from raypipe.stages.documents.split import SplitStage
        from raypipe.stages.documents.windows import WindowsStage

        splitting = splitting_of(self.collection)
        documents = self._ensure(Role.DOCUMENTS, self._records("documents"))
        windows = self._ensure(Role.WINDOWS, WindowsStage(documents, splitting))
        passages = self._ensure(Role.PASSAGES, SplitStage(documents, windows, splitting))
        passage_map = self._ensure(Role.MAP, MapStage(windows, given=False))
        return {Role.DOCUMENTS: documents, Role.PASSAGES: passages, Role.MAP: passage_map}

    def _given(self) -> dict[Role, Stored]:
        from raypipe.stages.documents.name_documents import NamedDocumentsStage
        from raypipe.stages.documents.passage_map import MapStage

        passages = self._ensure(Role.PASSAGES, self._passages())
        homes = self._ensure(Role.HOMES, self._records("homes"))
        passage_map = self._ensure(Role.MAP, MapStage(homes, given=True))
        documents = self._ensure(Role.DOCUMENTS, NamedDocumentsStage(homes, passage_map))
        return {Role.DOCUMENTS: documents, Role.PASSAGES: passages, Role.MAP: passage_map}

    def _passages(self) -> ConvertStage | RecordsStage:
        collection = self.collection
        if collection.fields is not None:
            return self._records("passages")
        return ConvertStage(
            self.files,
            self.facts,
            collection.format,
            collection.errors,
            sources=self.sources,
            ids=collection.id,
        )

    def _records(self, what: What) -> RecordsStage:
        from raypipe.stages.documents.convert import RecordsStage

        collection = self.collection
        return RecordsStage(
            self.files,
            self.facts,
            collection.format,
            collection.errors,
            self.sources,
            what=what,
            fields=collection.field_names,
            delimiter=None if collection.split is None else collection.split.delimiter,
        )

    def _ensure(self, role: Role, stage: Stage) -> Stored:
        return self.stores.ensure(of_collection(role), stage)


def counted_collection(
    collection: Collection, stores: Stores, sources: Mapping[str, str]
) -> CollectionFiles:
    """The collection's files, counted.

    Raises:
        InputError: no such files, or no record in them.
    """
    fields = collection.field_names
    form = get_format(collection.format, fields, collection.id)
    files = form.files([Path(p) for p in collection.input])
    counted_by = None if collection.format == "jsonl" else fields  # objects need no names
    count = CountStage(files, collection.format, sources, counted_by)
    facts = counted(stores.ensure(of_collection(Role.COUNT), count))
    for warning in check_known_collection(facts):
        log.warning("%s", warning)
    if not sum(f.num_records for f in facts):
        what = "passages" if collection.split is None else "documents"
        raise InputError(f"{', '.join(map(str, files))}: expected {what}, found no record")
    return CollectionFiles(collection, stores, files, facts, sources)


SHOWN = 5


def unread(collection: Collection) -> list[str]:
    """A line for each folder of the collection with something that its format does not read.

    BEIR's folders have the queries and the judgements in them too.
    """
    lines = []
    inputs = [Path(path) for path in collection.input]
    form = get_format(collection.format, collection.field_names, collection.id)
    files = form.files(inputs) if any(map(Path.is_dir, inputs)) else []
    for folder in (Path(p) for p in collection.input if collection.format != "beir"):
        if folder.is_dir() and (names := not_read(folder, files)):
            more = f" and {len(names) - SHOWN:,} more" if len(names) > SHOWN else ""
            listed = f"{', '.join(names[:SHOWN])}{more}"
            lines.append(f"{folder}: not read as {collection.format}: {listed}")
    return lines


def splitting_of(collection: Collection) -> Splitting:
    """How the collection's documents are split."""
    from raypipe.text.split import Splitting

    split = collection.split
    assert split is not None
    return Splitting(
        by=split.by,
        length=split.length or 0,
        stride=split.stride or 0,
        title_words=split.title_words or 0,
        headings_words=split.headings_words or 0,
        at_most=split.at_most,
    )
