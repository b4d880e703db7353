"""Low-rank adapters for a base model, in peft's file format, merged on loading.

The sum with its base is made here where it is plain, and by peft elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from raypipe.errors import InputError
from raypipe.models.family import family_of
from raypipe.models.folder.files import read_object, tensor_shapes
from raypipe.models.folder.modules import ModelFiles
from raypipe.models.tensors import Config, Shape

if TYPE_CHECKING:
    from torch import Tensor


PEFT = "base_model.model."
"""The prefix of tensor names in peft."""
HALVES = (".lora_A.weight", ".lora_B.weight")
"""The two parts of a low-rank update."""
PLAIN = {"peft_type": "LORA", "task_type": "SEQ_CLS", "bias": "none"}
"""The values that these settings have where the sum is made here."""
READ = {"r", "lora_alpha"}
"""Settings that the sum depends on."""
OF_PROMPTS = (
    *("PROMPT_TUNING", "MULTITASK_PROMPT_TUNING", "P_TUNING", "PREFIX_TUNING", "CPT"),
    "ADAPTION_PROMPT",
)
"""The peft_type of adapters that peft cannot merge into weights."""
OF_ENCODER = "FEATURE_EXTRACTION"
"""The task of an encoder's adapter."""
WITHOUT_EFFECT = {"base_model_name_or_path", "lora_dropout", "inference_mode"}
"""Settings that change no merged weight."""
TARGETS = {"target_modules", "modules_to_save"}
"""Settings by which peft chose the tensors that an adapter's file has."""


MERGED = (
    "in Python, peft.PeftModel.from_pretrained(MODEL, FOLDER).merge_and_unload()"
    ".save_pretrained(DIR), where MODEL is its base as transformers opens it; name DIR, with the "
    "base's tokenizer and modules.json beside the weights"
)

LIKE_PEFT = (
    '{"kind": "mono", "base": "FOLDER", "query_limit": null, "passage_limit": null, '
    '"total_limit": 512, "relevant_label": null, "score": "raw", "segment_row": null}'
)
"""The raypipe.json of a reranker's adapter with one unit, as peft saves it."""


def plain_sum(
    base: Mapping[str, Tensor],
    adapter: Mapping[str, Tensor],
    settings: Mapping[str, Any],
    config: Config,
) -> dict[str, Tensor] | None:
    """W + alpha / r * B A of each updated layer, fp32, and the rest; None if peft has to merge.

    The bits are those of peft's `merge_and_unload`. They are computed here for adapters such as
    `raypipe train` saves: no setting but those above, and each tensor in the shape that the model
    and the rank give it.

    Args:
        base: the base's tensors by saved name with a head.
        adapter: the adapter's by peft's names.
        settings: its adapter_config.json.
        config: the merged model's config.json, with `num_labels`.

    Source: Hu et al. 2022, section 4.1, equation 3.
    """
    allowed = PLAIN.keys() | READ | WITHOUT_EFFECT | TARGETS
    if not PLAIN.keys() | READ <= settings.keys() <= allowed or {**settings, **PLAIN} != settings:
        return None
    rank, alpha, shapes = settings["r"], settings["lora_alpha"], _shapes(config)
    if type(rank) is not int or rank < 1 or not isinstance(alpha, int | float):
        return None
    own = {name.removeprefix(PEFT): tensor.float() for name, tensor in adapter.items()}
    whole = {name: tensor for name, tensor in own.items() if not name.endswith(HALVES)}
    summed = {name: tensor.float() for name, tensor in {**base, **whole}.items()}
    if {name: tuple(tensor.shape) for name, tensor in summed.items()} != shapes:
        return None
    adapted = family_of(config).files.adapted
    for layer in {n.removesuffix(half) for n in own for half in HALVES if n.endswith(half)}:
        out, inner = shapes.get(f"{layer}.weight", (0, 0))
        down, up = (own.get(layer + half) for half in HALVES)
        if down is None or up is None or layer.rpartition(".")[2] not in adapted:
            return None
        if (down.shape, up.shape) != ((rank, inner), (out, rank)):
            return None
        summed[f"{layer}.weight"] = summed[f"{layer}.weight"] + up @ down * (alpha / rank)
    return summed


def _shapes(config: Config) -> dict[str, Shape]:
    """Shapes of all tensors of the merged model, by saved name."""
    files = family_of(config).files
    shapes = files.expected_shapes(config, num_labels=config["num_labels"])
    return {files.saved_name(name, head=True): shape for name, shape in shapes.items()}


WEIGHTS = "adapter_model.safetensors"
CONFIG = "adapter_config.json"
SHIPPED = ("general-mono", "minilm-mono", "minilm-duo")
"""The included adapters for the packaged MiniLM."""


def is_adapter(folder: Path) -> bool:
    """Whether a folder holds an adapter rather than a whole model."""
    return (folder / CONFIG).exists() and not (folder / "model.safetensors").exists()


def shipped_folder(name: str) -> Path:
    """The folder of an included adapter."""
    return Path(str(files("raypipe") / "adapters" / name))


