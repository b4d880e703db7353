"""What each kind of stage tells the rest of the configuration."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol, Self

from raypipe.config.fields import Section
from raypipe.config.pipeline.parts import QuerySet
from raypipe.config.yaml.document import Problem

Produces = Literal["index", "run", "pairs"]
"""What a stage makes: what can be searched, a ranking, or a duoBERT model's scores of pairs."""
Locate = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class Reference:
    """A key of a stage whose text names something else in the recipe."""

    key: tuple[str, ...]
    to: Literal["model", "query set"] | Produces
    """With `index`, `run` and `pairs` an earlier stage that makes one."""
    where: Literal["value", "list", "keys"] = "value"
    """Whether the name is the value, or each entry of a list, or each key of a mapping."""


class Around(Protocol):
    """What the rules of a stage may look at: the recipe, of which parts may be None, unsound."""

    @property
    def queries(self) -> Mapping[str, QuerySet | None]:
        """Query sets by name."""

    @property
    def stages(self) -> Mapping[str, "Kind | None"]:
        """Stages by name, as written."""


class Kind(Section):
    """A stage; a kind overrides what differs.

    A stage as written may be resolved to one of another class, which knows more: what is searched
    by BM25 and what by inner products are two.
    """

    do: str
    labels: ClassVar[Mapping[str, Produces]]
    """What messages call stages of this kind, and what those make."""
    references: ClassVar[tuple[Reference, ...]] = ()

    @classmethod
    def label(cls, written: Mapping[str, Any]) -> str:
        """The one of the labels for a stage as written, sound or not."""
        return next(iter(cls.labels))

    def problems(self, name: str, around: Around) -> Iterator[Problem]:
        """The broken rules of this stage; what `references` names is checked elsewhere."""
        return iter(())

    def resolved(self, stages: Mapping[str, "Kind"]) -> "Kind":
        """The stage with every default filled in; `stages` are those above it, resolved."""
        return self

    @property
    def produces(self) -> Produces:
        """What the stage makes."""
        return self.labels[self.label(vars(self))]

    @property
    def inputs(self) -> tuple[str, ...]:
        """The stages whose output this one reads, in the order it reads them."""
        return ()

    @property
    def scores_with(self) -> str | None:
        """The model whose growing table of scores the stage adds to."""
        return None

    def located(self, locate: Locate) -> Self:
        """The stage with its paths made absolute."""
        return self

    def files(self) -> Iterator[tuple[str, str, str]]:
        """(key within the stage, path or URI, what is expected there) of each file it reads."""
        return iter(())


def absent(value: object, **default: object) -> dict[str, object]:
    """The default where there is no value, as an update."""
    return default if value is None else {}
