"""A Lucene index of the collection."""

from typing import ClassVar, Literal

from raypipe.config.pipeline.kinds.kind import Kind


class Index(Kind):
    """A Lucene index of the collection."""

    labels: ClassVar = {"index": "index"}

    do: Literal["index"]
