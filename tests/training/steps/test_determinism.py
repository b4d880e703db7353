import os

import torch

from raypipe.training import comm as determinism


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
