"""The interface of a kind of stage to the recipe, its rules and the graph."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

from raypipe.config.fields import Section
from raypipe.config.parts import QuerySet
from raypipe.config.yaml import Problem
from raypipe.vocabulary import Unit

if TYPE_CHECKING:
    from raypipe.driver.recipe.graph import Graph

Produces = Literal["index", "run", "pairs"]
"""What a stage makes: what can be searched, a ranking, or a duoBERT model's scores of pairs."""


@dataclass(frozen=True, slots=True)
class Reference:
    """A key of a stage whose value names another part of the recipe."""

    key: tuple[str, ...]
    to: Literal["model", "query set"] | Produces
    """For `index`, `run` and `pairs`: an earlier stage that makes one."""
    where: Literal["value", "list", "keys"] = "value"
    """Whether the value is the name, a list of names, or a mapping with names as keys."""


@dataclass(frozen=True, slots=True)
class Around:
    """The recipe as the rules of a stage may read it; invalid parts are None."""

    queries: Mapping[str, QuerySet | None]
    """By name."""
    stages: Mapping[str, "Kind | None"]
    """By name, as written."""


class Kind(Section):
    """A stage; each kind overrides what differs.

    A stage as written may be resolved to another class that knows more: for example, a search
    becomes a BM25 search or a search by inner products.
    """

    do: str
    labels: ClassVar[Mapping[str, Produces]]
    """The names of this kind in messages, and what stages with that name make."""
    references: ClassVar[tuple[Reference, ...]] = ()

    @classmethod
    def label(cls, written: Mapping[str, Any]) -> str:
        """The label that applies to a stage as written, valid or not."""
        return next(iter(cls.labels))

    def problems(self, name: str, around: Around) -> Iterator[Problem]:
        """The broken rules of this stage; the names at `references` are checked elsewhere."""
        return iter(())

    def resolved(self, stages: Mapping[str, "Kind"]) -> "Kind":
        """The stage with every default filled in; `stages` are those above it, resolved."""
        return self

    def check(self, graph: "Graph", name: str) -> None:
        """Returns nothing if the stage's models fit it, before any work.

        Raises:
            InputError: one does not.
        """

    def needs_order(self, name: str, run: str, num_candidates: int) -> list[str]:
        """The problems of a `run` without ranks and scores, with so many candidates of a query."""
        return [f"{candidates_of(name, run)}, and {self.do} needs their order; score them first"]

    @property
    def produces(self) -> Produces:
        """An index, a run or pairs."""
        return self.labels[self.label(vars(self))]

    @property
    def ranks(self) -> Unit | Literal["as its runs"]:
        """The unit that a run of the stage ranks."""
        return "passages"

    @property
    def reads(self) -> Unit | Literal["as the first"]:
        """The unit that the runs rank that it reads; several rank the same."""
        return "passages"

    @property
    def inputs(self) -> tuple[str, ...]:
        """The stages whose output this one reads, in the order it reads them."""
        names: list[str] = []
        for reference in self.references:
            if reference.to in get_args(Produces):
                value = getattr(self, reference.key[0])
                names += [value] if isinstance(value, str) else value or ()
        return tuple(names)

    @property
    def scores_with(self) -> str | None:
        """The model with which the stage scores; None if it scores nothing."""
        return None


def candidates_of(name: str, run: str) -> str:
    """The beginning of a message about candidates without an order."""
    return f"stages.{name}: {run} has candidates without ranks and scores"


def absent(value: object, **default: object) -> dict[str, object]:
    """The default as an update, if there is no value; otherwise nothing."""
    return default if value is None else {}
