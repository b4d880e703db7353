import faiss
import pytest

from raypipe.engines.ann import read_index, write_index
from raypipe.engines.ann_settings import faiss_class, faiss_version
from raypipe.errors import CorruptError


def test_an_index_that_cannot_be_written_or_read_is_an_error_of_storage(tmp_path):
    with pytest.raises(OSError, match="faiss could not write it"):
        write_index(faiss.IndexFlatIP(3), tmp_path / "missing" / "index")
    (tmp_path / "damaged").write_bytes(b"no index")
    with pytest.raises(CorruptError, match="damaged: not an index"):
        read_index(tmp_path / "damaged")
    write_index(faiss.IndexFlatIP(3), tmp_path / "index")
    assert read_index(tmp_path / "index").d == 3


def test_the_class_names_the_version_and_the_instructions():
    name, version, level = faiss_class().split()
    assert (name, version) == ("faiss", faiss.__version__) == ("faiss", faiss_version())
    assert level == faiss.SIMDConfig.get_level_name()
