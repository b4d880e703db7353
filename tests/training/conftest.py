"""A small training recipe over real passages with a tiny model."""

import pytest
import yaml
from safetensors.torch import load_file


class Quiet:
    def began(self, store, report): ...
    def advanced(self, store, report): ...
    def ended(self, store, result): ...


@pytest.fixture
def train():
    """A function that trains a recipe's file in OUT in this process and gives what is left."""
    from raypipe.config import load_training
    from raypipe.driver.training.train import run_training

    def run(path, out, *overrides, said=None):
        recipe = load_training(path, overrides=overrides)
        say = (said if said is not None else []).append
        return run_training(recipe, out, watcher=Quiet(), say=say)

    return run


@pytest.fixture
def weights():
    """A function that gives the tensors of what was trained in OUT."""
    return lambda out, name="small": load_file(out / "models" / name / "model.safetensors")


@pytest.fixture
def small_recipe(small_files, tiny_model, tmp_path):
    """A function that writes a recipe and gives its path; keyword arguments change its keys."""
    ids = [line.split("\t")[0] for line in (small_files / "passages.tsv").read_text().splitlines()]
    run = tmp_path / "train.trec"
    write_run(run, small_files / "queries.train.tsv", ids)
    dev = tmp_path / "dev.trec"
    write_run(dev, small_files / "queries.dev.tsv", ids)

    def make(name="recipe", **changed):
        body = {
            "format": 1,
            "name": "small",
            "model": {
                "start": str(tiny_model),
                "preset": "monobert",
                "query_limit": 12,
                "total_limit": 64,
            },
            "collections": {
                "docs": {"format": "msmarco-v1", "input": str(small_files / "passages.tsv")}
            },
            "train": {
                "docs": {
                    "collection": "docs",
                    "queries": str(small_files / "queries.train.tsv"),
                    "qrels": str(small_files / "qrels.train.txt"),
                    "negatives": {"runs": str(run), "last": 20},
                }
            },
            "dev": {
                "docs": {
                    "collection": "docs",
                    "queries": str(small_files / "queries.dev.tsv"),
                    "qrels": str(small_files / "qrels.dev.txt"),
                    "run": str(dev),
                    "k": 10,
                }
            },
            "guard": {"test": {"queries": str(small_files / "queries.test.tsv")}},
            "loss": {"name": "cross-entropy"},
            "steps": 12,
            "batch": 8,
            "dropout": 0.1,
            "optimiser": {"rate": 1.0e-3, "warmup": 2},
            "checkpoint_every": 3,
            "validate": {"every": 4},
            "resources": {"backend": "inline", "threads": 1},
        }
        for key, value in changed.items():
            if isinstance(value, dict) and isinstance(body.get(key), dict):
                body[key] = {k: v for k, v in {**body[key], **value}.items() if v is not None}
            else:
                body[key] = value
        path = tmp_path / f"{name}.yaml"
        path.write_text(yaml.safe_dump(body, sort_keys=False))
        return path

    return make


def write_run(path, queries, ids, depth=30):
    """Each query with passages spread over the collection, another stretch for each."""
    lines = []
    for number, line in enumerate(queries.read_text().splitlines()):
        query_id = line.split("\t")[0]
        for rank in range(1, depth + 1):
            passage = ids[(number * 7 + rank * 11) % len(ids)]
            lines.append(f"{query_id} Q0 {passage} {rank} {1 / rank:.6f} made\n")
    path.write_text("".join(lines))
