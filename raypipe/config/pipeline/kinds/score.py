"""A run's first candidates scored by a reranker."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal

from raypipe.config.fields import OWN, Count, Name, Seed, Source
from raypipe.config.pipeline.kinds.kind import Around, Kind, Produces, Reference
from raypipe.config.yaml.document import Problem
from raypipe.vocabulary import K0, K1, ScoreScale, Tail

_K0 = Source("Nogueira et al. 2019: 1,000 candidates", value=K0)
_K1 = Source("Nogueira et al. 2019: 50 candidates", value=K1, default=False)
PAIRS = "score with k1"
"""What messages call a score stage whose output is pairs."""


class Score(Kind):
    """A run's first candidates scored: a run of a monoBERT model, pairs of a duoBERT model."""

    labels: ClassVar = {"score": "run", PAIRS: "pairs"}
    references: ClassVar = (Reference(("model",), "model"), Reference(("run",), "run"))

    do: Literal["score"]
    run: Name
    """An earlier run stage."""
    model: Name
    k0: Annotated[Count | None, _K0] = None
    """Candidates a query, for a monoBERT model; its output is a run."""
    k1: Annotated[Count | None, _K1] = None
    """Candidates a query whose ordered pairs a duoBERT model scores; its output is pairs."""
    sample: Count | None = None
    """Of a duoBERT model's pairs, so many drawn for each candidate, without replacement."""
    seed: Annotated[Seed, Source(OWN)] = 0
    """Of the draw."""
    score: ScoreScale | None = None
    """A monoBERT model's; None: as the model's conventions say."""
    tail: Annotated[Tail, Source(OWN)] = "keep"
    """Whether candidates below k0 stay below, in their order."""

    @classmethod
    def label(cls, written: Mapping[str, Any]) -> str:
        """A score of pairs is one apart."""
        return "score" if written.get("k1") is None else PAIRS

    def problems(self, name: str, around: Around) -> Iterator[Problem]:
        """A mono has k0, a duo k1; what is for the one is not for the other."""
        key = ("stages", name)
        if self.k0 is not None and self.k1 is not None:
            text = "found k0 (of a mono model) and k1 (of a duo model); remove one of them"
            yield Problem((*key, "k1"), text)
        if self.k1 is None and self.sample is not None:
            yield Problem((*key, "sample"), "for a duo model only; give k1, or remove it")
        if self.k1 is not None and self.score is not None:
            yield Problem((*key, "score"), "a duo's is always the probability; remove it")
        if self.k1 == 1:
            yield Problem((*key, "k1"), "one candidate makes no pair; expected 2 or more")

    def resolved(self, stages: Mapping[str, Kind]) -> Kind:
        """A mono's or a duo's."""
        given = vars(self)
        if self.k1 is None:
            mono = {name: given[name] for name in MonoScore.model_fields}
            return MonoScore.model_validate(mono | {"k0": K0 if self.k0 is None else self.k0})
        return DuoScore.model_validate({name: given[name] for name in DuoScore.model_fields})

    @property
    def inputs(self) -> tuple[str, ...]:
        """The run."""
        return (self.run,)


class _Resolved(Kind):
    do: Literal["score"]
    run: Name
    model: Name

    @property
    def inputs(self) -> tuple[str, ...]:
        """The run."""
        return (self.run,)

    @property
    def scores_with(self) -> str | None:
        """The model."""
        return self.model


class MonoScore(_Resolved):
    """A run's first k0 candidates in the order of a monoBERT model's scores."""

    labels: ClassVar[Mapping[str, Produces]] = {"score": "run"}

    k0: Annotated[Count, _K0]
    seed: Annotated[Seed, Source(OWN)] = 0
    """Of no effect on the scores; kept as written."""
    score: ScoreScale | None = None
    tail: Annotated[Tail, Source(OWN)] = "keep"


class DuoScore(_Resolved):
    """Every ordered pair of a run's first k1 candidates, or a draw of them."""

    labels: ClassVar[Mapping[str, Produces]] = {PAIRS: "pairs"}

    k1: Annotated[Count, _K1]
    sample: Count | None = None
    seed: Annotated[Seed, Source(OWN)] = 0
    tail: Annotated[Tail, Source(OWN)] = "keep"
    """Of no effect on the pairs; kept as written."""
