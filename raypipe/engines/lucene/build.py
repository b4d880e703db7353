"""Lucene's part of an index, as a separate program, so that its JVM ends with it.

`python -m raypipe.engines.lucene.build TEXTS FLUSHED FOLDER IDS MEGABYTES LANGUAGE`: indexes the
passages in the folder TEXTS, JSON lines in row order, as one segment in FOLDER. FLUSHED is for
unfinished segments; IDS receives the ids of the documents as the index has them. LANGUAGE may be
IMPACTS.
"""

import json
import sys
from pathlib import Path

from raypipe.engines.lucene.index import IMPACTS, analyzer_of
from raypipe.engines.lucene.java import Lucene, open_reader, ordered_writer, start_jvm, stored_ids

HEAP = "2g"
IDS_AT_ONCE = 10_000
FIELDS = "org.apache.commons.lang3.reflect.FieldUtils"
"""Writes fields. An assignment by jnius (1.9) frees the value's reference, which is in use: it
overwrites part of the next one, and Java dies at one of its next collections of garbage."""


def main(texts: str, flushed: str, folder: str, ids: str, megabytes: str, language: str) -> None:
    """Flush, merge and read back."""
    lucene = start_jvm(heap=HEAP)
    _make_bytes_repeat(lucene)
    _flush(lucene, texts, flushed, int(megabytes), language)
    _merge(lucene, flushed, folder)
    _write_ids(lucene, folder, Path(ids))


def _make_bytes_repeat(lucene: Lucene) -> None:
    """Make merges copy documents one by one: copied blocks would depend on the buffer's size."""
    autoclass, _ = lucene
    package = "org.apache.lucene.codecs.lucene90.compressing.Lucene90Compressing"
    for writer in ("StoredFieldsWriter", "TermVectorsWriter"):
        autoclass("java.lang.System").setProperty(f"{package}{writer}.enableBulkMerge", "false")


def _flush(lucene: Lucene, texts: str, flushed: str, megabytes: int, language: str) -> None:
    """Run Anserini's IndexCollection on one thread: segments in row order, not merged."""
    autoclass, _ = lucene
    of_words = language != IMPACTS
    settings = autoclass("io.anserini.index.IndexCollection$Args", include_protected=True)()
    settings.input, settings.index = texts, flushed
    settings.collectionClass, settings.threads = "JsonCollection", 1
    settings.storePositions = settings.storeDocvectors = settings.storeRaw = of_words
    settings.impact = not of_words
    settings.memoryBuffer, settings.quiet = megabytes, True
    settings.language = language
    indexer = autoclass("io.anserini.index.IndexCollection", include_protected=True)(settings)
    # Lucene's default policy merges segments that are not neighbours.
    no_merges = autoclass("org.apache.lucene.index.NoMergePolicy").INSTANCE
    config = indexer.writer.getConfig()
    config.setMergePolicy(no_merges)
    if not of_words:  # Anserini would read each word as many times as its impact says
        fields = autoclass(FIELDS)
        fields.writeField(config, "analyzer", analyzer_of(lucene, language), True)
    indexer.run()
    for file in Path(texts).iterdir():
        file.unlink()


def _merge(lucene: Lucene, flushed: str, folder: str) -> None:
    """Merge all segments into one, in their order, in one merge."""
    autoclass, cast = lucene
    _name_from_the_start(lucene)
    config = autoclass("org.apache.lucene.index.IndexWriterConfig")()
    config.setMergePolicy(autoclass("org.apache.lucene.index.NoMergePolicy").INSTANCE)
    config.setMergeScheduler(autoclass("org.apache.lucene.index.SerialMergeScheduler")())
    paths = autoclass("java.nio.file.Paths")
    directory = autoclass("org.apache.lucene.store.FSDirectory").open(paths.get(folder))
    reader = open_reader(lucene, flushed)
    leaves = [leaf.reader() for leaf in reader.leaves().toArray()]
    writer = ordered_writer()(directory, config)
    if leaves:
        writer.addIndexes(*(cast("org.apache.lucene.index.CodecReader", leaf) for leaf in leaves))
    writer.close()
    reader.close()


def _name_from_the_start(lucene: Lucene) -> None:
    """Make Lucene's next segment ids 1, 2, ...; otherwise they depend on the clock."""
    autoclass, _ = lucene
    helper = autoclass("org.apache.lucene.util.StringHelper")
    first = autoclass("java.math.BigInteger")("1")
    autoclass(FIELDS).writeStaticField(helper, "nextId", first, True)


def _write_ids(lucene: Lucene, folder: str, path: Path) -> None:
    reader = open_reader(lucene, folder)
    num_documents = reader.maxDoc()
    with path.open("w", encoding="utf-8") as out:
        for start in range(0, num_documents, IDS_AT_ONCE):
            documents = range(start, min(start + IDS_AT_ONCE, num_documents))
            out.write(json.dumps(stored_ids(lucene, reader, documents)) + "\n")
    reader.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
