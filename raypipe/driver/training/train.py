"""Runs a training recipe to completion: stores, examples, the training, the model folder."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from raypipe.config.paths import missing_inputs
from raypipe.config.phases import PhasedTraining, resolved_training, trainings_of
from raypipe.config.training import Training
from raypipe.config.training_rules import kind_of
from raypipe.driver.execute import Execution, ShouldStop, Watcher, WorkersOfStore
from raypipe.driver.invocation import invocation
from raypipe.driver.mirror import write_out
from raypipe.driver.place import place_for, threads_of
from raypipe.driver.signals import interruptible
from raypipe.driver.training.log import Follower
from raypipe.driver.training.notes import notes_of
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
    check_fits,
    start_model,
)
from raypipe.driver.training.sets import Sets, training_sets, with_ids, with_length
from raypipe.driver.training.start import check_start, with_own_settings, with_start
from raypipe.driver.workspace import Workspace, refuse_users_files
from raypipe.errors import InputError
from raypipe.evaluation.names import parse_measures
from raypipe.markdown import Table, Text
from raypipe.models.folder.adapters import adapter_folder
from raypipe.models.folder.model_folder import starting_weights
from raypipe.stages.stage import Opened, Site, Sizing, Stage
from raypipe.storage.records import Manifest, Shard
from raypipe.storage.spec import StageSpec
from raypipe.training.checkpoints import Checkpoints, best_of, measured_sets
from raypipe.training.comm import Comm
from raypipe.training.export import commit, made_by, write_model
from raypipe.training.fit import fit
from raypipe.training.job import Job, conventions_of_training
from raypipe.training.peer_files import model_card
from raypipe.training.start import drawn_lines
from raypipe.uris import is_hub


@dataclass
class Trained:
    """The summary, table and model folder of a training, for its last lines."""

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
    # 1. The recipe.
    first = trainings_of(recipe)[0]
    at, of_hub = (options or TrainOptions()).at(first), is_hub(first.model.start)
    problems = missing_inputs(recipe)
    if problems:
        raise InputError(problems)
    if not of_hub:  # else it is not here yet
        recipe = with_own_settings(recipe)
    for each in trainings_of(recipe):
        if kind_of(each.model) is not None:
            conventions_of_training(each.model)  # a contradiction is refused before any work
        if each.validate_ is not None and each.masking is None:
            parse_measures([each.validate_.measure])
    if not of_hub:
        check_phases(recipe)

    # 2. The workspace.
    check_reachable(recipe, out, joins=at.joins)
    refuse_users_files(out, ["recipe.yaml", "table.md"], model_folders(recipe))
    workspace = Workspace(out, first.stores)
    with invocation(workspace, recipe.name) as summary, interruptible() as should_stop:
        # 3. The place where it is computed.
        with place_for(first.resources, at, should_stop=should_stop) as place:
            say(place.devices.line())

            # 4. The starting model.
            if of_hub:
                recipe = with_own_settings(with_start(recipe, workspace.folder, say))
                check_phases(recipe)

            # 5. and 6. The sets and their stores, of one phase after the other.
            workspace.work_begins()
            write_out(workspace.folder, "recipe.yaml", resolved_training(recipe).encode())
            workspace.wrote(workspace.folder / "recipe.yaml")
            execution = Execution(
                workspace,
                place.backends,
                place.sizing,
                watcher,
                should_stop=should_stop,
                on_change=say,
            )
            of_all = TrainInvocation(execution, place.devices, at)
            entries, table, folder = in_phases(recipe, partial(_one, of_all), say)

            # 7. The measurements as a table.
            summary["device"] = place.devices.line().removeprefix("device: ")
            workspace.write("table.md", table.encode())
            summary |= entries
    return Trained(summary, table, folder)


def _one(at: TrainInvocation, part: Part) -> tuple[dict[str, Any], Text, Path]:
    """Summary, table and model folder of one training."""
    recipe, workspace = part.recipe, at.workspace
    start = start_model(recipe)
    check_fits(recipe, start, at.chosen, at.place)
    split = part.folder(workspace, "triples")
    named = with_ids(recipe, split)
    if named != recipe:
        workspace.wrote(split)
    part = replace(part, recipe=named)
    sets = training_sets(part, start, at)
    named = with_length(named, sets, at.say)
    for line in (*drawn_lines(recipe, start), *notes_of(named, sets.facts, start.config())):
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
    stage = WeightsStage(job, at, part.folder(workspace, "train"), is_first=part.seen is None)
    weights = at.execution.ensure(job.name, stage, stage.compute)
    if stage.is_only_one:
        Checkpoints(workspace.stores, job.folder).clear()
    return finish(job, weights.manifest, sets, workspace, part)


@dataclass
class WeightsStage(Stage):
    """The trained weights, the one shard of their store, which all workers make together."""

    job: Job
    at: TrainInvocation
    folder: Path
    """The folder of its curves."""
    is_first: bool
    """Whether it starts from a model of the user's, not from that of the phase before."""
    is_only_one: bool = False
    """Whether this invocation computed it, and no successor reads its checkpoints."""

    @property
    def spec(self) -> StageSpec:
        """The job's."""
        return self.job.spec

    def shards(self, sizing: Sizing) -> list[Shard]:
        """One shard."""
        return [Shard(0, 0, 1)]

    def open(self, site: Site) -> Opened:
        """No worker of stages opens it: `compute` makes its one shard."""
        raise AssertionError(f"{self.job.store}: a training has workers of its own")

    def compute(self, workers: WorkersOfStore, should_stop: ShouldStop) -> None:
        """Train to the end, from the newest checkpoint if there is one, and commit the weights."""
        job, at, backends = self.job, self.at, self.at.execution.backends
        if at.execution.find(job.name, job.spec) is not None:
            return  # another invocation has trained it while this one waited for its lease
        if self.is_first:
            check_start(job, at.workspace.stores, at.say)
        device, threads = at.chosen.device, threads_of(job.recipe.resources, at.place, at.chosen)
        try:
            with Follower(job, self.folder, at.say) as follower:
                if job.recipe.resources.backend == "inline":
                    fit(
                        job,
                        Comm(),
                        device=device,
                        threads=threads,
                        tell=follower.write,
                        should_stop=should_stop,
                    )
                    commit(job, device=device)
                else:
                    from raypipe.cluster.ray_pool import RayBackend
                    from raypipe.cluster.ray_train import train_on_ray

                    ray_backend = backends.get()
                    assert isinstance(ray_backend, RayBackend)
                    ray_backend.end_idle()
                    train_on_ray(
                        job,
                        device=device,
                        threads=threads,
                        folder=self.folder,
                        should_stop=should_stop,
                        on_workers=workers.add,
                        check=ray_backend.check,
                        alone=ray_backend.alone,
                    )
            self.is_only_one = workers.overtaken() is None
        except BaseException:
            backends.close()  # before the lease: afterwards, nothing of this training may write
            raise


def training_table(
    job: Job,
    history: Sequence[dict[str, Any]],
    notes: Sequence[str],
    saw: str,
    start: float | None = None,
) -> Text:
    """The measurements, that of the start model where it is best, and the training data."""
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
        highest = best_of(history, measure)
        if highest is not None and start is not None:
            worse = highest["mean"] > start if job.is_pretraining else highest["mean"] < start
            if worse:
                lines.append(
                    f"- the start model measured {start:.4f}, which no checkpoint reached; it is "
                    "never chosen"
                )
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
    table = training_table(job, history, sets.lines, saw, record.facts.get("start"))
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
    """The data that the starting weights were trained on, including those of a starting adapter."""
    model = job.recipe.model
    base, adapter = model.start_saw or starting_weights(job.start), model.adapter
    if adapter is None or adapter.start is None:
        return base
    path = adapter_folder(adapter.start) / "raypipe.json"
    body = json.loads(path.read_bytes()) if path.exists() else {}
    return str(body.get("start_weights_saw", f"{base}; then what {adapter.start} does not name"))
