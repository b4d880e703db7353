"""The stage in which a reranker scores the first candidates of a run."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal

from raypipe.config.fields import OWN, Count, Name, NotNegative, Seed, Source
from raypipe.config.pipeline.kinds.kind import Around, Kind, Produces, Reference
from raypipe.config.yaml.document import Problem
from raypipe.vocabulary import K0, K1, ScoreScale, Tail

_K0 = Source("Nogueira et al. 2019: 1,000 candidates", value=K0)
_K1 = Source("Nogueira et al. 2019: 50 candidates", value=K1, default=False)
PAIRS = "score with k1"
"""The name, in messages, of a score stage whose output is pairs."""


class Score(Kind):
    """Scores the first candidates of a run: a monoBERT model makes a run, a duoBERT model pairs."""

    labels: ClassVar = {"score": "run", PAIRS: "pairs"}
    references: ClassVar = (Reference(("model",), "model"), Reference(("run",), "run"))

    do: Literal["score"]
    run: Name
    """An earlier run stage."""
    model: Name
    k0: Annotated[Count | None, _K0] = None
    """Candidates per query for a monoBERT model; the output is a run."""
    k1: Annotated[Count | None, _K1] = None
    """Candidates per query whose ordered pairs a duoBERT model scores; the output is pairs."""
    sample: Count | None = None
    """Number of a duoBERT model's pairs to draw for each candidate, without replacement."""
    seed: Annotated[Seed, Source(OWN)] = 0
    """The seed of the draw."""
    score: ScoreScale | None = None
    """The scale of a monoBERT model's scores; None means that of the model's settings."""
    blend: NotNegative | None = None
    """The weight a of the run's own order in a monoBERT model's ranking: it is by a z + f, where z
    is the run's score, min-max over a query's first k0, and f the model's log odds. None means that
    of the model's settings, 0 none."""
    tail: Annotated[Tail, Source(OWN)] = "keep"
    """Whether candidates below k0 are kept below the others, in their order."""

    @classmethod
    def label(cls, written: Mapping[str, Any]) -> str:
        """The label of this stage: scores of pairs have a label of their own."""
        return "score" if written.get("k1") is None else PAIRS

    def problems(self, name: str, around: Around) -> Iterator[Problem]:
        """Checks that k0, k1 and each option are given for the right kind of model."""
        key = ("stages", name)
        if self.k0 is not None and self.k1 is not None:
            text = "found k0 (for a monoBERT model) and k1 (for a duoBERT model); remove one"
            yield Problem((*key, "k1"), text)
        if self.k1 is None and self.sample is not None:
            yield Problem((*key, "sample"), "for a duoBERT model only; give k1, or remove it")
        if self.k1 is not None and self.score is not None:
            yield Problem((*key, "score"), "a duoBERT model's is always the probability; remove it")
        if self.k1 is not None and self.blend is not None:
            yield Problem((*key, "blend"), "for a monoBERT model only; remove it")
        if self.k1 == 1:
            yield Problem((*key, "k1"), "one candidate makes no pair; expected 2 or more")

    def resolved(self, stages: Mapping[str, Kind]) -> Kind:
        """The stage of a monoBERT or of a duoBERT model."""
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
    """Reorders a run's first k0 candidates by a monoBERT model's scores."""

    labels: ClassVar[Mapping[str, Produces]] = {"score": "run"}

    k0: Annotated[Count, _K0]
    seed: Annotated[Seed, Source(OWN)] = 0
    """No effect on the scores; kept as written."""
    score: ScoreScale | None = None
    blend: NotNegative | None = None
    tail: Annotated[Tail, Source(OWN)] = "keep"


class DuoScore(_Resolved):
    """Scores every ordered pair of a run's first k1 candidates, or a draw of the pairs."""

    labels: ClassVar[Mapping[str, Produces]] = {PAIRS: "pairs"}

    k1: Annotated[Count, _K1]
    sample: Count | None = None
    seed: Annotated[Seed, Source(OWN)] = 0
    tail: Annotated[Tail, Source(OWN)] = "keep"
    """No effect on the pairs; kept as written."""
