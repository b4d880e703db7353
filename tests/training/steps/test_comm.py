import os

import torch

from raypipe.training import comm
from raypipe.training import comm as determinism
from raypipe.training.comm import Comm


def test_one_worker_is_alone():
    rows = torch.ones(2, 3)
    solo = Comm()
    solo.sum_([rows])
    solo.barrier()
    assert (solo.rank, solo.world) == (0, 1) and rows.sum() == 6
    (own,) = solo.gathered(rows)
    assert own is rows


class Other:
    """torch.distributed for the second of three workers; the others' tensors are added."""

    def __init__(self, *others):
        self.others, self.waited = list(others), 0

    def get_rank(self):
        return 1

    def get_world_size(self):
        return 3

    def all_reduce(self, tensor):
        tensor += torch.tensor(self.others.pop(0), dtype=tensor.dtype).view_as(tensor)

    def barrier(self):
        self.waited += 1


def test_a_group_sums_and_gathers_rows_by_rank_and_gradients_come_back(monkeypatch):
    monkeypatch.setattr(comm, "dist", Other([1.0, 2.0, 3.0, 4.0, 5.0]))
    group = comm.Group()
    assert (group.rank, group.world) == (1, 3)
    one, two = torch.tensor([[10.0, 20.0], [30.0, 40.0]]), torch.tensor([50.0])
    group.sum_([one, two])
    assert one.tolist() == [[11.0, 22.0], [33.0, 44.0]] and two.tolist() == [55.0]
    group.barrier()
    assert comm.dist.waited == 1
    # The first has one row, the third two; this one has two.
    theirs = [[1.0], [0.0], [0.0], [7.0], [8.0]]
    back = [[0.0], [0.25], [0.5], [0.0], [0.0]]
    monkeypatch.setattr(comm, "dist", Other([1, 0, 2], theirs, back))
    own = torch.tensor([[4.0], [5.0]], requires_grad=True)
    first, second, third = group.gathered(own)
    assert [part.tolist() for part in (first, second, third)] == [
        [[1.0]], [[4.0], [5.0]], [[7.0], [8.0]]]  # fmt: skip
    (10 * second.sum() + first.sum()).backward()
    assert own.grad.tolist() == [[10.25], [10.5]]


def test_a_process_computes_on_its_threads_and_a_cpu_needs_no_more(monkeypatch):
    before = torch.get_num_threads()
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    try:
        determinism.make_deterministic("cpu", 1)
        assert torch.get_num_threads() == 1
        assert not torch.are_deterministic_algorithms_enabled()
        assert "CUBLAS_WORKSPACE_CONFIG" not in os.environ
    finally:
        torch.set_num_threads(before)


def test_on_a_gpu_products_are_fp32_and_kernels_add_in_order(monkeypatch):
    """The settings alone: they can be made where there is no GPU."""
    threads, precision = torch.get_num_threads(), torch.get_float32_matmul_precision()
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    torch.set_float32_matmul_precision("high")
    try:
        determinism.make_deterministic("cuda", 1)
        assert torch.get_float32_matmul_precision() == "highest"
        assert torch.are_deterministic_algorithms_enabled()
        assert not torch.is_deterministic_algorithms_warn_only_enabled()
        assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"
    finally:
        os.environ.pop("CUBLAS_WORKSPACE_CONFIG", None)
        torch.use_deterministic_algorithms(False)
        torch.set_float32_matmul_precision(precision)
        torch.set_num_threads(threads)
