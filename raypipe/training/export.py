"""The chosen weights: committed at the end of a training, and written as a model folder."""

import hashlib
import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file
from torch import Tensor

from raypipe.config.training import steps_of
from raypipe.config.training_rules import SPARSITY
from raypipe.errors import InputError
from raypipe.models.folder.adapters import PEFT, adapter_folder
from raypipe.models.folder.model_folder import ModelFolder, here
from raypipe.models.folder.settings import AnyConventions, Conventions, PairConventions
from raypipe.models.machine.device import numerics_class
from raypipe.models.tensors import unit_names
from raypipe.models.tokenizer import read_tokenizer, tokenizer_sha256
from raypipe.storage.files import folder_beside, replace_folder
from raypipe.storage.ledger import Ledger
from raypipe.storage.payloads import writing
from raypipe.storage.records import Json, Shard
from raypipe.text.inputs import TextSlice
from raypipe.training.batch import ExampleSource
from raypipe.training.checkpoints import Checkpoint, Checkpoints, history_of, unmeasured
from raypipe.training.examples import distinct
from raypipe.training.job import Job
from raypipe.training.peer_files import add_peer_files
from raypipe.training.start import pretraining_start, starting_tensors_of
from raypipe.training.steps import sources_of
from raypipe.training.trainee import LowRank

UInt64 = NDArray[np.uint64]
FILE = "trained_on.npy"
ROWS_AT_ONCE = 50_000


def trained_on(sources: Sequence[ExampleSource]) -> UInt64:
    """One hash for each distinct passage in the examples, relevant or not, sorted."""
    hashes = []
    for source in sources:
        rows = distinct(source.examples.passage_rows.reshape(-1))
        for start in range(0, len(rows), ROWS_AT_ONCE):
            hashes.append(passage_hashes(source.passages.part(rows[start : start + ROWS_AT_ONCE])))
    return np.unique(np.concatenate(hashes))


def passage_hashes(part: TextSlice) -> UInt64:
    """The first 8 bytes of each text's BLAKE2b over its word pieces as uint32, little-endian.

    Word pieces are hashed so that case and spacing matter only if they matter to the tokenizer.
    """
    flat = part.flat.astype("<u4")
    spans = zip(part.starts.tolist(), (part.starts + part.counts).tolist(), strict=True)
    digests = b"".join(
        hashlib.blake2b(flat[start:stop].tobytes(), digest_size=8).digest() for start, stop in spans
    )
    return np.frombuffer(digests, "<u8").astype(np.uint64)


