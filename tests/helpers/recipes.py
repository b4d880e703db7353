"""A recipe of one dense search over a small folder, its files, and an invocation of any recipe."""

import json

from raypipe.config.load import load_recipe
from raypipe.driver.execute import Watcher
from raypipe.driver.pipeline import Options, run_pipeline
from raypipe.storage.ledger import read_manifest
from raypipe.storage.posix import PosixStorage
from raypipe.storage.store import Stored

QUERIES = {"1": "the zebra", "2": "a lease"}


def dense(folder, model, *, name="tiny", depth=3, judged=False, mono=None, **resources):
    """Passages and queries of a folder or a place: encoded, searched, and reranked by a mono."""
    queries = {"file": f"{folder}/queries.tsv"}
    models = {"tiny": {"path": str(model)}}
    stages = {
        "vectors": {"do": "encode", "model": "tiny"},
        "dense": {"do": "search", "index": "vectors", "depth": depth},
    }
    if judged:
        queries["qrels"] = f"{folder}/qrels.txt"
    if mono is not None:
        models["mono"] = {"path": str(mono), "settings": {"segment_row": "zero"}}
        stages["mono"] = {"do": "score", "run": "dense", "model": "mono", "k0": 3}
    lines = [
        f"format: 1\nname: {name}",
        f"collection: {{format: msmarco-v1, input: {folder}/passages.tsv}}",
        f"queries: {{test: {json.dumps(queries)}}}",
        f"models: {json.dumps(models)}",
        "stages:",
        *(f"  {stage}: {json.dumps(keys)}" for stage, keys in stages.items()),
        *(["evaluate: {measures: [RR@10], baseline: dense}"] if judged else []),
        f"resources: {json.dumps({'backend': 'inline', 'device': 'cpu', **resources})}",
    ]
    return "\n".join(lines) + "\n"


def write_files(folder, passages, queries=QUERIES, judged=None):
    """The files: texts by their ids, or a list of passages p0, p1, ...; a passage by its query."""
    if not isinstance(passages, dict):
        passages = {f"p{number}": text for number, text in enumerate(passages)}
    for file, texts in (("passages.tsv", passages), ("queries.tsv", queries)):
        (folder / file).write_text("".join(f"{key}\t{text}\n" for key, text in texts.items()))
    if judged is not None:
        lines = (f"{query} 0 {passage} 1\n" for query, passage in judged.items())
        (folder / "qrels.txt").write_text("".join(lines))


def invoke(recipe, out, *overrides, base=None, said=None, **options):
    """What the invocation of a recipe, as text or a dictionary, returns; `said` gets its lines."""
    loaded = load_recipe(recipe, overrides=overrides, base=base)
    say = ([] if said is None else said).append
    return run_pipeline(loaded, out, Options(**options), watcher=Watcher(), say=say)


def stored(out, summary, store):
    """A store of a workspace's invocation."""
    storage = PosixStorage(out / "stores")
    return Stored(storage, read_manifest(storage, store, summary["stages"][store]["fingerprint"]))
