"""The workers of one training: sums, shares and barriers, and what makes each deterministic."""

import os
from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from raypipe.models.machine.precision import set_products


class Comm:
    """A worker's rank among all workers, and their joint operations; this one is alone."""

    rank, world = 0, 1

    def sum_(self, tensors: Sequence[Tensor]) -> None:
        """Replace tensors by their sums over all workers."""

    def gathered(self, rows: Tensor) -> list[Tensor]:
        """Every worker's rows, by rank; gradients flow back to the worker that sent the rows."""
        return [rows]

    def barrier(self) -> None:
        """Wait for all workers."""


class Group(Comm):
    """The workers of torch.distributed's group: gloo on CPUs, NCCL on GPUs.

    Gradients are summed as one flat tensor after the backward pass. DistributedDataParallel would
    hide some of that time, but it rebuilds its buckets after the first step, so that a resumed
    training would add in another order than an undisturbed one.
    """

    def __init__(self) -> None:
        """The process group must exist."""
        self.rank, self.world = dist.get_rank(), dist.get_world_size()

    def sum_(self, tensors: Sequence[Tensor]) -> None:
        """Replace tensors by their sums over all workers."""
        flat = torch.cat([tensor.reshape(-1) for tensor in tensors])
        dist.all_reduce(flat)
        start = 0
        for tensor in tensors:
            tensor.copy_(flat[start : start + tensor.numel()].view_as(tensor))
            start += tensor.numel()

    def gathered(self, rows: Tensor) -> list[Tensor]:
        """Every worker's rows, by rank; workers may have different numbers of rows."""
        counts = torch.zeros(self.world, dtype=torch.int64, device=rows.device)
        counts[self.rank] = len(rows)
        dist.all_reduce(counts)
        num_rows = counts.tolist()
        every: Tensor = _Gather.apply(rows, num_rows, self.rank)  # type: ignore[no-untyped-call]
        return list(torch.split(every, num_rows))

    def barrier(self) -> None:
        """Wait for all workers."""
        dist.barrier()


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, counts: list[int], rank: int) -> Tensor:
        ctx.counts, ctx.rank = counts, rank
        every = rows.new_zeros((sum(counts), *rows.shape[1:]))
        start = sum(counts[:rank])
        every[start : start + counts[rank]] = rows
        dist.all_reduce(every)  # each row has one owner, so the sum is the row itself
        return every

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        every = gradients[0].contiguous()
        dist.all_reduce(every)
        start = sum(ctx.counts[: ctx.rank])
        return every[start : start + ctx.counts[ctx.rank]], None, None


def make_deterministic(device: str, threads: int) -> None:
    """Make this process compute exactly like the others of its training.

    On CUDA, an operation without a deterministic kernel raises an error. With only a warning, the
    backward pass of attention would have no fixed order, and a resumed training would end with
    other weights.
    """
    torch.set_num_threads(threads)
    if device == "cuda":
        # cuBLAS reads this when it starts, so it must be set before the first product.
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        set_products()
        torch.use_deterministic_algorithms(True)
