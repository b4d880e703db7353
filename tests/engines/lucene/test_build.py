"""What Lucene's program leaves: one segment in row order, the same wherever it is made."""

import json

import numpy as np
import pytest
from lucene_here import built_here
from zebra_texts import TEXTS

from raypipe.engines.lucene import build
from raypipe.engines.lucene.index import IMPACTS, ROWS_FILE
from raypipe.engines.lucene.java import open_reader, start_jvm
from raypipe.engines.lucene.search import LuceneSearcher

pytestmark = pytest.mark.jvm
FILLED = [0, 2, 4, 5, 6]


def content_of(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def first_document(folder):
    lucene = start_jvm()
    return lucene, open_reader(lucene, str(folder)).storedFields().document(0)


@pytest.mark.slow
def test_an_index_has_the_same_bytes_in_a_process_that_made_others(
    zebra_index, tmp_path, monkeypatch
):
    monkeypatch.setattr(build, "IDS_AT_ONCE", 2)
    ids = [f"p{row}" for row in FILLED]
    texts = [TEXTS[row] for row in FILLED]
    for name in ("one", "two"):
        folder, read = built_here(tmp_path / name, texts, ids=ids, rows=FILLED)
        assert read == [["p0", "p2"], ["p4", "p5"], ["p6"]]
        assert content_of(folder) == content_of(zebra_index)
        assert not list((tmp_path / name / "texts").iterdir())
    # Positions, vectors and texts are kept for pyserini, in files of their own.
    assert {".pos", ".tvd", ".fdt"} <= {path.suffix for path in zebra_index.iterdir()}
    _, document = first_document(zebra_index)
    assert json.loads(document.get("raw")) == {"id": "p0", "contents": "zebra crossing"}


def test_impacts_are_products_of_exact_words_by_the_rows_of_the_index(zebra_index, tmp_path):
    texts = ["7|120 19|4", "7|1", "19|4095 8|1", "8|3 70|9 71|9 72|9 73|9 74|9 75|9", "7|1"]
    folder, _ = built_here(tmp_path, texts, language=IMPACTS, rows=[1, 2, 4, 8, 16])
    (folder / "raypipe-language.txt").write_text(IMPACTS)
    searcher = LuceneSearcher(folder)
    rows, scores = searcher.search_impacts([7, 19, 5], [2, 3, 9], depth=9)
    assert rows.tolist() == [4, 1, 2, 16] and scores.tolist() == [12285, 252, 2, 2]
    assert (rows.dtype, scores.dtype) == (np.int64, np.float32)
    assert searcher.search_impacts([7, 19], [2, 3], depth=3)[0].tolist() == [4, 1, 2]
    assert len(searcher.search_impacts([], [], depth=3)[0]) == 0
    with pytest.raises(ValueError, match="shorter"):
        searcher.search_impacts([7, 19], [2], depth=3)
    _, document = first_document(folder)
    assert document.get("id") == "p0" and document.get("raw") is None
    names = {name for name in content_of(folder) if name != ROWS_FILE}
    assert not [name for name in names if name.endswith((".pos", ".tvd"))]
    lengths = [(made / "_0.nvd").stat().st_size for made in (folder, zebra_index)]
    assert lengths[0] < lengths[1], "lengths of passages, which count for nothing, are kept"
    searcher.close()
    with pytest.raises(Exception, match="closed"):
        searcher.search_impacts([7], [1], depth=1)