def adapter_folder(path: str) -> Path:
    """The folder of an included adapter, or the given folder itself."""
    return shipped_folder(path) if path in SHIPPED else Path(path)


def base_of(files: ModelFiles) -> str:
    """The base model of a reranker's adapter, from raypipe.json.

    Raises:
        InputError: raypipe.json names none, or the adapter is an encoder's or cannot be merged.
    """
    by_task, folder = files.read(CONFIG).get("task_type") == OF_ENCODER, files.folder
    if by_task or any(module == "Pooling" for module, _ in files.modules):
        told_by = f"task_type {OF_ENCODER}" if by_task else "modules.json has a Pooling"
        raise InputError(
            f"{folder}: expected a reranker's adapter or a whole model, found an encoder's adapter "
            f"({told_by}); merge it first: {MERGED}"
        )
    kind = files.read(CONFIG).get("peft_type")
    if kind in OF_PROMPTS:
        raise InputError(
            f"{folder}: peft_type {kind} puts learned vectors beside each input, which no merged "
            "weights hold; expected an adapter that peft can merge, such as LORA"
        )
    base = files.read("raypipe.json").get("base")
    if not isinstance(base, str):
        raise InputError(
            f"{folder}: an adapter without its model; name it in raypipe.json, such as "
            f"{LIKE_PEFT}, where FOLDER is its base, or minilm; or merge it: {MERGED}"
        )
    return base


def merged_shapes(base: Mapping[str, Shape], config: Config, folder: Path) -> dict[str, Shape]:
    """Shapes of what `merge` returns, by saved name, of a base's shapes by their names.

    Of the adapter's file these are the tensors that it has whole; peft knows all others.

    Raises:
        InputError: the adapter's file is not a safetensors file, or has half an update.
    """
    own = {
        name.removeprefix(PEFT): shape for name, shape in tensor_shapes(folder / WEIGHTS).items()
    }
    problems = [
        f"{folder}: the adapter lacks the tensor {name.removesuffix(half)}{other}; save it again"
        for half, other in (HALVES, HALVES[::-1])
        for name in own
        if name.endswith(half) and name.removesuffix(half) + other not in own
    ]
    if problems:
        raise InputError(problems)
    family = family_of(config).files
    trained = family.trained_names(base, head=True)
    named = {trained[name]: shape for name, shape in base.items() if name in trained}
    whole = {
        family.saved_name(place, head=True)
        for place in family.expected_shapes(config, num_labels=1)
    }
    return named | {name: shape for name, shape in own.items() if name in whole}


def merge(base: Mapping[str, Any], config: Config, folder: Path) -> dict[str, Any]:
    """A reranker's tensors with the adapter's updates added, fp32, by transformers' names.

    Args:
        base: the base model's tensors, with or without a head's names.
        config: its config.json.
        folder: the adapter's folder, which has the segment rows that the base lacks.

    Raises:
        InputError: peft cannot apply the adapter to this model.
    """
    import torch
    from safetensors.torch import load_file

    family = family_of(config).files
    adapter = load_file(folder / WEIGHTS)
    own = {name.removeprefix(PEFT): name for name in adapter}
    segments = family.saved_name(family.SEGMENTS, head=True)
    trained = family.trained_names(base, head=True)
    named = {trained[name]: tensor for name, tensor in base.items() if name in trained}
    table = named.get(segments, torch.zeros(0, 0))
    num_segments = max(len(table), len(adapter[own[segments]]) if segments in own else 0)
    bias = family.HEADS[1]
    num_units = len(adapter[own[bias]] if bias in own else named[bias])
    kept = {**config, "num_labels": num_units, "type_vocab_size": num_segments}
    named = {name: tensor for name, tensor in named.items() if name not in {*family.HEADS} & {*own}}
    if segments in named:
        added = torch.zeros(num_segments - len(table), table.shape[1])
        named[segments] = torch.cat([table, added])
    summed = plain_sum(named, adapter, read_object(folder / CONFIG), kept)
    return merged_by_peft(named, kept, folder) if summed is None else summed


def merged_by_peft(named: Mapping[str, Any], config: Config, folder: Path) -> dict[str, Any]:
    """The same for any adapter that peft can read; its import and transformers' take seconds.

    Args:
        named: the base's tensors by saved name with a head; what lacks comes with the adapter.
        config: the merged model's config.json.
        folder: the adapter's folder.

    Raises:
        InputError: peft cannot apply the adapter to this model.
    """
    import transformers
    from peft import PeftModel

    opened = getattr(transformers, family_of(config).files.architecture(head=True))
    model = opened(opened.config_class(**config))
    try:
        model.load_state_dict(named, strict=False)
        adapted = PeftModel.from_pretrained(model, str(folder))
        whole = adapted.merge_and_unload()
    except (ValueError, RuntimeError, KeyError) as error:
        raise InputError(f"{folder}: not an adapter of this model: {error}") from error
    return {name: tensor.detach().float() for name, tensor in whole.state_dict().items()}
