"""Runs a training recipe to completion: stores, examples, the training, the model folder."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from raypipe.config import Training, missing_inputs
from raypipe.config.phases import PhasedTraining, resolved_training, trainings_of
from raypipe.config.training_rules import kind_of
from raypipe.driver.execute import Watcher
from raypipe.driver.invocation import invocation, work_begins
from raypipe.driver.mirror import write_out
from raypipe.driver.place import LazyBackends
from raypipe.driver.signals import interruptible
from raypipe.driver.training.log import Follower
from raypipe.driver.training.phases import (
    Part,
    check_phases,
    check_reachable,
    in_phases,
    model_folders,
)
from raypipe.driver.training.place import (
    TrainInvocation,
    TrainOptions,
    backend_of,
    check_fits,
    devices_of,
    place_of,
    start_model,
    threads_of,
)
from raypipe.driver.training.sets import Sets, training_sets, with_ids, with_length
from raypipe.driver.training.start import with_own_settings, with_start
from raypipe.driver.workspace import Workspace, begun_store, complete_store, refuse_users_files
from raypipe.errors import InputError, RaypipeError, RefusedError
from raypipe.evaluation.names import parse_measures
from raypipe.hub_names import is_hub
from raypipe.markdown import Table, Text
from raypipe.models.folder.adapters import adapter_folder
from raypipe.models.folder.model_folder import starting_weights
from raypipe.storage.files import replace_file
from raypipe.storage.lease import acquire
from raypipe.storage.records import Manifest, Shard
from raypipe.training.checkpoints import Checkpoints, best_of, measured_sets
from raypipe.training.comm import Comm
from raypipe.training.export import commit, made_by, write_model
from raypipe.training.fit import fit
from raypipe.training.job import Job, conventions_of_training
from raypipe.training.peer_files import model_card
from raypipe.training.start import drawn_lines

SHARD = Shard(0, 0, 1)


@dataclass
class Trained:
    """What is printed after a training."""

    summary: dict[str, Any]
    table: Text
    model: Path


def run_training(
    recipe: Training | PhasedTraining,
    out: Path,
    options: TrainOptions | None = None,
    *,
    watcher: Watcher,
    say: Callable[[str], None],
) -> Trained:
    """The trained model in OUT/models/NAME; a finished training, or phase of it, is not repeated.

    Raises:
        RaypipeError: whatever ended the invocation; summary.json has its exit code, and the same
            command resumes from the last checkpoint.
    """
    options = options or TrainOptions()
    problems = missing_inputs(recipe)
    if problems:
        raise InputError(problems)
    start = trainings_of(recipe)[0].model.start
    if not is_hub(start):  # else it is not here yet
        recipe = with_own_settings(recipe)
    for each in trainings_of(recipe):
        if kind_of(each.model) is not None:
            conventions_of_training(each.model)  # a contradiction is refused before any work
        if each.validate_ is not None and each.masking is None:
            parse_measures([each.validate_.measure])
    first = trainings_of(recipe)[0]
    if not is_hub(start):
        check_phases(recipe)
    check_reachable(recipe, out, joins=place_of(first, options).joins)
    refuse_users_files(out, ["recipe.yaml", "table.md"], model_folders(recipe))
    workspace = Workspace(out, first.stores)
    with invocation(workspace, recipe.name) as summary, interruptible() as should_stop:
        if is_hub(start):
            recipe = with_own_settings(with_start(recipe, workspace.folder, say))
            check_phases(recipe)
        work_begins(workspace, summary)
        write_out(workspace.folder, "recipe.yaml", resolved_training(recipe).encode())
        workspace.wrote(workspace.folder / "recipe.yaml")
        chosen = devices_of(first, options)
        say(chosen.line())
        backends = LazyBackends(lambda: backend_of(first, chosen, options), chosen.num_actors)
        at = TrainInvocation(workspace, options, chosen, backends, watcher, say, should_stop)
        try:
            told, table, folder = in_phases(recipe, partial(_one, at), say)
        finally:
            backends.close()
        summary["device"] = chosen.line().removeprefix("device: ")
        replace_file(workspace.folder / "table.md", table.encode())
        workspace.wrote(workspace.folder / "table.md")
        summary |= told
    return Trained(summary, table, folder)


def _one(at: TrainInvocation, part: Part) -> tuple[dict[str, Any], Text, Path]:
    """Summary, table and model folder of one training."""
    recipe, workspace = part.recipe, at.workspace
    start = start_model(recipe)
    check_fits(recipe, start, at.chosen, at.options)
    split = part.folder(workspace, "triples")
    named = with_ids(recipe, split)
    if named != recipe:
        workspace.wrote(split)
    part = replace(part, recipe=named)
    sets = training_sets(part, start, at)
    named = with_length(named, sets, at.say)
    for line in drawn_lines(recipe, start):
        sets.lines.append(line)
        at.say(line)
    job = Job(
        named,
        start,
        sets.train,
        sets.dev,
        workspace.stores,
        part.phase,
        part.new_head,
        sets.texts,
    )
    follower = Follower(job, part.folder(workspace, "train"), at.say)
    return finish(job, _train(job, at, follower), sets, workspace, part)


def _train(job: Job, at: TrainInvocation, follower: Follower) -> Manifest:
    """The finished store of the training."""
    workspace, chosen, options, backends = at.workspace, at.chosen, at.options, at.backends
    recipe, store = job.recipe, job.store
    standing = complete_store(workspace, store, job.spec)
    if standing is not None:
        return standing
    workspace.mark()
    lease = acquire(workspace.stores, f"{job.folder}/lease.json", gone=workspace.gone)

    def stop() -> RaypipeError | None:
        if lease.lost:
            return RefusedError(f"{store}: another invocation has taken over this training")
        return at.should_stop()

    try:
        ledger = begun_store(workspace, store, job.spec, [SHARD])
        with follower:
            if recipe.resources.backend == "inline":
                threads = threads_of(recipe, chosen, options)
                fit(
                    job,
                    Comm(),
                    device=chosen.device,
                    threads=threads,
                    tell=follower.write,
                    should_stop=stop,
                )
                commit(job, device=chosen.device)
            else:
                from raypipe.cluster.ray_pool import RayBackend
                from raypipe.cluster.ray_train import train_on_ray

                ray_backend = backends.get()
                assert isinstance(ray_backend, RayBackend)
                ray_backend.end_idle()
                train_on_ray(
                    job,
                    device=chosen.device,
                    threads=threads_of(recipe, chosen, options),
                    folder=follower.folder,
                    should_stop=stop,
                    on_workers=lease.add_processes,
                    check=ray_backend.check,
                )
        manifest = ledger.publish()
        if not lease.lost:  # a successor would still read them
            Checkpoints(workspace.stores, job.folder).clear()
        return manifest
    except BaseException:
        backends.close()  # before the lease: afterwards, nothing of this training may write
        raise
    finally:
        lease.release()


def training_table(
    job: Job, history: Sequence[dict[str, Any]], notes: Sequence[str], saw: str
) -> Text:
    """The measurements and the training data."""
    recipe = job.recipe
    phase = "" if job.phase is None else f": {job.phase}"
    lines: list[str | Table] = [f"# {recipe.name}{phase}", ""]
    if history:
        names = measured_sets(recipe)
        assert recipe.validate_ is not None
        on = "held-out inputs" if job.is_pretraining else "dev sets"
        measure = recipe.validate_.measure
        lines += [f"{measure} on {on}:", ""]
        best = best_of(history, measure) if len(history) > 1 else None
        rows = [
            [
                f"{each['step']:,}{' (chosen)' if each is best else ''}",
                *(f"{value:.4f}" for value in (*each["values"], each["mean"])),
            ]
            for each in history
        ]
        lines.append(Table("", ["step", *names, "mean"], rows))
        chosen = "the model is the checkpoint that is best here, so these are not test results"
        once = "measured once: nothing was chosen on these queries"
        if job.is_pretraining:
            once = "measured once: nothing was chosen on these inputs"
        lines += ["", f"- {chosen if len(history) > 1 else once}"]
    lines += [f"- {line}" for line in notes]
    return Text([*lines, f"- its weights have seen: {saw}", ""])


def finish(
    job: Job, manifest: Manifest, sets: Sets, workspace: Workspace, part: Part
) -> tuple[dict[str, Any], Text, Path]:
    """Summary, table and model folder of a finished training; the folder is written anew."""
    recipe = job.recipe
    record = manifest.records[0]
    folder = workspace.folder / "models" / part.model_name()
    seen = seen_at_start(job) if part.seen is None else part.seen
    saw = f"{seen}; then {', '.join(recipe.train)} ({part.named})"
    payload = workspace.stores.local(record.sha256)
    history, step = record.facts["history"], record.facts["step"]
    table = training_table(job, history, sets.lines, saw)
    card = model_card(job, made_by(job, step), table)
    write_model(job, payload, folder, step=step, saw=saw, card=card)
    workspace.wrote(folder)
    summary = {
        "model": f"models/{part.model_name()}",
        "step": record.facts["step"],
        "history": history,
        "examples": sets.facts,
        "fingerprint": manifest.fingerprint,
        "numerics": record.facts["numerics"],
    }
    return summary, table, folder


def seen_at_start(job: Job) -> str:
    """What the starting weights were trained on, including those of a starting adapter."""
    model = job.recipe.model
    base, adapter = model.start_saw or starting_weights(job.start), model.adapter
    if adapter is None or adapter.start is None:
        return base
    path = adapter_folder(adapter.start) / "raypipe.json"
    body = json.loads(path.read_bytes()) if path.exists() else {}
    return str(body.get("start_weights_saw", f"{base}; then what {adapter.start} does not name"))
