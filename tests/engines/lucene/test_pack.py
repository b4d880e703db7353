import hashlib
import tarfile

import numpy as np
import pytest
from zebra_texts import TEXTS, table

from raypipe.engines.lucene.index import build_index, pack_folder, unpack_folder
from raypipe.engines.lucene.search import LuceneSearcher


@pytest.mark.jvm
@pytest.mark.slow
def test_two_builds_have_the_same_bytes(zebra_index, tmp_path):
    halves = [table(TEXTS).slice(0, 3), table(TEXTS).slice(3)]
    build_index(lambda: halves, tmp_path / "index")
    for number, built in enumerate((zebra_index, tmp_path / "index")):
        pack_folder(built, tmp_path / f"{number}.tar")
    packed = [(tmp_path / f"{number}.tar").read_bytes() for number in range(2)]
    assert hashlib.sha256(packed[0]).digest() == hashlib.sha256(packed[1]).digest()


@pytest.mark.jvm
@pytest.mark.slow
def test_a_packed_index_is_searched_as_before(zebra_index, tmp_path):
    pack_folder(zebra_index, tmp_path / "packed")
    unpack_folder(tmp_path / "packed", tmp_path / "again")
    found = LuceneSearcher(tmp_path / "again").search("zebra", k1=0.9, b=0.4, depth=10)
    expected = LuceneSearcher(zebra_index).search("zebra", k1=0.9, b=0.4, depth=10)
    assert all(np.array_equal(a, b) for a, b in zip(found, expected, strict=True))


@pytest.mark.parametrize("name", ["../above", "/absolute", "folder/below", "link", "folder"])
def test_what_is_no_plain_file_of_the_folder_is_refused_and_not_written(tmp_path, name):
    kind = {"link": tarfile.SYMTYPE, "folder": tarfile.DIRTYPE}.get(name, tarfile.REGTYPE)
    with tarfile.open(tmp_path / "packed", "w") as archive:
        entry = tarfile.TarInfo(name)
        entry.type, entry.linkname = kind, "/etc/passwd" if name == "link" else ""
        archive.addfile(entry)
    with pytest.raises(ValueError, match=f"packed: expected plain files, found '{name}'"):
        unpack_folder(tmp_path / "packed", tmp_path / "out")
    assert {path.name for path in tmp_path.rglob("*")} == {"packed", "out"}
