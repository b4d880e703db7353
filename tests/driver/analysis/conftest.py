"""A finished pipeline with two first stages, a monoBERT and a duoBERT model."""

import pytest
import yaml
from watchers import Silent

from raypipe.config import load_recipe
from raypipe.driver.analysis.finished import open_finished
from raypipe.driver.pipeline import Options, run_pipeline

WORDS = "alpha beta gamma delta epsilon zeta eta theta iota kappa".split()
QUERIES = {"q1": "beta gamma", "q2": "theta", "q3": "zeta eta theta iota"}
RELEVANT = {"q1": ["p1", "p9"], "q2": ["p7"], "q3": ["p3"]}


@pytest.fixture(scope="session")
def analysed(tiny_model, tiny_mono, tiny_duo, tmp_path_factory):
    """Runs a recipe over its files; `depths` are k0 and k1."""
    folder = tmp_path_factory.mktemp("analysed")
    texts = [" ".join(WORDS[(i * 3 + j) % 10] for j in range(2 + i % 5)) for i in range(30)]
    (folder / "passages.tsv").write_text("".join(f"p{i}\t{t}\n" for i, t in enumerate(texts)))
    (folder / "queries.tsv").write_text("".join(f"{q}\t{t}\n" for q, t in QUERIES.items()))
    qrels = [f"{q} 0 {p} 1\n" for q, passages in RELEVANT.items() for p in passages]
    (folder / "qrels.txt").write_text("".join([*qrels, "q1 0 p2 0\n"]))
    given = [f"{q} Q0 p{(3 * n + 1) % 30} {n} {40 - n} x\n" for q in QUERIES for n in range(1, 11)]
    (folder / "run.trec").write_text("".join(given))

    def run(k0=8, k1=5, name="work", tail="keep", measures=("RR@10", "R@5"), without=None):
        models = {"tiny": tiny_model, "mono": tiny_mono, "duo": tiny_duo}
        query_set = {"file": f"{folder}/queries.tsv", "qrels": f"{folder}/qrels.txt"}
        recipe = {
            "format": 1,
            "name": "analysed",
            "collection": {"format": "msmarco-v1", "input": f"{folder}/passages.tsv"},
            "queries": {"test": query_set, "other": {"file": f"{folder}/queries.tsv"}},
            "models": {model: {"path": str(path)} for model, path in models.items()},
            "stages": {
                "vectors": {"do": "encode", "model": "tiny"},
                "dense": {"do": "search", "index": "vectors", "depth": 20},
                "given": {
                    "do": "read",
                    "runs": {n: f"{folder}/run.trec" for n in ("test", "other")},
                },
                "first": {"do": "score", "run": "dense", "model": "mono", "k0": k0},
                "pairs": {"do": "score", "run": "first", "model": "duo", "k1": k1},
                "second": {"do": "aggregate", "pairs": "pairs", "method": "sum", "tail": tail},
                "least": {"do": "aggregate", "pairs": "pairs", "method": "min", "tail": tail},
            },
            "evaluate": {"measures": [*measures], "baseline": "dense", "topics": "three"},
            "resources": {"backend": "inline", "device": "cpu"},
            "stores": str(folder / "stores"),
        }
        recipe.pop(without, None)
        loaded = load_recipe(yaml.safe_dump(recipe, sort_keys=False), source="analysed")
        run_pipeline(loaded, folder / name, Options(), watcher=Silent())
        return open_finished(folder / name)

    return run


@pytest.fixture(scope="session")
def finished(analysed):
    """With k0 8 and k1 5."""
    return analysed()
