"""The forward pass and the training step as CUDA gets them, on any machine: no kernel runs.

Under torch's FakeTensorMode a tensor has a device, a dtype and a shape but no values, and an
operation over two devices is an error. All lines between the host's arrays and the result run as on
a GPU. Whatever the host reads of a tensor is zero. Replaced are the GPU's name, the events and the
fused kernels, which have no fake, and the reading of weights, which becomes fake after it. A torch
without CUDA records no gradients there: the backward pass, which is torch's own, gives zeros.
Graphs are not met, nor models that transformers computes.
"""

import sys
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from raypipe.models import load
from raypipe.models.folder.model_folder import resolve_model
from raypipe.models.gpu import passes
from raypipe.models.machine.precision import DTYPES, set_products
from raypipe.models.packed import Plain, States
from raypipe.text.inputs import TextSlice
from raypipe.training.steps import Adam, clip_

CUDA = torch.device("cuda:0")
PRODUCTS = ("mm", "addmm", "bmm", "baddbmm", "linear", "matmul")
ATTENTION = ("scaled_dot_product", "varlen")
READS = {Tensor.__float__: 0.0, Tensor.__bool__: True, Tensor.item: 0.0}


def part_of(tensor, key):
    """`tensor[key]`, by operations that need no CUDA."""
    keys = key if isinstance(key, tuple) else (key,)
    if all(isinstance(each, Tensor) for each in keys):
        return torch.ops.aten.index(tensor, list(keys))
    place = 0
    for each in keys:
        if isinstance(each, int):
            tensor = tensor.select(place, each)
            continue
        if each is None:
            tensor = tensor.unsqueeze(place)
        else:
            tensor = torch.ops.aten.slice(tensor, place, each.start, each.stop, each.step or 1)
        place += 1
    return tensor


INSTEAD = {Tensor.__getitem__: part_of, Tensor.__invert__: torch.bitwise_not}
"""Of methods that a torch without CUDA refuses for tensors of its device."""


def on_cuda(word):
    return isinstance(word, str | torch.device) and torch.device(word).type == "cuda"


class Host(TorchFunctionMode):
    """Counts what is brought to the device, and leaves one of these tensors on the host."""

    def __init__(self, left):
        super().__init__()
        self.left, self.brought = left, 0
        self.weights = []

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if function in READS:
            return READS[function]
        if function is Tensor.numpy:
            assert args[0].device.type == "cpu", "the host reads memory of the device"
            return np.zeros(args[0].shape, str(args[0].dtype).removeprefix("torch."))
        if function in INSTEAD:
            return INSTEAD[function](*args)
        if function is Tensor.requires_grad_:
            self.weights.append(args[0])
            return args[0]
        if function is Tensor.backward:
            assert args[0].device == CUDA and args[0].dim() == 0
            for weight in self.weights:
                weight.grad = torch.zeros_like(weight)
            return None
        if function is Tensor.to:
            to = CUDA
            if args[0].device.type == "cpu" and any(map(on_cuda, args[1:])):
                to = torch.device("cpu") if self.brought == self.left else CUDA
                self.brought += 1
            args = [to if on_cuda(each) else each for each in args]
        return function(*args, **kwargs)


class Operations(TorchDispatchMode):
    """Checks what FakeTensorMode lets pass: indices of the host, and a product of two dtypes."""

    def __init__(self):
        super().__init__()
        self.dtypes = {"products": set(), "attention": set()}

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name = function.__name__.partition(".")[0]
        tensors = [each for each in tree_leaves((args, kwargs)) if isinstance(each, Tensor)]
        if name != "copy_":
            assert len({each.device for each in tensors}) <= 1, f"{name} over two devices"
        kind = "products" if name in PRODUCTS else None
        kind = "attention" if any(part in name for part in ATTENTION) else kind
        if kind and tensors[0].device == CUDA:
            dtypes = {each.dtype for each in tensors if each.is_floating_point()}
            assert len(dtypes) == 1, f"{name} of {dtypes}"
            self.dtypes[kind] |= dtypes
        return function(*args, **(kwargs or {}))


class Rounding:
    """In the place of the fused kernels, with results of their dtypes."""

    inner = Plain().inner

    def sum_norm(self, x, *given):
        states = Plain().sum_norm(x, *given)
        return States(states.wide, states.wide.to(x.dtype))


class Event:
    """Of a queue that takes no time."""

    def record(self):
        pass

    def synchronize(self):
        pass

    def elapsed_time(self, end):
        return 0.0


@pytest.fixture
def cuda(monkeypatch, steps):
    """A context in which tensors are fake and CUDA is there: (Host, Operations)."""
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda *device: "NVIDIA H100 80GB HBM3")
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda *given: True)
    monkeypatch.setattr("torch.cuda.amp.common.amp_definitely_not_available", lambda: False)
    monkeypatch.setattr(passes, "_event", Event)
    kernels = SimpleNamespace(Kernels=Rounding)
    monkeypatch.setitem(sys.modules, "raypipe.models.gpu.kernels", kernels)

    @contextmanager
    def entered(left=None):
        host, operations = Host(left), Operations()
        with monkeypatch.context() as own, FakeTensorMode() as mode:
            for module in (load, steps):
                read = module.load_weights

                def fake(model, read=read):
                    with torch._C._DisableTorchDispatch():
                        found = read(model)
                    return {name: mode.from_tensor(tensor) for name, tensor in found.items()}

                own.setattr(module, "load_weights", fake)
            try:
                with operations, host:
                    yield host, operations
            finally:
                set_products()

    return entered


