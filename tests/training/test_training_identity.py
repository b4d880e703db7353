"""What of its start model decides a training, and a start that changed under it."""

import json
import shutil

import pytest

from raypipe.config import load_training
from raypipe.driver.training.place import start_model
from raypipe.errors import InputError
from raypipe.storage.posix import PosixStorage
from raypipe.training.checkpoints.export import _copy_tokenizer
from raypipe.training.job import Job
from raypipe.training.model.lowrank import LowRank
from raypipe.training.model.trainee import Trainee
from raypipe.training.model.worker import start_from_, trainee_of


@pytest.fixture
def folder(tiny_model, tmp_path):
    return shutil.copytree(tiny_model, tmp_path / "start")


@pytest.fixture
def job(folder, small_recipe, tmp_path):
    """A function that gives the training as the driver sees the start model now."""

    def make(*, loss="cross-entropy", **changed):
        model = {"start": str(folder), "preset": "monobert", "query_limit": 12, "total_limit": 64}
        recipe = load_training(small_recipe(model={**model, **changed}, loss={"name": loss}))
        return Job(recipe, start_model(recipe), (), (), PosixStorage(tmp_path / "stores"))

    return make


def change(folder, **fields):
    body = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**body, **fields}))


def test_the_start_models_config_is_in_the_fingerprint(job, folder):
    before = job().spec
    change(folder, num_attention_heads=1, initializer_range=0.1)
    changes = [str(each) for each in before.diff(job().spec)]
    assert changes == [
        "params.start_config.initializer_range 0.02 -> 0.1",
        "params.start_config.num_attention_heads 4 -> 1",
    ]


def test_an_encoder_draws_no_head_and_its_fingerprint_has_no_range(job, folder):
    encoder = {"preset": "repbert", "total_limit": None, "passage_limit": 20, "loss": "info-nce"}
    before = job(**encoder).spec.fingerprint()
    change(folder, initializer_range=0.1)
    assert job(**encoder).spec.fingerprint() == before


def test_other_weights_under_a_training_are_refused(job, folder):
    begun = job()
    data = bytearray((folder / "model.safetensors").read_bytes())
    data[-1] ^= 1
    (folder / "model.safetensors").write_bytes(bytes(data))
    with pytest.raises(InputError, match="same model folder"):
        trainee_of(begun, "cpu")


def test_another_start_adapter_is_refused_by_its_hash(job, tmp_path):
    begun = job()
    config, conventions = begun.start.config(), begun.conventions
    whole = trainee_of(begun, "cpu")
    tensors = {name: weight.detach() for name, weight in whole.weights.items()}
    trainee = Trainee(tensors, config, conventions, low_rank=LowRank(2, 4.0))
    adapter = tmp_path / "adapter"
    adapter.mkdir()
    (adapter / "adapter_model.safetensors").write_bytes(b"other bytes")
    with pytest.raises(InputError, match="expected an adapter with SHA-256 00.*same folder"):
        start_from_(trainee, adapter, sha256="0" * 64)


def test_a_tokenizer_that_changed_since_the_training_began_is_not_exported(job, folder, tmp_path):
    begun = job()
    out = tmp_path / "out"
    out.mkdir()
    _copy_tokenizer(begun.start, out)
    assert (out / "tokenizer.json").read_bytes() == (folder / "tokenizer.json").read_bytes()
    file = folder / "tokenizer.json"
    file.write_bytes(file.read_bytes().replace(b'"zebra"', b'"zebru"'))
    with pytest.raises(InputError, match="that the training read"):
        _copy_tokenizer(begun.start, out)
