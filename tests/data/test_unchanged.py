from pathlib import Path

import pytest

from raypipe.data.facts import check_unchanged, count_file
from raypipe.errors import CorruptError


def write(folder: Path, content: bytes, name: str = "collection.tsv") -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def test_a_file_that_grew_is_found_by_its_length(tmp_path):
    path = write(tmp_path, b"0\ta\n1\tb\n")
    facts = count_file(path, format="msmarco-v1", checkpoint_records=2)
    check_unchanged(path, facts, 0, 2)
    write(tmp_path, b"0\ta\n1\tb\n2\tc\n")
    with pytest.raises(CorruptError, match="8 bytes expected, 12 found"):
        check_unchanged(path, facts, 0, 2)
    path.unlink()
    with pytest.raises(CorruptError, match="not the file that was counted: it is gone"):
        check_unchanged(path, facts, 0, 2)
