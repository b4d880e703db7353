"""Reads mutants that atheris chose by the lines of raypipe that they reach; a child process.

python tests/helpers/guided.py PARSER SEEDS_FOLDER -atheris_runs=N
"""

import sys
import tempfile
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["raypipe"]):
    from raypipe.config import load_recipe, load_training
    from raypipe.data.facts import count_file
    from raypipe.data.qrels import read_qrels
    from raypipe.data.queries import read_queries
    from raypipe.data.reading import read_records
    from raypipe.data.triple_texts import split_triples
    from raypipe.errors import ending_of
    from raypipe.evaluation.run_files.runs import read_run
    from raypipe.leaderboard.submission import read_metadata
    from raypipe.models.folder.settings import conventions_of
    from raypipe.shapes import check_shape
    from raypipe.storage.ledger import ManifestShape, events
    from raypipe.storage.records import Manifest, unseal_format

HERE = Path(tempfile.mkdtemp())


def collection(path):
    """Counts a collection and reads all of it."""
    facts = count_file(path, format="beir")
    stop = facts.num_records
    list(read_records(path, format="beir", start=0, stop=stop, facts=facts))


def settings(path):
    """Reads a model's raypipe.json."""
    path.replace(HERE / "raypipe.json")
    conventions_of(HERE, None)


def manifest(path):
    """Reads a manifest as a store does."""
    body = unseal_format(path.name, path.read_bytes())
    check_shape(path.name, body, ManifestShape)
    return Manifest.from_json(body)


PARSERS = {
    "run": read_run,
    "collection": collection,
    "queries": read_queries,
    "qrels": read_qrels,
    "triples": lambda path: split_triples(path, HERE / "out"),
    "pipeline": load_recipe,
    "training": load_training,
    "manifest": manifest,
    "log": lambda path: events(path.read_bytes()),
    "metadata": read_metadata,
    "settings": settings,
}


def read(data):
    """An error that raypipe does not tell in words ends this process."""
    path = HERE / "file"
    path.write_bytes(data)
    try:
        PARSERS[sys.argv[1]](path)
    except Exception as error:
        if ending_of(error).reason.startswith("a bug in raypipe"):
            raise


if __name__ == "__main__":
    atheris.Setup([sys.argv[0], *sys.argv[2:]], read)
    atheris.Fuzz()
