import os

import pytest

from raypipe.evaluation.run_files.files import replacing


def test_an_error_leaves_the_old_file(tmp_path):
    path = tmp_path / "table"
    path.write_bytes(b"old")
    with pytest.raises(RuntimeError), replacing(path) as out:
        out.write(b"half of the new")
        raise RuntimeError
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["table"]
