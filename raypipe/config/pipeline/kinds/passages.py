"""The stage that makes a run of passages from a run of their documents."""

from typing import Annotated, ClassVar, Literal

from raypipe.config.fields import Count, Name, Source
from raypipe.config.pipeline.kinds.kind import Kind, Reference
from raypipe.vocabulary import Unit

NUM_DOCUMENTS = 100


class Passages(Kind):
    """All passages of a run's first documents, for a reranker to score."""

    labels: ClassVar = {"passages": "run"}
    references: ClassVar = (Reference(("run",), "run"),)

    do: Literal["passages"]
    run: Name
    """An earlier stage that ranks documents."""
    documents: Annotated[Count, Source("TREC 2021 DL's official runs of documents")] = NUM_DOCUMENTS
    """Documents per query whose passages are taken."""
    at_most: Count | None = None
    """Passages of a document, the first ones; None means all."""

    @property
    def reads(self) -> Unit:
        """Documents."""
        return "documents"

    @property
    def inputs(self) -> tuple[str, ...]:
        """The run."""
        return (self.run,)
