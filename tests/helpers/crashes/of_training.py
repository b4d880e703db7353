"""Scenarios of a training: its checkpoints, its commit, its model folder."""

import json
import tempfile
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import tiny
import torch
from safetensors.torch import load_file, save_file

from crashes.of_storage import stores
from crashes.trial import Scenario
from raypipe.data.triple_texts import FILES
from raypipe.driver.training.sets import with_ids
from raypipe.driver.workspace import Workspace
from raypipe.models.folder.model_folder import load_weights, resolve_model
from raypipe.storage.ledger import Ledger
from raypipe.storage.records import Shard
from raypipe.storage.spec import StageSpec
from raypipe.training.checkpoints import Checkpoints
from raypipe.training.export import commit, write_model
from raypipe.training.start import starting_tensors

SPEC = StageSpec("train", 1)
STORE = "weights@x"
FOLDER = f"{STORE}/{SPEC.fingerprint()}"


def job_of(root):
    precision = SimpleNamespace(precision="fp32")
    recipe = SimpleNamespace(steps=9, validate_=None, resources=precision, masking=None)
    return SimpleNamespace(
        storage=stores(root), store=STORE, folder=FOLDER, spec=SPEC, recipe=recipe
    )


def checkpoints(root):
    return Checkpoints(stores(root), FOLDER)


def state(step):
    return {"weight.w": torch.full((8,), float(step)), "first.w": torch.full((8,), step / 2)}


def ledger_of(root):
    return Ledger(stores(root), STORE, SPEC, [Shard(0, 0, 1)])


def three_saved(root):
    work = Workspace(root)
    work.mark()
    work.refer(STORE, SPEC.fingerprint())
    ledger_of(root)
    for step in (2, 4, 6):
        checkpoints(root).save(step, state(step), {})


def save(root):
    """As after a step; a checkpoint that stands is computed and saved again."""
    found = checkpoints(root)
    found.save(8, state(8), {})
    found.prune({2}, up_to=8)


def look_at_checkpoints(root):
    """The newest one, loaded, and which of the older ones can be loaded."""
    found = checkpoints(root)
    steps = [step for step in (2, 4, 6, 8) if found.has(step)]
    for step in steps:
        loaded = found.load(found.at(step))
        assert loaded["weight.w"].tolist() == [float(step)] * 8
    return {"newest": steps[-1], "best": 2 in steps, "pruned": 4 in steps}


def finish(root):
    """As a training ends: its weights are committed and published, its checkpoints go."""
    ledger = ledger_of(root)
    if ledger.manifest() is None:
        if ledger.pending():
            commit(job_of(root), device="cpu")
        ledger.publish()
    checkpoints(root).clear()


def look_at_weights(root):
    """The published weights; before that, the newest checkpoint is there to commit them."""
    manifest = ledger_of(root).manifest()
    if manifest is None:
        return {"weights": look_at_checkpoints(root)["newest"] - 6.0}
    file = stores(root).local(manifest.records[0].sha256)
    return {"weights": load_file(file)["w"].tolist()}


@cache
def start():
    """A tiny model and trained weights for it, outside of what is disturbed."""
    folder = Path(tempfile.mkdtemp(prefix="raypipe-tests-"))
    model = resolve_model(str(tiny.make_tiny_reranker(folder / "start", seed=1)))
    own = load_weights(model)
    tensors = starting_tensors(own, model.config(), model.conventions, num_units=2, seed=0)
    save_file({name: tensor + 1.0 for name, tensor in tensors.items()}, folder / "payload")
    return model, folder / "payload"


def write(root, step=2):
    model, payload = start()
    body = {"seed": 0, "name": "r", "steps": 9, "batch": 1, "accumulation": 1}
    recipe = SimpleNamespace(
        model=SimpleNamespace(head=2, adapter=None, draw_missing=False),
        loss=SimpleNamespace(name="l"),
        model_dump=lambda **given: {},
        **body,
    )
    job = SimpleNamespace(
        recipe=recipe,
        start=model,
        conventions=model.conventions,
        spec=SPEC,
        is_pretraining=False,
        new_head=False,
        phase=None,
    )
    write_model(job, payload, root / "models" / "r", step=step, saw="nothing")


def written_before(root):
    Workspace(root)
    write(root, step=1)


def look_at_model(root):
    """The whole folder, by which step it is of; None if it is absent."""
    folder = root / "models" / "r"
    if not folder.exists():
        return {"model": None}
    names = sorted(path.name for path in folder.iterdir())
    return {"model": [json.loads((folder / "raypipe.json").read_bytes())["made_by"]["step"], names]}


def absent(part, seen):
    """Between the old folder and the new one: the next invocation writes it."""
    return seen is None


def triples(root):
    Workspace(root)
    lines = [f"query {i}\tpassage {i}\tpassage {i + 1}\n" for i in range(3)]
    (root / "triples.tsv").write_text("".join(lines))


def split(root):
    """Texts of triples become files in the workspace, once; a note says that they are whole."""
    source = SimpleNamespace(texts=str(root / "triples.tsv"), model_copy=lambda update: update)
    recipe = SimpleNamespace(collections={}, train={"t": source}, model_copy=lambda update: update)
    with_ids(recipe, root / "triples")


def look_at_split(root):
    folder = root / "triples" / "t"
    note = folder / "made-from.json"
    if not note.exists():
        return {"files": None}
    assert json.loads(note.read_bytes())["semantics"] == 2
    return {"files": [(folder / name).read_bytes() for name in FILES]}


SCENARIOS = [
    Scenario("a checkpoint: saved, older ones pruned", three_saved, save, look_at_checkpoints),
    Scenario("a training's commit", three_saved, finish, look_at_weights),
    Scenario("a model folder", written_before, write, look_at_model, absent),
    Scenario("a training set of texts", triples, split, look_at_split),
]
