"""The stage tokenize as a whole: CPU time of all threads from stored passages to a published store.

    python tests/benchmarks/tokenize_stage.py DATA_FOLDER [NUM_PASSAGES]

DATA_FOLDER is what RAYPIPE_DATA names. It opens the stage, which compares 1,000 inputs with the
tokenizer's own, runs every shard in a plain loop, commits and publishes. A line for each collection
ends with a hash over the payloads; an earlier version (copy this file into its checkout) must show
the same.
"""

import gzip
import hashlib
import os
import sys
import tempfile
import time
from pathlib import Path

os.environ["TOKENIZERS_PARALLELISM"] = "false"  # before the library reads it
sys.path.insert(0, str(Path(__file__).parent.parent / "helpers"))

from given_stores import Stores

from raypipe import schema
from raypipe.models.folder.model_folder import resolve_model
from raypipe.stages.tokenize import TokenizeStage


def main() -> None:
    folder, most = Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else None
    model = resolve_model("minilm")
    for name in ("msmarco-v2-dl21", "medquad-liveqa"):
        file = folder / name / "collection.tsv.gz"
        with gzip.open(file, "rt", encoding="utf-8", newline="\n") as lines:
            texts = [line.rstrip("\n").split("\t", 1)[1] for line in lines][:most]
        with tempfile.TemporaryDirectory() as scratch:
            stores = Stores(Path(scratch))
            collection = stores.passages(texts)
            hashes = stores.hashes(collection)
            began = time.process_time()
            stage = TokenizeStage(collection, schema.PASSAGES, model, "", hashes)
            made = stores.finished(stage)
            seconds = time.process_time() - began
        payloads = "".join(record.sha256 for record in made.manifest.records)
        digest = hashlib.sha256(payloads.encode()).hexdigest()[:8]
        rate = len(texts) / seconds
        print(f"{name}: {len(texts)} passages, {rate:.0f} per CPU second, payloads {digest}")


if __name__ == "__main__":
    main()
