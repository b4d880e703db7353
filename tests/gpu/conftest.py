"""The same bodies on a CPU, in every run, and on CUDA: `python -m pytest -m gpu`.

Needs torch, transformers, tokenizers, safetensors, numpy, pyyaml, pyarrow, pydantic and pytest.
"""

import importlib.util
import os
from pathlib import Path

import pytest

ON_CUDA = pytest.mark.gpu
DEVICES = ["cpu", pytest.param("cuda", marks=ON_CUDA)]
PLACES = [("cpu", "small"), *(pytest.param("cuda", s, marks=ON_CUDA) for s in ("small", "base"))]
THREADS = min(16, os.cpu_count() or 1)
"""Of the CPU beside a GPU, which computes what the GPU must equal."""
STEPS = {("cpu", "small"): 16, ("cuda", "small"): 1, ("cuda", "base"): 9}
"""Between lengths that are tried; on CPUs tests/models tries every one."""
TOLD = "told"


def pytest_generate_tests(metafunc):
    names = metafunc.fixturenames
    if "shape" in names:
        metafunc.parametrize(("device", "shape"), PLACES, indirect=["shape"])
    elif "device" in names:
        metafunc.parametrize("device", DEVICES)


def pytest_runtest_setup(item):
    if item.get_closest_marker("gpu"):
        import torch

        if not torch.cuda.is_available():
            pytest.skip(f"no CUDA device: torch {torch.__version__} sees none")


def pytest_terminal_summary(terminalreporter):
    for report in (r for kind in ("passed", "failed") for r in terminalreporter.getreports(kind)):
        for name, fact in report.user_properties if report.when == "call" else ():
            if name == TOLD:
                terminalreporter.write_line(f"{report.nodeid.rpartition('::')[2]}: {fact}")


@pytest.fixture
def tell(request):
    """A function that keeps a line for the end of the run, so that a pass tells its figures."""
    return lambda text: request.node.user_properties.append((TOLD, text))


def loaded(path):
    """The module in a file that is on no path."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def random_bert():
    """The module that makes models and their word pieces."""
    return loaded(Path(__file__).parent.parent / "helpers" / "random_bert.py")


@pytest.fixture(scope="session")
def one_by_one():
    """A stand-in for the kernel of attention, on any device."""
    return loaded(Path(__file__).parent.parent / "helpers" / "kernel_stand_in.py").one_by_one


@pytest.fixture
def settings(device, one_by_one):
    """How a pass of fixed shape is computed on the device."""
    from raypipe.models.gpu.opening import FixedSettings

    return FixedSettings(varlen=one_by_one if device == "cpu" else None)


@pytest.fixture(scope="session")
def steps():
    """The module that makes updates of a model on made-up batches."""
    return loaded(Path(__file__).with_name("training_steps.py"))


@pytest.fixture
def shape(request, random_bert):
    """BERT-base, or one whose heads and layers are as small as kernels take them."""
    if request.param == "base":
        return random_bert.Shape(layers=12, hidden=768, heads=12, words=30522)
    return random_bert.Shape(layers=3, hidden=64, heads=4, words=1000)


@pytest.fixture(scope="session")
def models(random_bert, tmp_path_factory):
    """A function that gives the model of a shape, kind and settings, made once."""
    from raypipe.models.folder.model_folder import resolve_model

    made = {}

    def model(shape, kind="encoder", **settings):
        key = (shape, kind, *sorted(settings.items()))
        if key not in made:
            folder = tmp_path_factory.mktemp("models") / f"model-{len(made)}"
            made[key] = random_bert.make_random_bert(folder, shape, kind=kind, **settings)
        return resolve_model(str(made[key]))

    return model


@pytest.fixture
def step(device, request):
    """Between the lengths that are tried."""
    return STEPS[device, request.node.callspec.params["shape"]]


@pytest.fixture
def threads(device):
    return 1 if device == "cpu" else THREADS
