"""An index as Lucene's program makes it, in this process, whose JVM then searches it."""

import json

import numpy as np
from long_collection import commit

from raypipe.engines.lucene import build
from raypipe.engines.lucene.index import ROWS_FILE, make_timeless, pack_folder


def built_here(folder, texts, *, language="en", rows=None, ids=None):
    """The index's folder, and the ids of its documents as the program read them back.

    Passage n has the id `pN` and is row n, if nothing else is given.
    """
    ids = ids or [f"p{row}" for row in range(len(texts))]
    (folder / "texts").mkdir(parents=True)
    lines = [json.dumps({"id": i, "contents": t}) for i, t in zip(ids, texts, strict=True)]
    (folder / "texts" / "passages.jsonl").write_text("\n".join(lines) + "\n")
    index = folder / "index"
    paths = (str(folder / name) for name in ("texts", "flushed", "index", "ids"))
    build.main(*paths, "16", language)
    (index / "write.lock").unlink(missing_ok=True)
    make_timeless(index)
    np.save(index / ROWS_FILE, np.arange(len(texts)) if rows is None else np.array(rows))
    return index, [json.loads(line) for line in (folder / "ids").read_text().splitlines()]


def packed(stores, folder, num_rows):
    """The store of an index folder."""
    pack_folder(folder, stores.scratch / "packed.tar")
    return commit(stores.storage, "lucene", [(stores.scratch / "packed.tar", num_rows)])
