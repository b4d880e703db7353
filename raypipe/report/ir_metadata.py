"""ir-metadata of a system that ranked snapshots: as much of it as raypipe knows.

Source: ir-metadata.org, and the fields of LongEval's own check (`leaderboard/longeval.py`).
"""

from collections.abc import Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from raypipe.config.load import load_recipe
from raypipe.config.recipe import Recipe
from raypipe.config.resolved import read_resolved
from raypipe.driver.models import opened
from raypipe.driver.snapshots import FOLDER, read_record
from raypipe.errors import InputError
from raypipe.kinds.encode import Encode
from raypipe.kinds.lucene import LuceneIndex
from raypipe.leaderboard.longeval import METADATA, MISSING, write_draft

_OF_WORDS = ("pyserini",)
_OF_MODELS = ("transformers", "tokenizers", "sentence-transformers")


def ir_metadata(folder: Path, query_set: str | None, system: str | None) -> dict[str, Any]:
    """The metadata of a workspace's system; `MISSING` stands for what only a user knows.

    Args:
        folder: a workspace with snapshots.
        query_set: None means the only one.
        system: the stage whose runs are handed in; None means the last one of the recipe.

    Raises:
        InputError: no snapshots, or no such query set or system.
    """
    record = read_record(folder)
    if record is None or not record["snapshots"]:
        raise InputError(
            f"{folder}: no snapshots; expected a workspace of `raypipe reindex RECIPE --out DIR "
            "snapshots=FOLDER`"
        )
    last = [*record["snapshots"].values()][-1]
    sets = last["systems"]
    if query_set is None and len(sets) != 1 or (query_set is not None and query_set not in sets):
        raise InputError(f"--queries: expected one of {', '.join(sets)}; found {query_set}")
    systems = sets[query_set or next(iter(sets))]
    system = system or [*systems][-1]
    if system not in systems:
        raise InputError(f"--system: expected one of {', '.join(systems)}; found {system}")
    path = folder / "recipe.yaml"
    recipe = load_recipe(read_resolved(path), source=str(path))
    return _metadata(recipe, record["snapshots"], systems, system)


def draft_metadata(folder: Path) -> list[Path]:
    """Write an ir-metadata.yml beside the runs of each system; those that a user edited are left.

    Returned are the files that were left.
    """
    record = read_record(folder)
    last = [*record["snapshots"].values()][-1] if record else {"systems": {}}
    left = []
    for query_set, systems in last["systems"].items():
        for system in systems:
            beside = folder / FOLDER / query_set / system
            if not write_draft(beside, ir_metadata(folder, query_set, system)):
                left.append(beside / METADATA)
    return left


def _metadata(
    recipe: Recipe,
    snapshots: Mapping[str, Any],
    systems: Mapping[str, Mapping[str, str]],
    system: str,
) -> dict[str, Any]:
    last = [*snapshots.values()][-1]
    chain = _chain(recipe, system)
    ranked = [name for name in chain if recipe.stages[name].produces == "run"]
    stages = [recipe.stages[name] for name in chain]
    words = [stage for stage in stages if isinstance(stage, LuceneIndex)]
    encoders = [stage.model for stage in stages if isinstance(stage, Encode)]
    rerankers = [stage.scores_with for stage in stages if stage.scores_with is not None]
    models = dict.fromkeys([*encoders, *rerankers])
    sparse = {name: _is_sparse(recipe, name) for name in dict.fromkeys(encoders)}
    saw = {systems[name]["start_weights"] for name in ranked if name in systems} - {""}
    packages = [*(_OF_WORDS if words else ()), *(_OF_MODELS if models else ())]
    libraries = {**last["versions"], **{name: version(name) for name in packages}}
    trained_on = sorted(saw) or [MISSING if models else "none"]
    return {
        "tag": system,
        "actor": {"team": MISSING},
        "research goal": {"description": MISSING},
        "platform": {
            "hardware": {"device": last["device"]},
            "software": {"libraries": [f"{name} {each}" for name, each in libraries.items()]},
        },
        "implementation": {"source": {"repository": MISSING}},
        "data": {
            "test collection": {"name": recipe.name, "snapshots": [*snapshots]},
            "training data": [{"name": each} for each in trained_on],
        },
        "method": {
            "automatic": True,
            "name": system,
            "indexing": _indexing(words, [recipe.models[name].path for name in models]),
            "retrieval": [
                {
                    "name": system,
                    "stages": [f"{name}: {_in_words(recipe, name)}" for name in chain],
                    "lexical": bool(words),
                    "deep_neural_model": bool(models),
                    "sparse_neural_model": any(sparse.values()),
                    "dense_neural_model": not all(sparse.values()),
                    "single_stage_retrieval": len(ranked) == 1,
                }
            ],
        },
        "resources": {"snapshots": [_costs(*each) for each in snapshots.items()]},
    }


def _chain(recipe: Recipe, system: str) -> list[str]:
    """The stages that a system goes back to, and itself, in the order of the recipe."""
    needed = {system}
    for name in reversed(recipe.stages):
        if name in needed:
            needed.update(recipe.stages[name].inputs)
    return [name for name in recipe.stages if name in needed]


def _is_sparse(recipe: Recipe, model: str) -> bool:
    return opened(recipe.models[model], recipe.resources.precision).encoder.is_sparse


def _indexing(words: list[LuceneIndex], models: list[str]) -> dict[str, str]:
    """Tokenizer, stemmer and stop words of the indexes."""
    language = words[0].language if words else ""
    analyzer = f"Lucene's analyzer for {language}"
    tokenizers = [analyzer] if words else []
    tokenizers += [f"that of {path.rpartition('/')[2]}" for path in models]
    stemmer = "Porter" if language == "en" else analyzer if words else "none"
    stopwords = "Lucene's English list" if language == "en" else analyzer if words else "none"
    return {
        "tokenizer": "; ".join(tokenizers) or "none",
        "stemmer": stemmer,
        "stopwords": stopwords,
    }


def _in_words(recipe: Recipe, stage: str) -> str:
    """A stage's settings, with a model's place for its name."""
    kind = recipe.stages[stage]
    return ", ".join(_settings(recipe, kind.model_dump(mode="json", exclude_none=True)))


def _settings(recipe: Recipe, body: Mapping[str, Any]) -> Iterator[str]:
    for key, value in body.items():
        if key == "model":
            model = recipe.models[value]
            value = f"{model.path}@{model.revision}" if model.revision else model.path
        yield f"{key} {value}"


def _costs(snapshot: str, entry: Mapping[str, Any]) -> dict[str, Any]:
    cpu = sum(made["cpu_seconds"] for made in entry["stages"].values())
    return {
        "name": snapshot,
        "ended": entry["ended"],
        "passages": entry["passages"],
        "seconds": entry["seconds"],
        "cpu seconds": round(cpu, 1),
        "rows copied": entry["rows_copied"],
    }
