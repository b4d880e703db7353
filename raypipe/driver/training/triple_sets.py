"""Training sets of text triples, split once into ordinary files in the workspace."""

import json
from pathlib import Path

from raypipe.config import Training
from raypipe.config.parts import Collection
from raypipe.data.triple_texts import FILES, split_triples
from raypipe.storage.files import note_in, replace_file, sweep_beside
from raypipe.storage.records import hash_file


def with_ids(recipe: Training, folder: Path) -> Training:
    """The recipe with each file of texts replaced by a collection, queries and triples of ids."""
    collections, train = dict(recipe.collections), dict(recipe.train)
    for name, wanted in recipe.train.items():
        if wanted.texts is None:
            continue
        own, source = folder / name, Path(wanted.texts)
        note = own / "made-from.json"
        for file in (*FILES, note.name):
            sweep_beside(own / file)  # they are written once: no later write sweeps there
        made = {"sha256": hash_file(source), "semantics": 1}
        if note_in(note) != made:
            note.unlink(missing_ok=True)
            split_triples(source, own)
            replace_file(note, json.dumps(made).encode())
        passages = (str((own / "passages.tsv").absolute()),)
        collections[name] = Collection(format="msmarco-v1", input=passages)
        update = {
            "texts": None,
            "collection": name,
            "queries": str((own / "queries.tsv").absolute()),
            "triples": str((own / "triples.tsv").absolute()),
        }
        train[name] = wanted.model_copy(update=update)
    return recipe.model_copy(update={"collections": collections, "train": train})
