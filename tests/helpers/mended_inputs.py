"""Names of the inputs that are damaged and mended."""

COLLECTION, QUERIES, QRELS, RUN = "passages.tsv", "queries.tsv", "qrels.txt", "run.trec"


def written(folder):
    """What an invocation leaves for its user, by path."""
    kept = [*folder.glob("runs/*/*"), *folder.glob("measures/*"), folder / "table.md"]
    return {path.relative_to(folder): path.read_bytes() for path in kept if path.suffix != ".md"}


def appended(text):
    return lambda path: path.write_bytes(path.read_bytes() + text)
