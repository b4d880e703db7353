"""A Lucene index of the collection."""

from typing import Annotated, ClassVar, Literal

from raypipe.config.fields import Source
from raypipe.config.pipeline.kinds.kind import Kind
from raypipe.vocabulary import Language


class Index(Kind):
    """A Lucene index of the collection."""

    labels: ClassVar = {"index": "index"}

    do: Literal["index"]
    language: Annotated[Language, Source("Anserini and Pyserini")] = "en"
    """Whose analyzer makes the words of passages and queries."""