@pytest.fixture
def small(random_bert):
    return random_bert.Shape(layers=2, hidden=64, heads=4, words=1000)


@pytest.fixture
def infer(models, random_bert, small, cuda):
    """A function that computes rows of a kind of model in a precision, as `cuda` says."""

    def compute(kind, precision, left=None, shape=small):
        model = models(shape, kind).in_precision(precision)
        counts = np.array([0, 3, 3, 40, 17, 1])
        flat, offsets = random_bert.pieces_of(counts, small, seed=0)
        text = TextSlice(flat, offsets[:-1], counts)
        with cuda(left) as (host, operations):
            if kind == "encoder":
                opened = load.load_encoder(model, device="cuda", budget_tokens=1024)
                found = opened.encode(flat, offsets, side="passage")
                assert found.shape == (len(counts), small.hidden)
            else:
                opened = load.load_scorer(model, device="cuda", budget_tokens=1024)
                found = opened.score(text, [text] * opened.conventions.num_passages)
                assert found.shape == (len(counts),)
        assert found.dtype == np.float32
        return opened, host, operations

    return compute


KINDS = ["encoder", "mono", "duo"]
PASSES = [
    *((kind, "fp32") for kind in KINDS),
    *(
        pytest.param(kind, precision, marks=pytest.mark.slow)
        for kind, tried in {
            "encoder": ("tf32", "fp16"),
            "mono": ("bf16", "fp16"),
            "duo": ("bf16", "tf32"),
        }.items()
        for precision in tried
    ),
]
"""An encoder's pass in bf16 is made below, with each of its tensors left on the host."""


@pytest.mark.parametrize(("kind", "precision"), PASSES)
def test_a_pass_is_on_the_device_and_in_the_precision(infer, kind, precision):
    opened, _, operations = infer(kind, precision)
    of_body, of_head = DTYPES[precision], set() if kind == "encoder" else {torch.float32}
    assert operations.dtypes == {"products": {of_body} | of_head, "attention": {of_body}}
    how = "by length" if of_body == torch.float32 else "of any length"
    assert opened.numerics.startswith("NVIDIA H100")
    fused = "" if of_body == torch.float32 else ", fused"
    assert opened.numerics.endswith(
        f"{precision}, eager passes of 1024 tokens, attention {how}{fused}"
    )


LEFT = ["encoder", pytest.param("duo", marks=pytest.mark.long)]
"""Kinds of which each tensor is left on the host; a mono's are among a duo's."""


@pytest.fixture
def of_one_layer(small):
    """All layers are placed alike."""
    return replace(small, layers=1)


@pytest.mark.slow
@pytest.mark.parametrize("kind", LEFT)
def test_a_tensor_of_a_pass_that_stays_on_the_host_is_found(infer, of_one_layer, kind):
    """Each of them in turn."""
    _, host, _ = infer(kind, "bf16", shape=of_one_layer)
    assert host.brought > 25
    for left in range(host.brought):
        with pytest.raises((RuntimeError, AssertionError)):
            infer(kind, "bf16", left, of_one_layer)


@pytest.fixture
def train(models, small, steps, cuda):
    """A function that makes one update of a kind of model, as `cuda` says."""

    def update(kind, precision, left=None, shape=small):
        model = models(shape, kind)
        with cuda(left) as (host, operations):
            trainee = steps.make_trainee(model, "cuda", dropout=0.1, bf16=precision == "bf16")
            batch = steps.make_batch(small.words)
            _, found = steps.gradients(model, trainee, batch, budget=600)
            gradients = list(found.values())
            clip_(gradients, 1.0)
            optimiser = Adam(trainee.weights)
            optimiser.step(gradients, rate=1e-4, number=1)
            assert {each.device for each in optimiser.state().values()} == {CUDA}
        return host, operations

    return update


TRAINED_IN = {"fp32": torch.float32, "bf16": torch.bfloat16}


@pytest.mark.parametrize("precision", ["bf16", pytest.param("fp32", marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", KINDS)
def test_a_step_of_training_is_on_the_device_and_in_the_precision(train, kind, precision):
    """Attention with dropout is products as well."""
    _, operations = train(kind, precision)
    of_body = TRAINED_IN[precision]
    assert {of_body} <= operations.dtypes["products"] <= {of_body, torch.float32}


@pytest.mark.slow
@pytest.mark.parametrize("kind", LEFT)
def test_a_tensor_of_a_step_that_stays_on_the_host_is_found(train, of_one_layer, kind):
    """Each of them in turn."""
    host, _ = train(kind, "bf16", shape=of_one_layer)
    assert host.brought > 25
    for left in range(host.brought):
        with pytest.raises((RuntimeError, AssertionError)):
            train(kind, "bf16", left, of_one_layer)


@pytest.mark.slow
def test_a_sparse_models_head_is_on_the_device_and_in_fp32(cuda, random_bert, small, tmp_path):
    from sparse_models import make_splade  # a bare machine has not what it needs

    model = resolve_model(str(make_splade(tmp_path / "splade"))).in_precision("bf16")
    counts = np.array([0, 3, 3, 40, 17, 1])
    flat, offsets = random_bert.pieces_of(counts, replace(small, words=66), seed=0)
    with cuda() as (host, operations):
        opened = load.load_encoder(model, device="cuda", budget_tokens=1024)
        assert opened.encode(flat, offsets, side="passage").shape == (len(counts), 66)
    assert operations.dtypes["products"] == {torch.bfloat16, torch.float32}
