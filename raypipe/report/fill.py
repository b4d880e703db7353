"""Scores the pairs that the cells of a grid lack, into a store of their own."""

import errno
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from raypipe.driver.execute import Execution, Watcher
from raypipe.driver.inputs import with_copies
from raypipe.driver.invocation import working_in
from raypipe.driver.place import WorkPlace, backends_at, devices_at, sizing_of
from raypipe.driver.recipe.rerank import model_of, scored
from raypipe.driver.signals import interruptible
from raypipe.driver.summaries import standing_of
from raypipe.errors import InputError, RefusedError
from raypipe.names import StoreName
from raypipe.report.cells import (
    Stages,
    costs_of,
    filled,
    grid_of,
    stages_of,
    store_of,
)
from raypipe.report.finished import Finished
from raypipe.stages.scoring.score import score_base
from raypipe.stages.stage import Stage
from raypipe.storage.spec import StageSpec
from raypipe.storage.store import Stored

log = logging.getLogger(__name__)
_NOT_WRITTEN = (errno.EACCES, errno.EPERM, errno.EROFS)


def fill(
    finished: Finished,
    query_sets: Sequence[str],
    *,
    watcher: Watcher,
    say: Callable[[str], None],
    ray_address: str | None = None,
    allow_open_cluster: bool = False,
) -> None:
    """Score what the grids of these query sets lack; what is scored already stays as it is.

    The runs, tables and summary of the last invocation are not touched. Killed, the same call
    resumes.

    Raises:
        InputError: the workspace cannot be written, or a model is not what it was.
        RefusedError: an invocation is working in the workspace, or has ended meanwhile.
        RaypipeError: whatever ended the work.
    """
    waiting = [
        (query_set, stages)
        for query_set in query_sets
        for stages in stages_of(finished, query_set)
        if not _is_filled(finished, query_set, stages)
    ]
    if not waiting:
        say("every grid is filled already")
        return
    wanted = finished.recipe.resources
    place = WorkPlace(wanted.backend, ray_address, allow_open_cluster)
    with _alone(finished), interruptible() as should_stop:
        chosen = devices_at(place, wanted, should_stop)
        say(chosen.line())
        inputs = finished.workspace.folder / "inputs"
        named, sources = with_copies(finished.recipe, inputs, collection=False)
        backends = backends_at(place, chosen)
        execution = Execution(
            workspace=finished.workspace,
            backends=backends,
            sizing=sizing_of(wanted, chosen),
            watcher=watcher,
            max_failed_rows=wanted.max_failed_rows,
            numerics_one=wanted.numerics == "one",
            reuse=wanted.reuse,
            should_stop=should_stop,
            on_change=say,
        )
        basis = basis_at(named, _LastStores(finished, execution), chosen, sources)
        try:
            work = [_Work(finished, basis, *each) for each in waiting]
            for each in work:  # all is told before any work
                say(each.line())
            for each in work:
                each.complete()
        finally:
            backends.close()


@dataclass
class _Work:
    """One grid of one query set."""

    finished: Finished
    basis: Basis
    query_set: str
    stages: Stages

    def __post_init__(self) -> None:
        """Open the model, and refuse another one than the recipe's pairs were scored with."""
        self.grid = grid_of(self.finished, self.query_set, self.stages)
        self.model = model_of(self.basis, self.stages.name, self.stages.duo)
        sides = self.basis.sides(self.query_set)
        base = score_base(self.model, sides.collection, sides.queries)
        _check_same(self.finished, self.stages, self.grid.pairs, base.without_derived())

    def line(self) -> str:
        """How much there is to score."""
        num, found = self.grid.num_rows, costs_of(self.finished, self.query_set, self.stages)
        time = "" if found.pair is None else f", {num * found.pair / 1000:,.0f} s as measured here"
        return f"{store_of(self.stages, self.query_set)}: {num:,} pairs to score{time}"

    def complete(self) -> None:
        """Score them."""
        scored(self.basis, store_of(self.stages, self.query_set), self.model, self.grid)


@dataclass(frozen=True)
class _LastStores:
    """The stores that the last invocation used, whatever the recipe's files hold by now."""

    finished: Finished
    execution: Execution

    def fixed(self, name: StoreName) -> Stored | None:
        """See Stores."""
        return self.finished.stored(name) if self.finished.has(name) else None

    def ensure(self, name: StoreName, stage: Stage) -> Stored:
        """See Stores."""
        return self.execution.ensure(name, stage)

    def find(self, name: StoreName, spec: StageSpec) -> Stored | None:
        """See Stores."""
        return self.execution.find(name, spec)


def _is_filled(finished: Finished, query_set: str, stages: Stages) -> bool:
    """Whether the store is complete, and referred to, so that gc keeps it for this workspace."""
    grid = grid_of(finished, query_set, stages)
    found = filled(finished, query_set, stages, grid)
    if found is None:
        return False
    return finished.workspace.refs().get(found.manifest.store) == found.manifest.fingerprint


@contextmanager
def _alone(finished: Finished) -> Iterator[None]:
    """Hold the workspace, as an invocation does, if it is still as it was read."""
    workspace = finished.workspace
    with ExitStack() as stack:
        try:
            stack.enter_context(working_in(workspace.folder, workspace.own, workspace.gone))
        except OSError as error:
            if error.errno not in _NOT_WRITTEN:
                raise
            raise InputError(
                f"{workspace.folder}: cannot be written ({error.strerror}), and --fill stores "
                "scores there; allow it, or copy the workspace with its stores and fill the copy"
            ) from error
        if standing_of(workspace.read_summary() or {}) != finished.summary:
            raise RefusedError(f"{workspace.folder}: its recipe was run meanwhile; fill again")
        workspace.settle()
        yield


def _check_same(finished: Finished, stages: Stages, pairs: Stored, base: object) -> None:
    """Refuse a model with which the recipe's pairs were not scored."""
    if pairs.spec.params["scores"] != base:
        raise InputError(
            f"{finished.workspace.folder}: the model {stages.duo.model}, or the tokenizers "
            f"library, is not the one with which {stages.name} was scored; run the recipe again "
            "with the same --out, then fill"
        )
