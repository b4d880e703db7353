"""Recipes that commands make of their options: of a single stage, and of a BEIR folder."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from raypipe.config import Recipe, load_recipe, read_resolved, recipe_text
from raypipe.config.fields import OWN_ID
from raypipe.config.parts import PACKAGED_MODELS, Model
from raypipe.config.rules import DOCUMENTS
from raypipe.config.yaml import parse_yaml
from raypipe.data.formats.registry import format_of
from raypipe.driver.mirror import default_stores
from raypipe.driver.models import at_commit, models_before
from raypipe.errors import InputError
from raypipe.hub_names import address, hub_name, is_hub
from raypipe.uris import dataset_id
from raypipe.vocabulary import BM25_B, BM25_K1, K0, K1, BreakTies

MODEL = "model"
"""The name of the model in a single-stage recipe."""


def collection_of(path: Path) -> dict[str, Any]:
    """The recipe's entry for a collection: a workspace's, a file or a BEIR folder.

    Raises:
        InputError: it does not exist, its format is unknown, or its stores cannot be written.
    """
    if (name := dataset_id(path)) is not None:
        return {"collection": {"format": "ir-datasets", "input": name}}
    recipe = path / "recipe.yaml"
    if recipe.is_file():
        data = _held(recipe)
        return {"collection": data["collection"], "stores": _stores_of(data, path)}
    return {"collection": {"format": format_of(path), "input": str(path.absolute())}}


def split_of(format: str) -> dict[str, Any]:
    """The entry that splits documents as the paper does; nothing for a format of passages."""
    return {"split": {}} if format in DOCUMENTS and format != "jsonl" else {}


def recipe_of(keys: Mapping[str, Any], stages: Mapping[str, Any], **more: Any) -> Recipe:
    """A checked recipe with these stages."""
    body = {"format": 1, "name": "single", **keys, "stages": dict(stages)}
    body |= {key: value for key, value in more.items() if value}
    return load_recipe(body, source="the command line")


def model_of(path: str, preset: str | None) -> dict[str, Any]:
    """The recipe's entry for one model."""
    return {MODEL: {**place_of(path), **({"preset": preset} if preset else {})}}


def place_of(path: str) -> dict[str, str]:
    """The keys of a recipe's model that say where it is: as given on the command line."""
    named = None if path in PACKAGED_MODELS else hub_name(path, Path())
    if named is None:
        known = path in PACKAGED_MODELS or is_hub(path)
        return {"path": path if known else str(Path(path).absolute())}
    return {"path": named.uri, **({"revision": named.revision} if named.revision else {})}


def with_commit(
    keys: dict[str, Any], out: Path, say: Callable[[str], None]
) -> tuple[dict[str, Any], str]:
    """The entry of `model_of` with its commit, and the model's name for `resolve_model`.

    Used by a command that must look into the model before it has a recipe.

    Raises:
        InputError: the hub does not say.
    """
    pinned = at_commit("--model", Model(**keys[MODEL]), models_before(out), say)
    commit = {"revision": pinned.revision, "branch": pinned.branch}
    named = {key: value for key, value in commit.items() if value}
    return {MODEL: keys[MODEL] | named}, address(pinned.path, pinned.revision)


def search_recipe(
    index: Path, queries: Path, *, model: str | None, depth: int, k1: float | None, b: float | None
) -> Recipe:
    """A search of one `index` or `encode` stage of a workspace.

    Raises:
        InputError: no workspace, no such stage, or several stages and no name.
    """
    data, stage = _searched(index, model)
    search: dict[str, Any] = {"do": "search", "index": stage, "depth": depth}
    if k1 is not None or b is not None:
        search["bm25"] = {"k1": BM25_K1 if k1 is None else k1, "b": BM25_B if b is None else b}
    stages = data["stages"]
    over = str(stages[stage].get("embeddings", stage))  # of an index of impacts: what it is of
    parts = {name: stages[name] for name in (over, stage) if name in stages}
    used = parts.get(over, {}).get("model")
    models = data.get("models") or {}
    resources = _precision_of(data) if used is not None else {}
    word = str(resources.get("precision", ""))
    if word.startswith("int8"):  # of an encoder: what it computes in beside int8
        resources["precision"] = word.partition("+")[2] or "fp32"
    return recipe_of(
        collection_of(index),
        {**parts, "search": search},
        models={name: part for name, part in models.items() if name == used},
        queries={"queries": {"file": _place(queries)}},
        resources=resources,
    )


