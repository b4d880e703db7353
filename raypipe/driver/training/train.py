"""Runs a training recipe to completion: stores, examples, the training, the model folder."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from raypipe.config import Training, missing_training_inputs, resolved_yaml
from raypipe.driver.invocation import invocation
from raypipe.driver.machine import devices
from raypipe.driver.machine.backends import LazyBackends
from raypipe.driver.machine.signals import interruptible
from raypipe.driver.recipe.watching import Watcher
from raypipe.driver.training.log import Follower
from raypipe.driver.training.place import (
    TrainOptions,
    backend_of,
    check_fits,
    devices_of,
    start_model,
    threads_of,
)
from raypipe.driver.training.sets import Sets, training_sets
from raypipe.driver.training.table import training_table
from raypipe.driver.training.triple_sets import with_ids
from raypipe.driver.workspace import Workspace
from raypipe.errors import InputError, RaypipeError, RefusedError
from raypipe.evaluation.names import parse_measures
from raypipe.models.folder.adapters import adapter_folder
from raypipe.models.folder.model_folder import starting_weights
from raypipe.stages.stage import Sizing
from raypipe.storage.files import replace_file
from raypipe.storage.lease import acquire
from raypipe.storage.ledger import Ledger
from raypipe.storage.records import Manifest, Shard
from raypipe.storage.store_records import read_manifest, restore_plan, restore_spec
from raypipe.training.checkpoints.commit import commit
from raypipe.training.checkpoints.export import write_model
from raypipe.training.checkpoints.store import Checkpoints
from raypipe.training.fit import fit
from raypipe.training.job import Job, conventions_of_training
from raypipe.training.steps.comm import Solo

SHARD = Shard(0, 0, 1)


@dataclass
class Trained:
    """What is printed after a training."""

    summary: dict[str, Any]
    table: str
    model: Path


def run_training(
    recipe: Training,
    out: Path,
    options: TrainOptions | None = None,
    *,
    watcher: Watcher,
    say: Callable[[str], None],
) -> Trained:
    """The trained model in OUT/models/NAME; a finished training is not repeated.

    Raises:
        RaypipeError: whatever ended the invocation; summary.json has its exit code, and the same
            command resumes from the last checkpoint.
    """
    options = options or TrainOptions()
    problems = missing_training_inputs(recipe)
    if problems:
        raise InputError(problems)
    conventions_of_training(recipe.model)  # a contradiction is refused before any work
    if recipe.validate_ is not None:
        parse_measures([recipe.validate_.measure])
    workspace = Workspace(out, recipe.stores)
    with invocation(workspace, recipe.name) as summary, interruptible() as should_stop:
        replace_file(workspace.folder / "recipe.yaml", resolved_yaml(recipe).encode())
        workspace.wrote(workspace.folder / "recipe.yaml")
        chosen = devices_of(recipe, options)
        say(chosen.line())
        backends = LazyBackends(lambda: backend_of(recipe, chosen, options), lambda: chosen)
        try:
            start = start_model(recipe)
            check_fits(recipe, start, chosen, options)
            split = workspace.folder / "triples"
            named = with_ids(recipe, split)
            if named != recipe:
                workspace.wrote(split)
            sets = training_sets(
                named,
                start,
                workspace,
                backends,
                Sizing(num_actors=chosen.num_actors),
                watcher,
                say,
                should_stop,
            )
            job = Job(named, start, sets.train, sets.dev, workspace.stores)
            follower = Follower(job, workspace.folder / "train", say)
            manifest = _train(
                job, workspace, recipe, chosen, options, follower, backends, should_stop
            )
        finally:
            backends.close()
        trained = _finish(job, manifest, sets, workspace)
        summary |= trained.summary | {"device": chosen.line().removeprefix("device: ")}
        trained.summary = summary
    return trained


def _train(
    job: Job,
    workspace: Workspace,
    recipe: Training,
    chosen: devices.Devices,
    options: TrainOptions,
    follower: Follower,
    backends: LazyBackends,
    should_stop: Callable[[], RaypipeError | None],
) -> Manifest:
    """The finished store of the training."""
    store, fingerprint = job.store, job.spec.fingerprint()
    standing = read_manifest(workspace.stores, store, fingerprint)
    workspace.mark()
    if standing is not None:
        restore_spec(workspace.stores, store, job.spec)
        restore_plan(workspace.stores, standing)
        workspace.refer(store, fingerprint)
        return standing
    lease = acquire(workspace.stores, f"{job.folder}/lease.json", gone=workspace.gone)

    def stop() -> RaypipeError | None:
        if lease.lost:
            return RefusedError(f"{store}: another invocation has taken over this training")
        return should_stop()

    try:
        ledger = Ledger(workspace.stores, store, job.spec, [SHARD])
        workspace.refer(store, fingerprint)
        workspace.tell_stores()
        with follower:
            if recipe.resources.backend == "inline":
                threads = threads_of(recipe, chosen, options)
                fit(
                    job,
                    Solo(),
                    device=chosen.device,
                    threads=threads,
                    tell=follower.write,
                    should_stop=stop,
                )
                commit(job, device=chosen.device)
            else:
                from raypipe.cluster.ray_pool import RayBackend
                from raypipe.cluster.training.trainer import train_on_ray

                ray_backend = backends.get()
                assert isinstance(ray_backend, RayBackend)
                ray_backend.end_idle()
                train_on_ray(
                    job,
                    device=chosen.device,
                    threads=threads_of(recipe, chosen, options),
                    folder=workspace.folder / "train",
                    should_stop=stop,
                    on_workers=lease.add_processes,
                    check=ray_backend.check,
                )
        manifest = ledger.publish()
        if not lease.lost:  # a successor would still read them
            Checkpoints(workspace.stores, job.folder).clear()
        return manifest
    finally:
        backends.close()  # before the lease: afterwards, nothing of this training may write
        lease.release()


def _finish(job: Job, manifest: Manifest, sets: Sets, workspace: Workspace) -> Trained:
    recipe = job.recipe
    record = manifest.records[0]
    folder = workspace.folder / "models" / recipe.name
    saw = f"{_seen_at_start(job)}; then {', '.join(recipe.train)} ({recipe.name})"
    payload = workspace.stores.local(record.sha256)
    write_model(job, payload, folder, step=record.facts["step"], saw=saw)
    history = record.facts["history"]
    table = training_table(job, history, sets.lines, saw)
    replace_file(workspace.folder / "table.md", table.encode())
    workspace.wrote(folder, workspace.folder / "table.md")
    summary = {
        "model": f"models/{recipe.name}",
        "step": record.facts["step"],
        "history": history,
        "examples": sets.facts,
        "fingerprint": manifest.fingerprint,
        "numerics": record.facts["numerics"],
    }
    return Trained(summary, table, folder)


def _seen_at_start(job: Job) -> str:
    """What the starting weights were trained on, including those of a starting adapter."""
    base, adapter = starting_weights(job.start), job.recipe.model.adapter
    if adapter is None or adapter.start is None:
        return base
    path = adapter_folder(adapter.start) / "raypipe.json"
    body = json.loads(path.read_bytes()) if path.exists() else {}
    return str(body.get("start_weights_saw", f"{base}; then what {adapter.start} does not name"))
