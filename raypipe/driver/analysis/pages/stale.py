"""What has changed since a workspace was made: recipe, collection, queries, runs given, models."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from raypipe.data.formats.registry import get_format
from raypipe.driver.analysis.finished import Finished
from raypipe.driver.recipe.basis import Basis
from raypipe.driver.recipe.chain import Chain
from raypipe.driver.recipe.graph import Graph
from raypipe.driver.upkeep.file_damage import file_damage
from raypipe.errors import IncompleteError, InputError
from raypipe.names import Role, StoreName, Thing, of_collection
from raypipe.stages.stage import Stage
from raypipe.stages.texts.prepare import CountStage, counted
from raypipe.storage.records import hash_file
from raypipe.storage.spec import Change, StageSpec
from raypipe.storage.store import Stored
from raypipe.uris import in_bucket


def changed_since(finished: Finished) -> list[str]:
    """A line for whatever would now give other stores than the last invocation's; none if nothing.

    Files of a collection are hashed only where their sizes or times differ; those in a bucket are
    not compared. A model's weights are hashed. Nothing is computed.
    """
    files = [*file_damage(finished.workspace.folder, finished.summary)]
    lines = [f"{damage.name}: not as the last invocation wrote it" for damage in files]
    lines += _collection(finished)
    compared = _Compared(finished)
    graph = Graph(Basis(finished.with_inputs, compared))
    for query_set in finished.query_sets:
        for name in finished.summary["systems"][query_set]:
            try:
                graph.system(name, query_set)
            except InputError as error:  # a model or a file that is no longer there, or is another
                compared.lines += error.problems
            except FileNotFoundError as error:
                compared.lines.append(f"{error.filename}: no such file any more")
            except _Unknown:
                continue
    return list(dict.fromkeys([*lines, *compared.lines]))


def _collection(finished: Finished) -> Iterator[str]:
    """The collection's files that are not those that were read."""
    wanted = finished.with_inputs.collection
    stored = finished.find(of_collection(Role.COUNT))
    if stored is None or any(in_bucket(path) for path in wanted.input):
        return
    try:
        kind = get_format(wanted.format)
        files = kind.files([Path(path) for path in wanted.input])
    except InputError as error:
        yield from error.problems
        return
    if dict(CountStage(files, wanted.format).spec.inputs) == dict(stored.spec.inputs):
        return
    facts = counted(stored)
    if kind.stream is not None or len(facts) != len(files):
        yield f"collection: {', '.join(wanted.input)}: other files than were read"
        return
    for file, fact in zip(files, facts, strict=True):
        if hash_file(file) != fact.sha256:
            yield f"collection: {file} changed"


class _Unknown(Exception):
    """The last invocation has no such store, so there is nothing to compare with."""


@dataclass
class _Compared:
    """The stores of the last invocation: differences are noted, nothing is computed."""

    finished: Finished
    lines: list[str] = field(default_factory=list)

    def fixed(self, name: StoreName) -> Stored | None:
        """See Stores; the collection is compared by its files."""
        return self.finished.find(name) if name.thing is Thing.COLLECTION else None

    def ensure(self, name: StoreName, stage: Stage) -> Stored:
        """The last invocation's store of that name; compares what it was made of.

        Raises:
            _Unknown: it does not exist.
        """
        stored = self.finished.find(name)
        if stored is None:
            raise _Unknown
        try:
            changes = stored.spec.diff(stage.spec)
        except IncompleteError:  # its spec.json is gone, which `verify` tells
            return stored
        told = [str(change) for change in changes if not _of_another_store(change)]
        if told:
            self.lines.append(f"{name}: {'; '.join(told)}")
        return stored

    def find(self, name: StoreName, spec: StageSpec) -> Stored | None:
        """See Stores; no table is completed."""
        return None

    def select(
        self, name: StoreName, stage: Stage, complete: Callable[[bool], tuple[Stage, Chain]]
    ) -> tuple[Stored, Chain]:
        """See Stores; does not complete the table that is selected from."""
        return self.ensure(name, stage), Chain()


def _of_another_store(change: Change) -> bool:
    """Whether a store below is another one, which has a line of its own."""
    return change.field.startswith("inputs.") and not change.field.startswith("inputs.content:")
