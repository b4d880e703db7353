"""A row's bytes do not know its neighbours: by default, and with the kernels of other CPUs."""

import json
import os
import subprocess
import sys

import company
import drawn_models
import pytest

from raypipe import numerics
from raypipe.models.folder.model_folder import resolve_model
from raypipe.models.machine.device import blas

AVX2 = {"ATEN_CPU_CAPABILITY": "avx2", "MKL_ENABLE_INSTRUCTIONS": "AVX2"}
VARIABLES = {numerics.VARIABLE, *AVX2}


def kernels_in(mode):
    """The kernels that MKL names in the child; on a CPU that is not Intel's it names none."""
    return "AUTO" if "AUTO" in blas() else mode


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    return company.make_models(tmp_path_factory.mktemp("models"))


def in_child(models, environment, threads, names=company.NAMES):
    """What the program finds where only `environment` chooses kernels and mode."""
    kept = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    done = subprocess.run(
        [sys.executable, company.__file__, str(models), str(threads), *names],
        capture_output=True,
        text=True,
        env={**kept, **environment},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def check(found):
    """Nothing differs where it is promised; and it is promised where MKL is strict."""
    for name, told in found.items():
        unproven = told["numerics"].endswith("neighbours: unproven")
        assert unproven or told["differ"] == 0, (name, told)
        assert not (unproven and "STRICT" in told["numerics"]), (name, told)


@pytest.mark.slow
@pytest.mark.fault(
    46, "no bit of a row differs alone and in company, or its class says that this is not proven"
)
@pytest.mark.parametrize(
    ("threads", "names"),
    [
        (2, company.NAMES),
        pytest.param(1, company.NAMES, marks=pytest.mark.long),
        # A probe takes 10 s with twice as many threads as cores.
        pytest.param(4, company.NAMES[:2], marks=pytest.mark.long),
        pytest.param(4, company.NAMES[2:4], marks=pytest.mark.long),
        pytest.param(4, company.NAMES[4:], marks=pytest.mark.long),
    ],
)
def test_a_rows_bytes_do_not_know_its_neighbours(models, threads, names):
    check(company.all_of(models, threads, names))


@pytest.mark.parametrize("threads", [1, 2, 4])
@pytest.mark.parametrize("kind", ["bert", "modernbert"])
def test_a_rows_bytes_do_not_know_its_neighbours_in_a_tiny_model(
    tiny_model, tmp_path, kind, threads
):
    if kind == "modernbert":
        drawn_models.make(tmp_path, kind)
        model = drawn_models.opened(tmp_path, **drawn_models.ENCODER)
    else:
        model = resolve_model(str(tiny_model))
    differ, told = company.encoder_differs(model, threads)
    check({"tiny": {"differ": differ, "numerics": told}})


@pytest.mark.slow
@pytest.mark.parametrize("name", ["minilm", "base-duo", "modernbert-mono"])
@pytest.mark.parametrize(
    "precision",
    # A minute on a CPU that does not compute in fp16.
    ["bf16", pytest.param("fp16", marks=pytest.mark.long)],
)
def test_nor_in_reduced_precision(models, name, precision):
    """On AMX, one product of all rows would differ from inner size 768 on."""
    told = company.found(models, name, 2, precision)
    check({name: told})
    assert precision in told["numerics"] and "fp32" not in told["numerics"]


@pytest.mark.slow
def test_nor_with_the_kernels_of_a_cpu_that_has_avx2_alone(models):
    names = ["minilm", "base-duo", "modernbert"]
    found = in_child(models, {numerics.VARIABLE: numerics.STRICT, **AVX2}, 2, names)
    check(found)
    if blas().startswith("mkl"):
        mode = f"{kernels_in('AVX2')},STRICT"
        assert all(mode in one["numerics"] for one in found.values())


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(AVX2))
@pytest.mark.parametrize("mode", [None, numerics.STRICT])
@pytest.mark.parametrize("threads", [1, 2, 4])
def test_nor_with_the_older_kernels_of_one_library_alone(models, name, mode, threads):
    given = {} if mode is None else {numerics.VARIABLE: mode}
    check(in_child(models, {name: AVX2[name], **given}, threads))


@pytest.mark.slow
def test_a_program_with_a_mode_of_its_own_is_told_what_holds(models):
    """As a library, on a CPU with AVX2 alone: MKL mixes rows there, and the class says so."""
    found = in_child(models, AVX2, 1, ["minilm", "base-duo"])
    check(found)
    if blas().startswith("mkl"):
        mode = f"off ({kernels_in('AVX2')})"
        assert all(mode in told["numerics"] for told in found.values())
    assert all("unproven" in told["numerics"] for told in found.values() if told["differ"])
