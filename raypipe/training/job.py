"""All that a worker of one training needs, as it is sent to it."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import torch
from safetensors.torch import load_file

from raypipe import schema
from raypipe.config.training import TrainedModel, Training
from raypipe.data.qrels import read_qrels
from raypipe.errors import InputError
from raypipe.models.adapters import CONFIG, WEIGHTS, adapter_folder
from raypipe.models.conventions import AnyConventions, PairConventions
from raypipe.models.loading import ModelFolder, load_weights, special_ids
from raypipe.models.presets import PRESETS, conventions_problems
from raypipe.stages.ids import ids_of_rows
from raypipe.stages.run_tables import read_queries_of_run
from raypipe.stages.token_rows import TokenRows
from raypipe.storage.records import hash_file
from raypipe.storage.spec import StageSpec
from raypipe.storage.storage import Storage
from raypipe.storage.stored import Stored
from raypipe.training.batch import Source
from raypipe.training.examples import map_examples
from raypipe.training.lowrank import PEFT, LowRank
from raypipe.training.start import starting_tensors
from raypipe.training.step import Specials
from raypipe.training.trainee import Trainee
from raypipe.training.validate import DevData

SEMANTICS = 1


@dataclass(frozen=True)
class TrainStores:
    """A training set's stores."""

    examples: Stored
    query_tokens: Stored
    passage_tokens: Stored


@dataclass(frozen=True)
class DevStores:
    """A dev set's stores, and its judgements' file."""

    run: Stored
    queries: Stored
    collection: Stored
    query_tokens: Stored
    passage_tokens: Stored
    qrels: str
    qrels_sha256: str
    k: int
    queries_at_most: int | None


@dataclass(frozen=True)
class Job:
    """One training."""

    recipe: Training
    start: ModelFolder
    train: tuple[TrainStores, ...]
    dev: tuple[DevStores, ...]
    storage: Storage

    @property
    def store(self) -> str:
        """The store's name."""
        return f"train-{self.recipe.name}"

    @cached_property
    def folder(self) -> str:
        """Where its checkpoints are."""
        return f"{self.store}/{self.spec.fingerprint()}"

    @property
    def conventions(self) -> AnyConventions:
        """Those of the model that comes out."""
        return conventions_of_training(self.recipe.model)

    @cached_property
    def spec(self) -> StageSpec:
        """Start weights, examples, dev sets and settings; not where it runs."""
        recipe = self.recipe
        body = recipe.model_dump(
            mode="json",
            include={"model", "loss", "steps", "batch", "accumulation", "optimiser"}
            | {"dropout", "seed", "validate_"},
            exclude={"model": {"start"}},
        )
        body["conventions"] = self.conventions.to_json()
        if recipe.model.adapter is not None and recipe.model.adapter.start is not None:
            del body["model"]["adapter"]["start"]
            body["adapter_sha256"] = hash_file(adapter_folder(recipe.model.adapter.start) / WEIGHTS)
        body["start_sha256"] = self.start.weights_sha256
        body["tokenizer_sha256"] = self.start.tokenizer_sha256
        body["precision"] = recipe.resources.precision
        inputs = {}
        for number, train in enumerate(self.train):
            for name, stored in vars(train).items():
                inputs[f"train.{number}.{name}"] = stored.digest
        for number, dev in enumerate(self.dev):
            inputs[f"dev.{number}.run"] = dev.run.digest
            inputs[f"dev.{number}.queries"] = dev.query_tokens.digest
            inputs[f"content:dev.{number}.qrels"] = dev.qrels_sha256
            body[f"dev.{number}"] = [dev.k, dev.queries_at_most]
        return StageSpec("train", SEMANTICS, body, inputs)


