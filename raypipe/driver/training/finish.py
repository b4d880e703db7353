"""The end of a training: its model folder, and what summary and table say of it."""

import json
from pathlib import Path
from typing import Any

from raypipe.driver.training.part import Part
from raypipe.driver.training.sets import Sets
from raypipe.driver.training.table import training_table
from raypipe.driver.workspace import Workspace
from raypipe.models.folder.adapters import adapter_folder
from raypipe.models.folder.model_folder import starting_weights
from raypipe.storage.records import Manifest
from raypipe.training.export import made_by, write_model
from raypipe.training.job import Job
from raypipe.training.peer_files import model_card


def finish(
    job: Job, manifest: Manifest, sets: Sets, workspace: Workspace, part: Part
) -> tuple[dict[str, Any], str, Path]:
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
