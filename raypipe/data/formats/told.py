"""Which format a collection has, by the names of its files and their first lines."""

from pathlib import Path

from raypipe import foreign
from raypipe.data.files.compression import open_binary
from raypipe.data.files.inputs import natural_key, plain_name
from raypipe.data.files.records import lines
from raypipe.data.formats.fields import json_object
from raypipe.errors import InputError

EXPECTED = (
    "lines of id TAB text (.tsv), a header such as docno,text (.csv), JSON lines (.jsonl), "
    "Parquet, plain lines (.txt), a BEIR folder or irds:ID"
)
_SUFFIXES = (".tsv", ".csv", ".jsonl", ".json", ".parquet", ".txt")


def format_of(path: Path) -> str:
    """The format's name, of a file or of a folder by its first file with a known ending.

    Raises:
        InputError: no such file, or no format of passages; the message says what is expected.
    """
    if not path.exists():
        raise InputError(f"{path}: no such collection")
    if path.is_dir():
        inside = sorted((p for p in path.iterdir() if p.is_file()), key=natural_key)
        if any(plain_name(file) == "corpus.jsonl" for file in inside):
            return "beir"
        known = [file for ending in _SUFFIXES for file in inside if _ending(file) == ending]
        if not known:
            raise InputError(f"{path}: its format is unknown; expected {EXPECTED}")
        path = known[0]
    return _of_file(path)


def _of_file(path: Path) -> str:
    with open_binary(path) as stream:
        if stream.peek(4)[:4] == b"PAR1":  # type: ignore[attr-defined]
            return "parquet"
        first = next(lines(stream, name=str(path)), b"")
    ending = _ending(path)
    if not first and ending in (".jsonl", ".json"):
        return "pyserini"  # which finds no record
    if first.startswith(b"{") and ending != ".tsv":
        return _of_json(first)
    header = foreign.header_of(first, foreign.PASSAGES, "passage_id", "text")
    if header is not None and header.separator != " ":
        return "csv"
    if ending == ".tsv" or (ending != ".csv" and b"\t" in first):
        return "msmarco-v1"
    if ending == ".txt":
        return "txt"
    shown = repr(first[:60].decode(errors="replace"))
    raise InputError(
        f"{path}: its format is unknown; expected {EXPECTED}; its first line is {shown}; "
        "`raypipe prepare --format` reads others"
    )


def _of_json(line: bytes) -> str:
    try:
        fields = json_object(line)
    except ValueError:
        return "jsonl"
    if "contents" in fields:
        return "pyserini"
    if {"pid", "passage"} <= fields.keys():
        return "msmarco-v2"
    return "beir" if {"_id", "text"} <= fields.keys() else "jsonl"


def _ending(path: Path) -> str:
    return Path(plain_name(path)).suffix.lower()