def stage_to_search(index: Path, model: str | None) -> str:
    """The name of the one stage of a workspace that a model, or its own name, fits.

    Raises:
        InputError: no workspace, no such stage, or several stages and no name.
    """
    return _searched(index, model)[1]


def _searched(index: Path, model: str | None) -> tuple[dict[str, Any], str]:
    """The data of a workspace's recipe, and the stage that a search of it reads."""
    recipe = index / "recipe.yaml"
    if not recipe.is_file():
        raise InputError(f"{index}: expected a workspace with an index or embeddings")
    data = _held(recipe)
    stages = {n: s for n, s in data["stages"].items() if s["do"] in ("index", "encode")}
    if not stages:
        raise InputError(
            f"{index}: expected a workspace with an index or embeddings, found neither; make one "
            "with `raypipe index` or `raypipe encode`"
        )
    return data, _fitting(index, stages, data.get("models") or {}, model)


def _fitting(
    index: Path,
    stages: Mapping[str, Mapping[str, Any]],
    models: Mapping[str, Mapping[str, Any]],
    model: str | None,
) -> str:
    """The stage of this name, or over the model of this name or path."""

    def names(name: str) -> set[str | None]:
        of_stage = stages[name].get("model")
        path = models.get(of_stage or "", {}).get("path")
        return {None, name, of_stage, path}

    given = {model, model and os.path.abspath(model)}
    named = None if model is None else hub_name(model, Path())
    given |= set() if named is None else {named.uri}
    fitting = [name for name in stages if given & names(name)]
    if len(fitting) == 1:
        return fitting[0]
    remedy = "name one with --model"
    if model is not None:
        remedy += f", by its stage or its model; found {model!r}, which fits {len(fitting)}"
    raise InputError(f"{index}: it has {', '.join(stages)}; {remedy}")


def score_recipe(
    run: Path,
    collection: Path,
    queries: Path,
    *,
    model: Mapping[str, Any],
    duo: bool,
    depth: int | None,
    settings: Mapping[str, Any],
    qrels: Path | None,
    measures: str,
    break_ties: BreakTies = "id",
) -> Recipe:
    """A recipe that scores a run file's first candidates: stage `score` over stage `run`.

    Raises:
        InputError: a file is missing or a setting does not fit the model's kind.
    """
    k = {"k1": depth or K1} if duo else {"k0": depth or K0}
    given = {key: value for key, value in settings.items() if value is not None}
    stages = {
        "run": {"do": "read", "runs": {"queries": str(run.absolute())}, "break_ties": break_ties},
        "score": {"do": "score", "run": "run", "model": MODEL, **k, **given},
    }
    query_set = {"file": _place(queries)}
    query_set |= {"qrels": _place(qrels)} if qrels else {}
    evaluate = {"measures": measures.replace(",", " ").split(), "baseline": "run"}
    return recipe_of(
        collection_of(collection),
        stages,
        models=model,
        queries={"queries": query_set},
        evaluate=evaluate if qrels else None,
    )


def aggregate_recipe(
    pairs: Path, *, method: str, k1: int | None, m: int | None, seed: int, tail: str
) -> Recipe:
    """A recipe that turns the pairs of a workspace into a run: stage METHOD.

    Raises:
        InputError: no workspace, or the workspace does not have exactly one score stage with k1.
    """
    recipe = pairs / "recipe.yaml"
    if not recipe.is_file():
        raise InputError(f"{pairs}: expected a workspace in which a duoBERT model scored pairs")
    data = _held(recipe)
    stages = [n for n, s in data["stages"].items() if s["do"] == "score" and s.get("k1")]
    if len(stages) != 1:
        names = ", ".join(stages) or "none"
        raise InputError(
            f"{pairs}: expected one score stage with k1, found {names}; name one in a recipe's "
            "aggregate stage and run `raypipe pipeline`"
        )
    stage = {"do": "aggregate", "pairs": stages[0], "method": method, "seed": seed, "tail": tail}
    stage |= {key: value for key, value in (("k1", k1), ("m", m)) if value is not None}
    kept = ("collection", "queries", "models", "evaluate")
    body = {key: data[key] for key in kept if data.get(key)}
    body["stores"] = _stores_of(data, pairs)
    if "evaluate" in body and body["evaluate"].get("baseline") not in data["stages"]:
        body["evaluate"].pop("baseline", None)
    return recipe_of(body, {**data["stages"], method: stage}, resources=_precision_of(data))


