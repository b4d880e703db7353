"""Opening a model on a worker: what the worker does not compute."""

from types import SimpleNamespace

import pytest
import torch

from raypipe.errors import InputError
from raypipe.models.folder.model_folder import resolve_model
from raypipe.stages.open_model import open_model


@pytest.mark.parametrize("precision", ["int8", "bf16"])
def test_a_worker_that_does_not_compute_in_the_models_precision_refuses_it(
    tiny_mono, monkeypatch, precision
):
    monkeypatch.setattr(torch.cpu, "get_capabilities", dict)
    model = resolve_model(str(tiny_mono)).in_precision(precision)
    told = f"or that in the settings of {tiny_mono}: {precision}: expected one of fp32, in which"
    with pytest.raises(InputError, match=told):
        open_model(None, model, SimpleNamespace(device="cpu"), None)
