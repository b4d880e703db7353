"""Names of stores: immutable values, rendered to text once and never parsed again.

A recipe's own names hold lower-case letters, digits and hyphens, so `.` and `@` keep the parts of
a rendered name apart, whatever the names are:

    bm25.dev  embeddings  embeddings.dev       what a stage makes, including its query vectors
    parts@dense.dev  tune@bm25  centres@lists  a stage's intermediate results
    pieces@mono.dev  scores@mono.dev
    recall@near.dev                            of an approximate search, against exact search
    count@collection  passages@collection  ids@collection
    documents@collection  windows@collection  homes@collection  map@collection
    document-ids@collection                    of a collection whose passages are parts of documents
    queries@dev
    excluded@dev  excluded-documents@dev       what takes no place in its rankings
    tokens@minilm  tokens@minilm.dev           of the collection; of a training's query set
    examples@NAME  weights@NAME                of a training set; of a training
    weights@NAME.PHASE                         of a phase of a training
"""

from dataclasses import dataclass, field
from enum import Enum

ROOT_FOLDERS = ("blobs", "gc", "generations", "nonce", "proofs", "refs", "tmp")
"""The folders in every root of stores. These names are reserved: no stage may have one."""


class Thing(Enum):
    """The kinds of owner that a store can have."""

    COLLECTION = "collection"
    QUERIES = "queries"
    MODEL = "model"
    STAGE = "stage"
    TRAINING = "training"


class Role(Enum):
    """The part that a store plays for its owner. Each role belongs to one kind of owner."""

    COUNT = "count"
    PASSAGES = "passages"
    IDS = "ids"
    DOCUMENTS = "documents"
    WINDOWS = "windows"
    HOMES = "homes"
    MAP = "map"
    DOCUMENT_IDS = "document-ids"
    QUERIES = "queries"
    EXCLUDED = "excluded"
    EXCLUDED_DOCUMENTS = "excluded-documents"
    TOKENS = "tokens"
    PIECES = "pieces"
    SCORES = "scores"
    RESULT = ""
    """The result of a stage: an index, embeddings, a run or pairs."""
    PARTS = "parts"
    TUNE = "tune"
    CENTRES = "centres"
    RECALL = "recall"
    EXAMPLES = "examples"
    WEIGHTS = "weights"


_THINGS = {
    Role.COUNT: Thing.COLLECTION,
    Role.PASSAGES: Thing.COLLECTION,
    Role.IDS: Thing.COLLECTION,
    Role.DOCUMENTS: Thing.COLLECTION,
    Role.WINDOWS: Thing.COLLECTION,
    Role.HOMES: Thing.COLLECTION,
    Role.MAP: Thing.COLLECTION,
    Role.DOCUMENT_IDS: Thing.COLLECTION,
    Role.QUERIES: Thing.QUERIES,
    Role.EXCLUDED: Thing.QUERIES,
    Role.EXCLUDED_DOCUMENTS: Thing.QUERIES,
    Role.TOKENS: Thing.MODEL,
    Role.RESULT: Thing.STAGE,
    Role.PARTS: Thing.STAGE,
    Role.PIECES: Thing.STAGE,
    Role.SCORES: Thing.STAGE,
    Role.TUNE: Thing.STAGE,
    Role.CENTRES: Thing.STAGE,
    Role.RECALL: Thing.STAGE,
    Role.EXAMPLES: Thing.TRAINING,
    Role.WEIGHTS: Thing.TRAINING,
}


@dataclass(frozen=True, slots=True)
class StoreName:
    """A store's name; `str` gives its folder under the root of the stores."""

    role: Role
    owner: str
    """Name of the stage, model, query set, training set or training; `collection` for the
    collection."""
    query_set: str | None = None
    phase: str | None = None
    """A training's phase."""
    _rendered: str = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        """Render the name once."""
        marked = f"{self.role.value}@" if self.role is not Role.RESULT else ""
        query_set = f".{self.query_set}" if self.query_set is not None else ""
        phase = f".{self.phase}" if self.phase is not None else ""
        rendered = f"{marked}{self.owner}{query_set}{phase}"
        object.__setattr__(self, "_rendered", rendered)

    @property
    def thing(self) -> Thing:
        """The kind of owner that the store has."""
        return _THINGS[self.role]

    def __str__(self) -> str:
        return self._rendered


def of_collection(role: Role) -> StoreName:
    """The name of one of the collection's stores: COUNT, PASSAGES, IDS, DOCUMENTS, ..."""
    return StoreName(role, Thing.COLLECTION.value)


def of_queries(query_set: str, role: Role = Role.QUERIES) -> StoreName:
    """The name of one of a query set's stores: QUERIES, or what its rankings leave out."""
    return StoreName(role, query_set)


def of_stage(name: str, query_set: str | None = None, role: Role = Role.RESULT) -> StoreName:
    """The name of what a stage makes, for one query set or once for all of them."""
    return StoreName(role, name, query_set)


def tokens_of(model: str, query_set: str | None = None) -> StoreName:
    """The name of a model's word pieces, of the collection or of a query set."""
    return StoreName(Role.TOKENS, model, query_set)


def of_training(role: Role, name: str, phase: str | None = None) -> StoreName:
    """The name of a training set's EXAMPLES or a training's WEIGHTS; of one of its phases."""
    return StoreName(role, name, phase=phase)
