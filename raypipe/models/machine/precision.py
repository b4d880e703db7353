"""The precision of a model's matrix products: its dtype, who computes in it, torch's switches.

Weights of linear layers, the inputs of products and attention are in that dtype. Sums, softmax,
layer normalisation, the residual stream, pooling and a reranker's head are fp32 in every precision.
In int8, attention is fp32 too.

Linear layers in int8 are for a CPU: integer products, whose sums are exact. Weights have one scale
for each output, inputs one for each row, so a row's bytes depend neither on the rows beside it nor
on threads. Source: Dettmers et al. 2022 (LLM.int8()), section 3.1 ("vector-wise quantization"),
without its second product for outliers.
"""

from collections.abc import Callable, Mapping
from functools import cache
from typing import cast, get_args

import torch
from torch import Tensor

from raypipe.errors import InputError
from raypipe.vocabulary import Precision, Precisions

Quantised = tuple[Tensor, ...]
"""Weight int8 [out, in], bias fp32 [out], scale of each output fp32 [out]."""
Room = Callable[[int, int, torch.dtype], Tensor]
"""As in `raypipe.models.packed`, which computes with these layers too."""

TILE_ROWS = 256
"""Rows of a product: their integers stay in the CPU's cache until they are fp32."""
LARGEST = 127
"""Largest of the integers; -128 is not used, so that both signs reach equally far."""
LEAST = 1e-30
"""Least length of a row that has one of its own: 127 divided by it is finite."""


def quantised(linear: tuple[Tensor, ...]) -> Quantised:
    """A linear layer (weight [out, in], bias [out]) in integers."""
    weight, bias = linear
    scales, integers = _integers(weight)
    return integers, bias, scales[:, 0]


def int8_linear(x: Tensor, weights: Quantised, room: Room | None = None) -> Tensor:
    """x W^T + b, fp32 [rows, out], from `quantised` weights; x is rounded row by row.

    A row that is not finite has a result that is not finite.
    """
    weight, bias, scales = weights
    rows, outs = len(x), len(weight)
    y = x.new_empty(rows, outs) if room is None else room(rows, outs, torch.float32)
    columns = weight.T
    for start in range(0, rows, TILE_ROWS):
        tile = y[start : start + TILE_ROWS]
        of_rows, integers = _integers(x[start : start + TILE_ROWS])
        tile.copy_(_products(integers, columns)).mul_(of_rows)
        torch.addcmul(bias, tile, scales, out=tile)
    return y


def _integers(x: Tensor) -> tuple[Tensor, Tensor]:
    """(scale of each row, fp32 [rows, 1]; x / scale to the nearest integer, int8)."""
    most = x.abs().amax(1, keepdim=True)
    return most / LARGEST, torch.mul(x, LARGEST / most.clamp(min=LEAST)).round_().to(torch.int8)


def _products(x: Tensor, columns: Tensor) -> Tensor:
    """int32 [rows, out]. A private name of torch: there is no public one for integers."""
    if len(columns) == 1:  # of one input it returns memory as it finds it (seen in torch 2.13)
        return x.int() * columns.int()
    found: Tensor = torch._int_mm(x, columns)
    return found


@cache
def exact() -> bool:
    """Whether this torch multiplies integers on this machine's CPU without an error.

    Instructions older than VNNI add two products in 16 bits, which overflow.
    """
    if not hasattr(torch, "_int_mm"):
        return False
    shape = (33, 200)
    draw = torch.Generator().manual_seed(0)
    random = torch.randint(-LARGEST, LARGEST + 1, shape, generator=draw)
    for x in (random, torch.full(shape, LARGEST), torch.full(shape, -LARGEST)):
        for w in (random, torch.full(shape, LARGEST), torch.full(shape, -LARGEST)):
            found = _products(x.to(torch.int8), w.to(torch.int8).T)
            if not torch.equal(found.long(), x @ w.T):
                return False
    return True


