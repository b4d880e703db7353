"""The relevant documents of a training set as a run file, so that a model can score them."""

from pathlib import Path

from raypipe.config.training import TrainingSet
from raypipe.data.qrels import read_qrels
from raypipe.data.queries import read_queries
from raypipe.errors import InputError
from raypipe.storage.files import replace_file


def relevant_file(folder: Path, name: str) -> Path:
    """The run file of a training set."""
    return folder / f"{name}.trec"


def write_relevant(folder: Path, name: str, wanted: TrainingSet) -> Path:
    """Write the run: the documents of each query with a relevant grade, in the order of the qrels.

    Raises:
        InputError: no query of the set has one.
    """
    assert wanted.queries is not None and wanted.qrels is not None
    known = {query_id for query_id, _ in read_queries(Path(wanted.queries))}
    qrels = read_qrels(Path(wanted.qrels))
    columns = (qrels[column].to_pylist() for column in ("query_id", "passage_id", "relevance"))
    found: dict[str, list[str]] = {}
    for query_id, document_id, grade in zip(*columns, strict=True):
        if grade >= wanted.min_grade and query_id in known:
            found.setdefault(query_id, []).append(document_id)
    if not found:
        raise InputError(
            f"{wanted.qrels}: no judgement of grade {wanted.min_grade} or higher for a query of "
            f"{wanted.queries}"
        )
    lines = [
        f"{query_id} Q0 {document_id} {rank} {-rank} relevant\n"
        for query_id, documents in found.items()
        for rank, document_id in enumerate(documents, 1)
    ]
    folder.mkdir(parents=True, exist_ok=True)
    path = relevant_file(folder, name)
    replace_file(path, "".join(lines).encode())
    return path