def conventions_of_training(model: TrainedModel) -> AnyConventions:
    """The preset's conventions with what the recipe lays over them.

    Raises:
        InputError: they contradict each other.
    """
    names = ("query_limit", "passage_limit", "total_limit", "segment_row")
    found = PRESETS[model.preset]
    given = {name: getattr(model, name) for name in names if getattr(model, name) is not None}
    if isinstance(found, PairConventions):
        given["relevant_label"] = None if model.head == 1 else found.relevant_label
        if found.kind == "duo":
            given.setdefault("segment_row", "copy")
    elif "total_limit" in given:
        raise InputError("model.total_limit: an encoder has query_limit and passage_limit")
    changed = replace(found, **given)
    problems = conventions_problems(changed)
    if problems:
        raise InputError([f"model.{problem}" for problem in problems])
    return changed


def specials_of(job: Job) -> Specials:
    """[CLS] and [SEP] of the tokenizer."""
    return Specials(*special_ids(job.start))


def trainee_of(job: Job, device: str) -> Trainee:
    """The model before its first step, the same in every worker."""
    recipe, conventions = job.recipe, job.conventions
    config = job.start.config()
    units = recipe.model.head
    tensors = starting_tensors(
        load_weights(job.start), config, conventions, num_units=units, seed=recipe.seed
    )
    adapter = recipe.model.adapter
    trainee = Trainee(
        tensors,
        config,
        conventions,
        low_rank=None if adapter is None else LowRank(adapter.rank, adapter.alpha),
        seed=recipe.seed,
        device=device,
        dropout=recipe.dropout,
        recompute=recipe.resources.recompute,
        bf16=recipe.resources.precision == "bf16",
    )
    if adapter is not None and adapter.start is not None:
        start_from_(trainee, adapter_folder(adapter.start))
    return trainee


def start_from_(trainee: Trainee, folder: Path) -> None:
    """Set the low-rank weights to those of an adapter; what it lacks stays as it was drawn.

    Raises:
        InputError: it is of another rank or model.
    """
    told = json.loads((folder / CONFIG).read_bytes())
    own = trainee.low_rank
    assert own is not None
    if (told["r"], told["lora_alpha"]) != (own.rank, own.alpha):
        raise InputError(
            f"{folder}: expected an adapter of rank {own.rank} and alpha {own.alpha}, found rank "
            f"{told['r']} and alpha {told['lora_alpha']}"
        )
    saved = {n.removeprefix(PEFT): t for n, t in load_file(folder / WEIGHTS).items()}
    for name, weight in trainee.weights.items():
        found = saved.get(name)
        if found is None and "lora_" not in name:
            continue
        if found is None or (found.shape != weight.shape and "embeddings" not in name):
            told = "none" if found is None else list(found.shape)
            raise InputError(f"{folder}: {name}: expected {list(weight.shape)}, found {told}")
        if found.shape == weight.shape:
            with torch.no_grad():
                weight.copy_(found)


def sources_of(job: Job) -> list[Source]:
    """The training sets, mapped."""
    return [
        Source(
            map_examples(train.examples.path(train.examples.manifest.records[0])),
            TokenRows(train.query_tokens),
            TokenRows(train.passage_tokens),
        )
        for train in job.train
    ]


def dev_of(job: Job) -> Sequence[DevData]:
    """The dev sets in memory."""
    return [_dev(dev) for dev in job.dev]


def _dev(dev: DevStores) -> DevData:
    ids = dev.queries.table(schema.QUERIES)["query_id"].to_pylist()
    qrels = read_qrels(Path(dev.qrels))
    if dev.queries_at_most is not None:
        ids = ids[: dev.queries_at_most]
    qrels = qrels.filter(pc.is_in(qrels["query_id"], pc.cast(ids, "string")))
    if not any(grade > 0 for grade in qrels["relevance"].to_pylist()):
        raise InputError(
            f"{dev.qrels}: no relevant passage for the queries that are measured on; a checkpoint "
            "cannot be chosen by them"
        )
    run = read_queries_of_run(dev.run, 0, len(ids))
    rows = sorted(set(run["passage_row"].to_pylist()))
    names = ids_of_rows(dev.collection, np.array(rows, np.int64))
    return DevData(
        run=run,
        query_ids=dict(enumerate(ids)),
        passage_ids=dict(zip(rows, names, strict=True)),
        qrels=qrels,
        queries=TokenRows(dev.query_tokens),
        passages=TokenRows(dev.passage_tokens),
        k=dev.k,
    )
