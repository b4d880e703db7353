"""Results tables in the format that is asked for, printed or in a file."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from raypipe.driver.analysis.finished import Finished
from raypipe.driver.results.latex import latex
from raypipe.driver.results.plain import as_csv, as_json, markdown
from raypipe.driver.results.results import Results
from raypipe.errors import InputError
from raypipe.storage.files import replace_file

FORMATS: Mapping[str, Callable[[Sequence[Results]], str]] = {
    "md": markdown,
    "csv": as_csv,
    "latex": latex,
    "json": as_json,
}


def in_format(tables: Sequence[Results], name: str) -> str:
    """The tables in one of `FORMATS`, with a line break at the end."""
    return FORMATS[name](tables)


def write_beside(finished: Finished, out: Path, text: str) -> Path:
    """The file, written, or replaced if it was there.

    Raises:
        InputError: it is a folder, in no folder, or a file of the workspace that `verify` compares.
    """
    folder = finished.workspace.folder
    own = {(folder / name).resolve() for name in (*finished.summary["files"], "summary.json")}
    if out.is_dir() or not out.absolute().parent.is_dir():
        raise InputError(f"--out {out}: expected a file in a folder that exists")
    if out.resolve() in own:
        raise InputError(f"--out {out}: a file of the workspace itself; name another")
    replace_file(out, text.encode())
    return out
