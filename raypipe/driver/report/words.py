"""What a store holds, in the names of the recipe, for people who wait for it."""

from raypipe.names import Role, StoreName

WORDS = {
    Role.COUNT: "counting",
    Role.PASSAGES: "passages",
    Role.IDS: "ids",
    Role.HASHES: "hashes of the texts",
    Role.DOCUMENTS: "documents",
    Role.WINDOWS: "windows",
    Role.HOMES: "the document of each passage",
    Role.MAP: "the passages of each document",
    Role.DOCUMENT_IDS: "ids of the documents",
    Role.QUERIES: "queries",
    Role.TOKENS: "word pieces",
    Role.PIECES: "word pieces of the candidates",
    Role.SCORES: "scores",
    Role.RESULT: "",
    Role.PARTS: "in parts",
    Role.TUNE: "tuning",
    Role.FILLED: "what the grid lacks",
    Role.FILLED_PIECES: "word pieces of what the grid lacks",
    Role.CENTRES: "centres",
    Role.RECALL: "recall against exact search",
    Role.EXAMPLES: "examples",
    Role.WEIGHTS: "weights",
}
"""Role of a store -> what stands behind the name of its owner."""


def words_of(name: StoreName) -> str:
    """`dense on test`, `mono on dev: scores`, `collection: ids`."""
    owner = name.owner if name.phase is None else f"{name.owner}, phase {name.phase}"
    owner += "" if name.query_set is None else f" on {name.query_set}"
    what = WORDS[name.role]
    return f"{owner}: {what}" if what else owner
