"""Pre-training, then a monoBERT and a duoBERT model of its weights, as `msmarco-multistage-tcp` has
them: given triples, both rerankers from the pre-trained model; in small."""

import yaml
from masked_texts import make_pretrained
from small_training import Recipes

STEPS = 40
PHASES = ("pretraining", "monobert", "duobert")
MODELS = ("small.pretraining", "small.monobert", "small")
STORES = tuple(f"weights@small.{phase}" for phase in PHASES)


def chain_recipe(tiny, small_files, tiny_model, folder, **resources):
    """The recipe's path; the start has both heads of pre-training."""
    start = folder / "pretrained"
    make_pretrained(tiny, start)
    triples = folder / "triples.tsv"
    write_triples(triples, small_files)
    body = yaml.safe_load(Recipes(small_files, tiny_model, folder).write().read_text())
    queries = str(small_files / "queries.train.tsv")
    given = {"docs": {"collection": "docs", "queries": queries, "triples": str(triples)}}
    limits = {"query_limit": 12, "total_limit": 64}
    cross_entropy = {"train": given, "loss": {"name": "cross-entropy"}}
    phases = [
        {
            "name": "pretraining",
            "model": {"start": str(start), "preset": "bert", "total_limit": 48},
            "train": {"docs": {"collection": "docs"}},
            "loss": {"name": "masked-language-model"},
            "masking": {"next_sentence": True, "held_out": 6},
            "validate": {"every": STEPS // 2, "measure": "masked_word_loss"},
        },
        {"name": "monobert", "model": {"preset": "monobert", **limits}, **cross_entropy},
        {
            "name": "duobert",
            "after": "pretraining",
            "model": {"preset": "duobert", "segment_row": "copy", "passage_limit": 20, **limits},
            **cross_entropy,
        },
    ]
    shared = {key: body[key] for key in ("format", "name", "collections", "guard", "dropout")}
    path = folder / "chain.yaml"
    recipe = {
        **shared,
        "near_copy": "same",
        "steps": STEPS,
        "batch": 8,
        "checkpoint_every": 4,
        "optimiser": {"rate": 1.0e-3, "warmup": 4, "decay": "linear-from-start"},
        "resources": {"backend": "inline", "threads": 1, **resources},
        "phases": phases,
    }
    path.write_text(yaml.safe_dump(recipe, sort_keys=False))
    return path


def write_triples(path, small_files):
    """A relevant passage and another for each training query, both anywhere in the collection."""
    queries = (small_files / "queries.train.tsv").read_text().splitlines()
    ids = [line.split("\t")[0] for line in (small_files / "passages.tsv").read_text().splitlines()]
    lines = []
    for number, query in enumerate(queries):
        relevant, other = (ids[(number * 7 + step) % len(ids)] for step in (0, 11))
        lines.append(f"{query.split(chr(9))[0]}\t{relevant}\t{other}\n")
    path.write_text("".join(lines))
