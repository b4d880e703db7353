"""Low-rank adapters for a base model, in peft's file format, merged on loading.

First their tensors: which of them an adapter and its base lack together, and their sum.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from raypipe.errors import InputError
from raypipe.models.family import family_of
from raypipe.models.folder.files import read_object, tensor_shapes
from raypipe.models.folder.modules import modules_of
from raypipe.models.tensors import Config, Shape

if TYPE_CHECKING:
    from torch import Tensor


PEFT = "base_model.model."
"""The prefix of tensor names in peft."""
HALVES = (".lora_A.weight", ".lora_B.weight")
"""The two parts of a low-rank update."""
PLAIN = {"peft_type": "LORA", "task_type": "SEQ_CLS", "bias": "none"}
"""The values that these settings have where the sum is made here."""
READ = {"r", "lora_alpha", "target_modules", "modules_to_save"}
"""Settings that the sum depends on."""
OF_ENCODER = "FEATURE_EXTRACTION"
"""The task of an encoder's adapter."""
WITHOUT_EFFECT = {"base_model_name_or_path", "lora_dropout", "inference_mode"}
"""Settings that change no merged weight."""


def missing_tensors(
    base: Iterable[str], adapter: Iterable[str], config: Config
) -> tuple[list[str], list[str]]:
    """(what the base lacks, what the adapter lacks), saved names with a head, each sorted.

    The base has every tensor of the body and the pooler, unless the adapter holds them whole. The
    adapter has the classifier, unless the base does, and both parts of each update.

    Args:
        base: the names in the base model's file.
        adapter: the names in the adapter's file, as peft writes them.
        config: the base model's config.json.
    """
    files = family_of(config).files
    own = {name.removeprefix(PEFT) for name in adapter}
    expected = {
        files.saved_name(name, head=True) for name in files.expected_shapes(config, num_labels=1)
    }
    held = set(files.trained_names(list(base), head=True).values())
    of_base = sorted(expected - held - own - set(files.HEADS))
    of_adapter = {name for name in files.HEADS if name not in own | held}
    for half, other in (HALVES, HALVES[::-1]):
        layers = {name.removesuffix(half) for name in own if name.endswith(half)}
        of_adapter |= {layer + other for layer in layers if layer + other not in own}
    return of_base, sorted(of_adapter)


MERGED = (
    "in Python, peft.PeftModel.from_pretrained(MODEL, FOLDER).merge_and_unload()"
    ".save_pretrained(DIR), where MODEL is its base as transformers opens it; name DIR, with the "
    "base's tokenizer and modules.json beside the weights"
)


def missing_problems(
    missing: tuple[list[str], list[str]], base: Path | str, adapter: Path
) -> list[str]:
    """One problem for each missing tensor; empty if there is none."""
    of_base, of_adapter = missing
    remedy = f"the adapter {adapter} has none either; name a base that holds it"
    return [
        *(f"{base}: the checkpoint lacks the tensor {name}, and {remedy}" for name in of_base),
        *(
            f"{adapter}: the adapter lacks the tensor {name}, and its base has none either; save "
            "it again with that tensor, or name a base that has it"
            for name in of_adapter
        ),
    ]


def plain_sum(
    base: Mapping[str, Tensor],
    adapter: Mapping[str, Tensor],
    settings: Mapping[str, Any],
    config: Config,
) -> dict[str, Tensor] | None:
    """W + alpha / r * B A of each updated layer, fp32, and the rest; None if peft has to merge.

    The bits are those of peft's `merge_and_unload`. They are computed here for adapters such as
    `raypipe train` saves: no setting but those above, exactly the tensors that the settings ask
    for, and each in the shape that the model gives it.

    Args:
        base: the base's tensors by saved name with a head.
        adapter: the adapter's by peft's names.
        settings: its adapter_config.json.
        config: the merged model's config.json, with `num_labels`.

    Source: Hu et al. 2022, section 4.1, equation 3.
    """
    expected = _expected(settings, config)
    own = {name.removeprefix(PEFT): tensor.float() for name, tensor in adapter.items()}
    if expected is None or {name: tuple(tensor.shape) for name, tensor in own.items()} != expected:
        return None
    shapes = _shapes(config)
    whole = {name: own.get(name, base.get(name)) for name in shapes}
    fitting = {n: t.float() for n, t in whole.items() if t is not None and t.shape == shapes[n]}
    if fitting.keys() != shapes.keys() or not base.keys() <= shapes.keys():
        return None
    scale = settings["lora_alpha"] / settings["r"]
    for layer in {name.removesuffix(HALVES[0]) for name in own if name.endswith(HALVES[0])}:
        down, up = (own[layer + half] for half in HALVES)
        fitting[f"{layer}.weight"] = fitting[f"{layer}.weight"] + up @ down * scale
    return fitting


