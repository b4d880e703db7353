"""The chain of a workspace: collection, stores, runs and measures, each with its fingerprint."""

from collections.abc import Iterator

from raypipe.analysis.section import Table, Value
from raypipe.driver.analysis.finished import Finished

SHOWN = 12
"""Characters of a fingerprint or hash."""
COLUMNS = (
    "what", "name", "made from", "fingerprint", "rows", "copied", "shards", "quarantined",
    "coverage", "seconds",
)  # fmt: skip


def chain(finished: Finished) -> Table:
    """Collection, stores in the order in which they were made, run files, files of measures.

    Rows are those of a store. `seconds` says `reused` of a store that an earlier invocation had
    made, and nothing of a file. The fingerprint of a file is its SHA-256.
    """
    rows = [*_inputs(finished), *_stores(finished), *_files(finished)]
    return Table("From the collection to the measures", COLUMNS, rows)


def _inputs(finished: Finished) -> Iterator[list[Value]]:
    """The collection's files and those of the query sets, as the recipe names them."""
    recipe = finished.recipe
    named: list[tuple[str, str, list[str]]] = []
    named.append(("collection", recipe.collection.format, [*recipe.collection.input]))
    for name, queries in recipe.queries.items():
        files = [each for each in (queries.file, queries.qrels) if each is not None]
        named.append(("queries", name, files))
    for what, name, files in named:
        yield [what, name, ", ".join(map(str, files)) or None, *[None] * (len(COLUMNS) - 3)]


def _stores(finished: Finished) -> Iterator[list[Value]]:
    places = dict(place.split("/") for place in finished.summary["stores"])
    for name, told in finished.summary["stages"].items():
        fingerprint = told["fingerprint"]
        origins = finished.origins(name) if name in places else []
        yield [
            "store",
            name,
            ", ".join(origins) or None,
            fingerprint[:SHOWN],
            told["rows"],
            told["copied"],
            told["shards"]["planned"],
            told["shards"]["quarantined"],
            told["coverage"],
            "reused" if told["reused"] else told["seconds"],
        ]


def _files(finished: Finished) -> Iterator[list[Value]]:
    """The TREC runs, and what was measured of them."""
    hashes, (trec, *_) = finished.summary["files"], finished.recipe.runs.endings
    for query_set, systems in finished.summary["systems"].items():
        for system in systems:
            file = f"runs/{query_set}/{system}.{trec}"
            if file in hashes:
                yield _file("run", file, f"{system}.{query_set}", hashes[file])
        file = f"measures/{query_set}.tsv"
        if file in hashes:
            below = ", ".join(f"runs/{query_set}/{system}.{trec}" for system in systems)
            yield _file("measures", file, below, hashes[file])


def _file(what: str, name: str, made_from: str, sha256: str) -> list[Value]:
    return [what, name, made_from, sha256[:SHOWN], *[None] * (len(COLUMNS) - 4)]