ALL = get_args(Precision)
OPEN = ("auto", "fastest")
"""Words that mean one of these by the machine."""
DTYPES: Mapping[str, torch.dtype] = {
    "fp32": torch.float32,
    "tf32": torch.float32,
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
    "int8": torch.int8,
}
"""PyTorch's dtype by precision. TF32 is fp32 in memory, of whose 23 bits a product reads 10."""
_CPU_FEATURES: Mapping[str, tuple[str, ...]] = {
    "bf16": ("amx_bf16", "avx512_bf16"),
    "fp16": ("amx_fp16", "avx512_fp16"),
    "int8": ("amx_int8", "avx512_vnni", "avx_vnni"),
}
"""Instructions of which one suffices; without them torch computes in fp32 and converts, slower."""
_CAPABILITIES: Mapping[str, tuple[int, int]] = {
    "fp32": (0, 0),
    "tf32": (8, 0),
    "bf16": (8, 0),
    "fp16": (7, 0),
}
"""The least compute capability of a GPU: Ampere, and Volta, whose tensor cores were the first.
int8 is computed on CPUs alone."""


def set_products(precision: str = "fp32") -> None:
    """Multiply in this process as the precision says, and add in fp32.

    TF32 is off in all but `tf32`. That is torch's default, but NVIDIA's containers switch TF32 on
    by an environment variable.
    """
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
    matmul = torch.backends.cuda.matmul
    matmul.allow_bf16_reduced_precision_reduction = False
    matmul.allow_fp16_reduced_precision_reduction = False


def able(device: str) -> tuple[Precision, ...]:
    """The precisions in which this machine's `cpu` or `cuda` multiplies natively; fp32 first."""
    if device == "cpu":
        has = torch.cpu.get_capabilities()
        return tuple(
            each
            for each in ALL
            if each == "fp32" or any(has.get(name) for name in _CPU_FEATURES.get(each, ()))
            if each != "int8" or exact()
        )
    found = torch.cuda.get_device_capability()
    return tuple(each for each in ALL if each in _CAPABILITIES and found >= _CAPABILITIES[each])


def auto(device: str, capability: tuple[int, int] | None = None) -> Precision:
    """The precision that `auto` means: fp32 on a CPU, on a GPU bf16 or, before Ampere, fp16.

    `capability` is that of the GPU; None means this machine's.
    """
    if device == "cpu":
        return "fp32"
    found = torch.cuda.get_device_capability() if capability is None else capability
    return next(each for each in ("bf16", "fp16", "fp32") if found >= _CAPABILITIES[each])


def resolved(precision: str, device: str, capability: tuple[int, int] | None = None) -> Precisions:
    """The precision that `auto` or `fastest` means on this machine, or the one named.

    On a CPU, `fastest` is int8+bf16, int8, bf16 or fp32: the first that it computes, without bf16
    where that is slower than fp32. On a GPU it is `auto`, and so is its `capability`.
    """
    if precision == "fastest" and device == "cpu":
        found = [each for each in able("cpu") if each != "bf16" or _gains_by_bf16()]
        both: Precisions = "int8+bf16" if "bf16" in found else "int8"
        return both if "int8" in found else "bf16" if "bf16" in found else "fp32"
    return auto(device, capability) if precision in OPEN else cast(Precisions, precision)


def _gains_by_bf16() -> bool:
    """Whether this CPU, which multiplies in bf16, is quicker in it than in fp32.

    Intel's without AMX are not: a Xeon of 2 cores takes 1.6 to 2 times as long. AMD's are.
    """
    has = torch.cpu.get_capabilities()
    return bool(has.get("amx_bf16")) or "Intel" not in str(has.get("cpu_name"))


def refuse_unable(precision: str, device: str, said: str = "resources.precision") -> None:
    """Returns nothing if this machine's device multiplies in this precision.

    Args:
        precision: any but `auto` and `fastest`.
        device: cpu or cuda.
        said: what says so, for the message.

    Raises:
        InputError: it does not.
    """
    if precision == "fp32":
        return
    precisions = able(device)
    if all(part in precisions for part in precision.split("+")):
        return
    where = "this CPU" if device == "cpu" else torch.cuda.get_device_name()
    raise InputError(
        f"{said}: {precision}: expected one of {', '.join(precisions)}, in which {where} "
        "multiplies; choose one of them, or auto, or leave this machine out"
    )
