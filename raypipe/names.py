"""Names of stores: values, rendered once, never taken apart again.

A recipe's own names hold lower-case letters, digits and hyphens, so `.` and `@` keep the parts of
a rendered name apart, whatever the names are:

    bm25.dev  embeddings  embeddings.dev       what a stage makes, its query vectors included
    parts@dense.dev  tune@bm25                 what a stage makes on the way
    count@collection  passages@collection  ids@collection
    queries@dev
    tokens@minilm  tokens@minilm.dev           of the collection, of a query set
    candidates@mono.dev.1  pieces@mono.dev.1  scores@mono.dev.1
    examples@NAME  weights@NAME                of a training set, of a training
"""

from dataclasses import dataclass, field
from enum import Enum

ROOT_FOLDERS = ("blobs", "generations", "nonce", "refs", "tmp")
"""Folders of every store root; no stage may have such a name. The one list of what is reserved."""


class Thing(Enum):
    """What a store belongs to."""

    COLLECTION = "collection"
    QUERIES = "queries"
    MODEL = "model"
    STAGE = "stage"
    TRAINING = "training"


class Role(Enum):
    """Which of its owner's stores it is; each belongs to one thing alone."""

    COUNT = "count"
    PASSAGES = "passages"
    IDS = "ids"
    QUERIES = "queries"
    TOKENS = "tokens"
    CANDIDATES = "candidates"
    PIECES = "pieces"
    SCORES = "scores"
    RESULT = ""
    """A stage's own: an index, embeddings, a run, pairs."""
    PARTS = "parts"
    TUNE = "tune"
    EXAMPLES = "examples"
    WEIGHTS = "weights"


_THINGS = {
    Role.COUNT: Thing.COLLECTION,
    Role.PASSAGES: Thing.COLLECTION,
    Role.IDS: Thing.COLLECTION,
    Role.QUERIES: Thing.QUERIES,
    Role.TOKENS: Thing.MODEL,
    Role.CANDIDATES: Thing.MODEL,
    Role.PIECES: Thing.MODEL,
    Role.SCORES: Thing.MODEL,
    Role.RESULT: Thing.STAGE,
    Role.PARTS: Thing.STAGE,
    Role.TUNE: Thing.STAGE,
    Role.EXAMPLES: Thing.TRAINING,
    Role.WEIGHTS: Thing.TRAINING,
}


@dataclass(frozen=True, slots=True)
class StoreName:
    """A store's name; `str` gives the folder that it has under the root of the stores."""

    role: Role
    owner: str
    """The stage, model, query set, training set or training; `collection` of the collection."""
    query_set: str | None = None
    number: int | None = None
    """Which of a growing table's parts, from 1."""
    _rendered: str = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        """Render once."""
        marked = f"{self.role.value}@" if self.role is not Role.RESULT else ""
        query_set = f".{self.query_set}" if self.query_set is not None else ""
        number = f".{self.number}" if self.number is not None else ""
        object.__setattr__(self, "_rendered", f"{marked}{self.owner}{query_set}{number}")

    @property
    def thing(self) -> Thing:
        """What the store belongs to."""
        return _THINGS[self.role]

    def __str__(self) -> str:
        return self._rendered


def of_collection(role: Role) -> StoreName:
    """COUNT, PASSAGES or IDS of the collection."""
    return StoreName(role, Thing.COLLECTION.value)


def of_queries(query_set: str) -> StoreName:
    """A query set."""
    return StoreName(Role.QUERIES, query_set)


def of_stage(name: str, query_set: str | None = None, role: Role = Role.RESULT) -> StoreName:
    """What a stage makes: of a query set, or once for all of them."""
    return StoreName(role, name, query_set)


def tokens_of(model: str, query_set: str | None = None) -> StoreName:
    """Word pieces of the collection, or of a query set."""
    return StoreName(Role.TOKENS, model, query_set)


def scoring_of(role: Role, model: str, query_set: str, number: int) -> StoreName:
    """CANDIDATES, PIECES or SCORES: a part of the growing table of a model's scores."""
    return StoreName(role, model, query_set, number)


def of_training(role: Role, name: str) -> StoreName:
    """EXAMPLES of a training set, WEIGHTS of a training."""
    return StoreName(role, name)
