"""Recipes that commands make of their options: of a single stage, and of a BEIR folder."""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from raypipe.config.fields import OWN_ID
from raypipe.config.load import load_recipe, recipe_text
from raypipe.config.parts import PACKAGED_MODELS, Model
from raypipe.config.recipe import Recipe, WrittenRecipe
from raypipe.config.resolved import read_resolved
from raypipe.config.rules import DOCUMENTS
from raypipe.config.yaml import parse_yaml
from raypipe.data.formats.registry import format_of
from raypipe.driver.mirror import default_stores
from raypipe.driver.models import at_commit, models_before
from raypipe.errors import InputError, did_you_mean, listed
from raypipe.models.folder.model_folder import measurements, resolve_model
from raypipe.uris import address, dataset_id, hub_name, is_hub
from raypipe.vocabulary import K1, MEASURES

MODEL = "model"
"""The name of the model in a single-stage recipe."""
Body = dict[str, Any]
"""The data of a recipe, or of a part of it."""


class SingleStage(NamedTuple):
    """A command of one stage: its recipe as data, and the options that no recipe has."""

    body: Body
    tokens_of: str | None = None
    """See `Options`, as for `reading`."""
    reading: tuple[str, int | None] | None = None


def recipe_of(
    body: Mapping[str, Any],
    overrides: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
) -> Recipe:
    """The checked recipe with this data; an override `STAGE.KEY=VALUE` is of a stage.

    Raises:
        InputError: every problem found.
    """
    sections, stages = WrittenRecipe.model_fields, body.get("stages", {})
    keys, problems = list[str](), list[str]()
    for override in overrides:
        key, equals, _ = override.partition("=")
        first, names = key.partition(".")[0], [*stages, *sections]
        keys.append(override if first in sections or not equals else f"stages.{override}")
        if equals and first not in names:
            hint = did_you_mean(first, names)
            problem = f"no stage or section {first!r}{hint} there are: {listed(names)}"
            problems.append(f"{override}: {problem}")
    if problems:
        raise InputError(problems)
    whole = {"format": 1, "name": "single", **{key: value for key, value in body.items() if value}}
    return load_recipe(whole, overrides=keys, env=env, source="the command line")


def set_keys(**options: Any) -> Body:
    """The options that have a value, by their keys in a stage."""
    return {key: value for key, value in options.items() if value is not None}


def files_of(format: str, inputs: Sequence[str]) -> Body:
    """The recipe's entry for a collection in files, whose documents are split as in the paper."""
    if format != "ir-datasets":
        inputs = [path if "://" in path else str(Path(path).absolute()) for path in inputs]
    return {"collection": {"format": format, "input": [*inputs], **split_of(format)}}


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


def model_of(path: str, preset: str | None) -> Body:
    """The recipe's entry for one model."""
    return {"models": {MODEL: {**place_of(path), **set_keys(preset=preset)}}}


def place_of(path: str) -> dict[str, str]:
    """The keys of a recipe's model that say where it is: as given on the command line."""
    named = None if path in PACKAGED_MODELS else hub_name(path, Path())
    if named is None:
        known = path in PACKAGED_MODELS or is_hub(path)
        return {"path": path if known else str(Path(path).absolute())}
    return {"path": named.uri, **({"revision": named.revision} if named.revision else {})}


def search_stage(index: Path, queries: Path, model: str | None, **keys: Any) -> Body:
    """A search of one `index` or `encode` stage of a workspace.

    Raises:
        InputError: no workspace, no such stage, or several stages and no name.
    """
    data, stage = _searched(index, model)
    stages = data["stages"]
    over = str(stages[stage].get("embeddings", stage))  # of an index of impacts: what it is of
    parts = {name: stages[name] for name in (over, stage) if name in stages}
    used = parts.get(over, {}).get("model")
    models = data.get("models") or {}
    resources = _precision_of(data) if used is not None else {}
    word = str(resources.get("precision", ""))
    if word.startswith("int8"):  # of an encoder: what it computes in beside int8
        resources["precision"] = word.partition("+")[2] or "fp32"
    return {
        **collection_of(index),
        "models": {name: part for name, part in models.items() if name == used},
        "queries": {"queries": {"file": _place(queries)}},
        "resources": resources,
        "stages": {**parts, "search": {"do": "search", "index": stage, **set_keys(**keys)}},
    }


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


def score_stage(
    run: Path, collection: Path, queries: Path, model: Body, qrels: Path | None, **keys: Any
) -> Body:
    """A stage `score` over a stage `run`, which reads a run file.

    Raises:
        InputError: the collection is not there, or its format is unknown.
    """
    body = {
        **collection_of(collection),
        **model,
        "queries": {"queries": {"file": _place(queries)}},
        "stages": {
            "run": {"do": "read", "runs": {"queries": str(run.absolute())}},
            "score": {"do": "score", "run": "run", "model": MODEL, **set_keys(**keys)},
        },
    }
    if qrels is not None:
        body["queries"]["queries"]["qrels"] = _place(qrels)
        body["evaluate"] = {"measures": [*MEASURES], "baseline": "run"}
    return body


def opened_reranker(
    name: str, preset: str | None, out: Path, say: Callable[[str], None]
) -> tuple[Body, Body]:
    """The entry of `model_of` with a hub's commit, and the k1 of a duoBERT model.

    Raises:
        InputError: the hub does not say, or this is no reranker.
    """
    body = model_of(name, preset)
    keys = body["models"][MODEL]
    pinned = at_commit("--model", Model(**keys), models_before(out), say)
    keys |= {key: value for key in ("revision", "branch") if (value := getattr(pinned, key))}
    opened = resolve_model(address(pinned.path, pinned.revision), preset)
    if (note := measurements(opened)) is not None:
        say(f"{name}: {note}")
    return body, {"k1": K1} if opened.reranker.kind == "duo" else {}


def aggregate_stage(pairs: Path, method: str, **keys: Any) -> Body:
    """The stages of a workspace, and one more that makes a run of its pairs, named as the method.

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
    sections = ("collection", "queries", "models", "evaluate")
    body = {key: data[key] for key in sections if data.get(key)}
    if "evaluate" in body and body["evaluate"].get("baseline") not in data["stages"]:
        body["evaluate"].pop("baseline", None)
    stage = {"do": "aggregate", "pairs": stages[0], "method": method, **set_keys(**keys)}
    return {
        **body,
        "stores": _stores_of(data, pairs),
        "resources": _precision_of(data),
        "stages": {**data["stages"], method: stage},
    }


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
