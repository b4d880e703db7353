"""The stage that computes embeddings of the collection."""

from typing import ClassVar, Literal

from raypipe.config.fields import Name
from raypipe.config.pipeline.kinds.kind import Kind, Reference


class Encode(Kind):
    """Embeddings of the collection, one per passage."""

    labels: ClassVar = {"encode": "index"}
    references: ClassVar = (Reference(("model",), "model"),)

    do: Literal["encode"]
    model: Name
