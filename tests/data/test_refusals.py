r"""The table refusals.txt: `reader: content`, and below it every problem of a file of that content.

The content has Python's escapes, such as \n and \xff, a byte each.
`PYTHONPATH=tests/helpers python tests/data/test_refusals.py --write` writes the problems anew.
"""

import tempfile
from pathlib import Path

import pytest
from tables_of_text import write_anew, written

from raypipe.data.formats.registry import FORMATS
from raypipe.data.qrels import read_qrels
from raypipe.data.queries import EXPECTED, read_queries
from raypipe.data.reading import first_problems
from raypipe.errors import InputError
from raypipe.evaluation.run_files.runs import read_run

TABLE = Path(__file__).with_name("refusals.txt")


def objects(path: Path) -> None:
    kind = FORMATS["pyserini"]
    if problems := first_problems([path], kind, kind.parse, "strict"):
        raise InputError(problems)


READERS = {
    "qrels": (read_qrels, "qrels.txt"),
    "queries": (read_queries, "queries.tsv"),
    "topics": (read_queries, "topics"),
    "run": (read_run, "run"),
    "objects": (objects, "a.json"),
}


def problems(case: str) -> list[str]:
    """The problems of a file, without its folder."""
    reader, _, content = case.partition(": ")
    read, name = READERS[reader]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, name)
        path.write_bytes(content.encode().decode("unicode_escape").encode("latin-1"))
        try:
            read(path)
        except InputError as error:
            told = [problem.replace(f"{folder}/", "") for problem in error.problems]
            told = [line.replace(f"query files may be {EXPECTED}", "<forms>") for line in told]
            return [line.encode("unicode_escape").decode() for line in told]
    return ["read"]


def now(text: str) -> str:
    return written(text, problems)


@pytest.mark.fault(40, "lines of 5 and 4 columns are named by their numbers, with 100 other files")
def test_each_file_is_refused_with_every_problem_by_its_place():
    assert now(TABLE.read_text()) == TABLE.read_text()
    assert "\n    read\n" not in TABLE.read_text()


if __name__ == "__main__":
    write_anew(TABLE, now)