def pretrained_tensors(job: Job, trained: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The trained tensors, and those that the training handed on."""
    return {**pretraining_start(job).carried, **trained}


def pretrained_config(job: Job, tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """The content of config.json, with which transformers opens the folder."""
    config = {n: v for n, v in job.start.config().items() if n not in ("torch_dtype", "id2label")}
    config.pop("label2id", None)
    heads = job.start.family.pretraining
    whole = heads.shapes(config, next_sentence=True)
    architecture = heads.architecture(next_sentence=all(name in tensors for name in whole))
    return {**config, "dtype": "float32", "architectures": [architecture]}


TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "vocab.txt",
    "special_tokens_map.json",
    "added_tokens.json",
)


def write_payload(job: Job, checkpoint: Checkpoint, path: Path) -> None:
    """Write the trained weights of a checkpoint, without its optimiser, as one safetensors file."""
    tensors = Checkpoints(job.storage, job.folder).load(checkpoint)
    kept = {n.removeprefix("weight."): t for n, t in tensors.items() if n.startswith("weight.")}
    with writing(path):
        save_file(kept, path, metadata={"format": "pt"})


def write_model(
    job: Job, payload: Path, folder: Path, *, step: int, saw: str, card: str = ""
) -> None:
    """Write the model folder, with its adapter if there is one; it appears complete.

    Args:
        job: the training.
        payload: the trained weights.
        folder: the target; an existing one is replaced.
        step: the step of the weights.
        saw: what the starting weights and this training were trained on, for tables.
        card: README.md, none if it is empty.
    """
    with folder_beside(folder) as beside:
        with writing(beside):
            _fill(beside, job, payload, step=step, saw=saw)
            if card:
                (beside / "README.md").write_text(card)
        replace_folder(beside, folder)


def _fill(beside: Path, job: Job, payload: Path, *, step: int, saw: str) -> None:
    if job.is_pretraining:
        tensors = pretrained_tensors(job, load_file(payload))
        config = pretrained_config(job, tensors)
        _write(beside, job, tensors, config, job.conventions, step=step, saw=saw)
        return
    recipe = job.recipe
    conventions = job.conventions
    if isinstance(conventions, PairConventions):  # the weights have the third row now
        conventions = replace(conventions, segment_row=None)
    trained = load_file(payload)
    base = starting_tensors_of(job)
    adapter = recipe.model.adapter
    if adapter is None:
        tensors = {**base, **trained}
    else:
        tensors = merged(base, trained, LowRank(adapter.rank, adapter.alpha))
    if adapter is not None and isinstance(conventions, PairConventions):
        low_rank = LowRank(adapter.rank, adapter.alpha)
        _write_adapter(beside / "adapter", trained, low_rank, job.start.family.files.adapted)
        start = job.start  # a folder may not name a hub's model: nobody asked for its fetching
        base_name = start.path if start.hub is None else str(start.folder)
        shown = {**asdict(conventions), "start_weights_saw": saw, "base": base_name}
        _write_json(beside / "adapter" / "raypipe.json", {**shown, "made_by": made_by(job, step)})
        hashes = np.union1d(trained_on(sources_of(job)), _seen_before(job))
        np.save(beside / "adapter" / FILE, hashes)
    if isinstance(conventions, Conventions) and not conventions.is_sparse:
        saved = job.start.family.files.saved_name
        tensors = {saved(name, head=False): tensor for name, tensor in tensors.items()}
    _write(beside, job, tensors, _config(job, base), conventions, step=step, saw=saw)


def _write(
    beside: Path,
    job: Job,
    tensors: Mapping[str, Tensor],
    config: Mapping[str, Any],
    conventions: AnyConventions,
    *,
    step: int,
    saw: str,
) -> None:
    """Write weights, config.json, raypipe.json and the tokenizer."""
    save_file(
        {name: tensor.contiguous() for name, tensor in tensors.items()},
        beside / "model.safetensors",
        metadata={"format": "pt"},
    )
    _write_json(beside / "config.json", config)
    body = {**asdict(conventions), "start_weights_saw": saw, "made_by": made_by(job, step)}
    _write_json(beside / "raypipe.json", body)
    _copy_tokenizer(job.start, beside)
    add_peer_files(beside, conventions, job.start)
    for file in beside.rglob("*.safetensors"):
        file.chmod(0o644)  # safetensors creates files that only their owner can read


def merged(
    base: Mapping[str, Tensor], trained: Mapping[str, Tensor], low_rank: LowRank
) -> dict[str, Tensor]:
    """The weights with their updates added, like peft's `merge_and_unload`."""
    tensors = dict(base)
    for name, tensor in trained.items():
        if name.endswith(".lora_A.weight"):
            layer = name.removesuffix(".lora_A.weight")
            update = trained[f"{layer}.lora_B.weight"] @ tensor
            tensors[f"{layer}.weight"] = base[f"{layer}.weight"] + update * low_rank.scale
        elif not name.endswith(".lora_B.weight"):
            tensors[name] = tensor
    return tensors


def made_by(job: Job, step: int) -> dict[str, Any]:
    """The entry in raypipe.json about the training: `step` of `steps` was chosen."""
    recipe = job.recipe
    newer = {*SPARSITY, "teacher_temperature"}  # written where they are used
    return {
        "recipe": recipe.name,
        **({} if job.phase is None else {"phase": job.phase}),
        "fingerprint": job.spec.fingerprint(),
        "start_sha256": job.start.weights_sha256,
        "step": step,
        "steps": steps_of(recipe),
        "batch": recipe.batch * recipe.accumulation,
        "loss": recipe.loss.name,
        "seed": recipe.seed,
        "settings": recipe.model_dump(
            mode="json",
            include={"accumulation": True, "optimiser": True, "dropout": True}
            | {"loss": True, "model": {"adapter": {"rank", "alpha"}, "head": True}},
            exclude={"loss": {name for name in newer if not getattr(recipe.loss, name, None)}},
        ),
    }


def _write_adapter(
    folder: Path, trained: Mapping[str, Tensor], low_rank: LowRank, adapted: Sequence[str]
) -> None:
    """Write peft's layout, in half precision, as updates are small compared with weights."""
    folder.mkdir()
    whole = sorted({n.rpartition(".")[0] for n in trained if "lora_" not in n})
    saved = {f"{PEFT}{name}": t.to(torch.float16).contiguous() for name, t in trained.items()}
    save_file(saved, folder / "adapter_model.safetensors", metadata={"format": "pt"})
    config = {
        "peft_type": "LORA",
        "task_type": "SEQ_CLS",
        "base_model_name_or_path": None,
        "r": low_rank.rank,
        "lora_alpha": low_rank.alpha,
        "lora_dropout": 0.0,
        "bias": "none",
        "target_modules": list(adapted),
        "modules_to_save": [name.rpartition(".")[2] for name in whole] or None,
        "inference_mode": True,
    }
    _write_json(folder / "adapter_config.json", config)


OF_HEAD = ("sentence_transformers", "sbert_ce_default_activation_function", "problem_type")
"""Keys of a config.json that say what the units of its own head are."""


def _config(job: Job, base: Mapping[str, Tensor]) -> dict[str, Any]:
    config = dict(job.start.config())
    config["dtype"] = "float32"
    config.pop("torch_dtype", None)
    own, family = job.conventions, job.start.family
    files, head = family.files, isinstance(own, PairConventions)
    segments = base.get(files.saved_name(files.SEGMENTS, head=True))
    if segments is not None:
        config["type_vocab_size"] = len(segments)
    config["architectures"] = [files.architecture(head=head)]
    if own.is_sparse:
        config["architectures"] = [family.pretraining.architecture(next_sentence=False)]
        config |= family.pretraining.TIED
    if not head:
        return config
    for name in OF_HEAD:  # the start's head may be another; CrossEncoder would apply its activation
        config.pop(name, None)
    return config | unit_names(job.recipe.model.head)


def _write_json(path: Path, body: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(body, indent=2) + "\n")


def _copy_tokenizer(start: ModelFolder, folder: Path) -> None:
    start = here(start)
    for name in TOKENIZER_FILES:
        if (start.folder / name).exists():
            shutil.copyfile(start.folder / name, folder / name)
    copied = tokenizer_sha256(read_tokenizer(folder))
    if copied != start.tokenizer_sha256:
        raise InputError(
            f"{start.folder}: expected the tokenizer with SHA-256 {start.tokenizer_sha256} that "
            f"the training read, found {copied}; restore it and repeat the command"
        )


def _seen_before(job: Job) -> NDArray[np.uint64]:
    """What this training's starting adapter, or the phases before it, were trained on, as far as it
    is recorded."""
    adapter = job.recipe.model.adapter
    if adapter is not None and adapter.start is not None:
        path = adapter_folder(adapter.start) / FILE
    elif job.phase is not None:
        path = job.start.folder / "adapter" / FILE
    else:
        return np.empty(0, np.uint64)
    found: NDArray[np.uint64] = np.load(path) if path.exists() else np.empty(0, np.uint64)
    return found


def commit(job: Job, *, device: str) -> None:
    """Commit the one shard of the training's store: its trained weights.

    They are those of the best checkpoint by the measure (the first of equals), or of the last one
    if nothing is measured.

    Raises:
        InputError: a measurement that could affect the choice is missing.
    """
    checkpoints = Checkpoints(job.storage, job.folder)
    newest = checkpoints.newest()
    assert newest is not None
    history = history_of(job)
    missing = history.missing(newest.step)
    if missing:
        raise unmeasured(job, missing)
    counted = history.counted(newest.step)
    best = history.best(counted)
    chosen = newest if best is None else checkpoints.at(best["step"])
    ledger = Ledger(job.storage, job.store, job.spec)
    path = ledger.storage.scratch() / "weights.safetensors"
    write_payload(job, chosen, path)
    facts: dict[str, Json] = {
        "rows": 1,
        "step": chosen.step,
        "history": counted,
        "numerics": f"{numerics_class(device)}, {job.recipe.resources.precision}",
    }
    if (start := history.start()) is not None:
        facts["start"] = start["mean"]
    ledger.commit(Shard(0, 0, 1), path, facts)