def _precision_of(data: Mapping[str, Any]) -> dict[str, Any]:
    """The precision of a workspace's stores, in another they are others."""
    resources = data.get("resources")
    if not isinstance(resources, dict) or "precision" not in resources:
        return {}
    return {"precision": resources["precision"]}


def _stores_of(data: Mapping[str, Any], workspace: Path) -> str:
    """Where a workspace's stores are; what a command computes from them is kept beside them.

    Raises:
        InputError: they are on this machine and cannot be written.
    """
    stores = str(data.get("stores") or default_stores(workspace))
    if os.path.isdir(stores) and not os.access(stores, os.W_OK):
        raise InputError(
            f"{stores}: expected a folder that can be written, since the command keeps what it "
            "computes beside what it reads, and found one that is read-only here; copy the "
            "workspace, or search its generation in Python with raypipe.open_index, which writes "
            "nothing"
        )
    return stores


def _held(path: Path) -> dict[str, Any]:
    """The data of a workspace's recipe, with the parts that a single stage is made from.

    Raises:
        InputError: it cannot be read, or it is not a pipeline's.
    """
    data = read_resolved(path)
    stages = data.setdefault("stages", {})
    typed = isinstance(stages, dict) and all(
        isinstance(stage, dict) and isinstance(stage.get("do"), str) for stage in stages.values()
    )
    if not typed or not isinstance(data.get("collection"), dict):
        raise InputError(
            f"{path}: expected a collection, and stages with `do`, found none or others; name the "
            "workspace of `raypipe pipeline` or of one of its stages"
        )
    return data


def _place(path: Path) -> str:
    """A file's absolute path, or `irds:ID` as it is."""
    return str(path.absolute()) if dataset_id(path) is None else str(path)


PACKED = ("", ".gz", ".bz2", ".zst")
BEIR_MODEL = "minilm"


def beir_recipe(folder: Path, split: str, model: str, overrides: list[str]) -> Recipe:
    """The packaged recipe `english` over this folder; the query set has the split's name.

    Raises:
        InputError: a file is missing, or the overrides are wrong.
    """
    names = {"corpus": "corpus.jsonl", "queries": "queries.jsonl", "qrels": f"qrels/{split}.tsv"}
    paths = {key: _packed(folder / name) for key, name in names.items()}
    lacking = [
        f"{folder / names[key]}: no such file; expected BEIR's layout{_others(folder)}"
        for key, path in paths.items()
        if path is None
    ]
    if lacking:
        raise InputError(lacking)
    body: dict[str, Any] = parse_yaml(recipe_text("english"), origin=str).data
    files = {"file": str(paths["queries"]), "qrels": str(paths["qrels"]), "only_judged": True}
    files["exclude"] = OWN_ID  # as BEIR's evaluation does
    body["collection"]["input"] = str(folder.absolute())
    body["queries"] = {split: files}
    if model != BEIR_MODEL:
        del body["models"][BEIR_MODEL]
        body["models"]["encoder"] = place_of(model)
        body["stages"]["embeddings"]["model"] = "encoder"
    body["evaluate"]["topics"] = f"{folder.absolute().name}, {split}"
    return load_recipe(body, overrides=overrides, source="raypipe beir")


def _packed(path: Path) -> Path | None:
    every = (path.with_name(path.name + ending).absolute() for ending in PACKED)
    return next((each for each in every if each.is_file()), None)


def _others(folder: Path) -> str:
    """The splits that there are, for a message."""
    names = sorted({path.name.split(".")[0] for path in (folder / "qrels").glob("*.tsv*")})
    return f" with --split {' or '.join(names)}" if names else ""