def _expected(settings: Mapping[str, Any], config: Config) -> dict[str, Shape] | None:
    """The shapes of an adapter's tensors by saved name; None if its settings are not plain."""
    if not PLAIN.keys() | READ <= settings.keys() <= PLAIN.keys() | READ | WITHOUT_EFFECT:
        return None
    rank, alpha = settings["r"], settings["lora_alpha"]
    targets, whole = settings["target_modules"], settings["modules_to_save"]
    files = family_of(config).files
    plain = all(settings[name] == value for name, value in PLAIN.items())
    plain = plain and isinstance(rank, int) and rank > 0 and isinstance(alpha, int | float)
    plain = plain and isinstance(targets, list) and isinstance(whole, list)
    if not plain or not all(isinstance(name, str) for name in [*targets, *whole]):
        return None
    if not {target.rpartition(".")[2] for target in targets} <= set(files.ADAPTED):
        return None
    updated = tuple(f".{target}.weight" for target in targets)
    shapes: dict[str, Shape] = {}
    for name, shape in _shapes(config).items():
        module = name.rpartition(".")[0]
        if module.endswith(tuple(whole)):
            shapes[name] = shape
        elif f".{name}".endswith(updated):
            shapes |= {module + HALVES[0]: (rank, shape[1]), module + HALVES[1]: (shape[0], rank)}
    return shapes


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


def base_of(folder: Path) -> str:
    """The base model of a reranker's adapter, from raypipe.json.

    Raises:
        InputError: raypipe.json names none, or the adapter is an encoder's.
    """
    by_task = read_object(folder / CONFIG).get("task_type") == OF_ENCODER
    if by_task or any(module == "Pooling" for module, _ in modules_of(folder)):
        told_by = f"task_type {OF_ENCODER}" if by_task else "modules.json has a Pooling"
        raise InputError(
            f"{folder}: expected a reranker's adapter or a whole model, found an encoder's adapter "
            f"({told_by}); merge it first: {MERGED}"
        )
    base = read_object(folder / "raypipe.json").get("base")
    if not isinstance(base, str):
        raise InputError(
            f'{folder}: an adapter without its model; name it in raypipe.json, "base": "minilm" '
            "or a folder"
        )
    return base


def adapter_names(folder: Path) -> list[str]:
    """Names of the tensors in the adapter's file, as peft writes them.

    Raises:
        InputError: not a safetensors file.
    """
    return list(tensor_shapes(folder / WEIGHTS))


def summed_shapes(base: Mapping[str, Shape], config: Config, folder: Path) -> dict[str, Shape]:
    """Shapes of what `merge` returns, by saved name, and of the updates by theirs.

    Args:
        base: those of the base's tensors, by saved name.
        config: its config.json.
        folder: the adapter's folder.

    Raises:
        InputError: the adapter's file is not a safetensors file.
    """
    named = family_of(config).files.trained_names(base, head=True)
    own = tensor_shapes(folder / WEIGHTS)
    kept = {named[name]: shape for name, shape in base.items() if name in named}
    return kept | {name.removeprefix(PEFT): shape for name, shape in own.items()}


def merge(base: Mapping[str, Any], config: Config, folder: Path) -> dict[str, Any]:
    """A reranker's tensors with the adapter's updates added, fp32, by transformers' names.

    Args:
        base: the base model's tensors, with or without a head's names.
        config: its config.json.
        folder: the adapter's folder, which has the segment rows that the base lacks.

    Raises:
        InputError: peft cannot apply the adapter to this model, or a tensor of the merged model is
            in neither file.
    """
    import torch
    from safetensors.torch import load_file

    family = family_of(config).files
    missing = missing_tensors(base, adapter_names(folder), config)
    problems = missing_problems(missing, "the base model", folder)
    if problems:
        raise InputError(problems)
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
