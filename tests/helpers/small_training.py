"""A small training recipe over real passages with a tiny model."""

import yaml
from safetensors.torch import load_file

from raypipe.config.load import load_training
from raypipe.driver.execute import Watcher
from raypipe.driver.training.train import run_training


def train(path, out, *overrides, said=None):
    """Train in this process; what is left of it."""
    recipe = load_training(path, overrides=overrides)
    say = (said if said is not None else []).append
    return run_training(recipe, out, watcher=Watcher(), say=say)


def weights(out, name="small"):
    """The tensors of what was trained."""
    return load_file(out / "models" / name / "model.safetensors")


class Recipes:
    """Writes recipes over the small collection; its runs are made up."""

    def __init__(self, small_files, tiny_model, folder):
        self.files, self.model, self.folder = small_files, tiny_model, folder
        lines = (small_files / "passages.tsv").read_text().splitlines()
        ids = [line.split("\t")[0] for line in lines]
        self.run, self.dev = folder / "train.trec", folder / "dev.trec"
        write_run(self.run, small_files / "queries.train.tsv", ids)
        write_run(self.dev, small_files / "queries.dev.tsv", ids)

    def write(self, name="recipe", **changed):
        """A recipe's path; keyword arguments change its keys."""
        body = {
            "format": 1,
            "name": "small",
            "model": {
                "start": str(self.model),
                "preset": "monobert",
                "query_limit": 12,
                "total_limit": 64,
            },
            "collections": {
                "docs": {"format": "msmarco-v1", "input": str(self.files / "passages.tsv")}
            },
            "train": {
                "docs": {
                    "collection": "docs",
                    "queries": str(self.files / "queries.train.tsv"),
                    "qrels": str(self.files / "qrels.train.txt"),
                    "negatives": {"runs": str(self.run), "last": 20},
                }
            },
            "dev": {
                "docs": {
                    "collection": "docs",
                    "queries": str(self.files / "queries.dev.tsv"),
                    "qrels": str(self.files / "qrels.dev.txt"),
                    "run": str(self.dev),
                    "k": 10,
                }
            },
            "guard": {"test": {"queries": str(self.files / "queries.test.tsv")}},
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
        path = self.folder / f"{name}.yaml"
        path.write_text(yaml.safe_dump(body, sort_keys=False))
        return path


def write_run(path, queries, ids, depth=30):
    """Each query with passages spread over the collection, another stretch for each."""
    lines = []
    for number, line in enumerate(queries.read_text().splitlines()):
        query_id = line.split("\t")[0]
        for rank in range(1, depth + 1):
            passage = ids[(number * 7 + rank * 11) % len(ids)]
            lines.append(f"{query_id} Q0 {passage} {rank} {1 / rank:.6f} made\n")
    path.write_text("".join(lines))


def without_queries(path):
    """The recipe at `path` rewritten as one of text alone, as a pre-training's is."""
    body = yaml.safe_load(path.read_text())
    body["train"] = {"docs": {"collection": "docs"}}
    kept = {name: value for name, value in body.items() if name not in ("dev", "guard")}
    path.write_text(yaml.safe_dump(kept, sort_keys=False))
    return path


def phases_of(path, *phases, **beside):
    """The recipe at `path` rewritten with phases; `beside` changes what stands beside them."""
    body = yaml.safe_load(path.read_text())
    own = ("train", "dev", "loss", "steps", "checkpoint_every", "validate")
    first = {key: body.pop(key) for key in own}
    body["phases"] = [{**first, "name": f"part-{n}", **p} for n, p in enumerate(phases, 1)]
    path.write_text(yaml.safe_dump({**body, **beside}, sort_keys=False))
    return path
