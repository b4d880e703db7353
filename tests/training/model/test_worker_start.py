import pytest

from raypipe.errors import InputError
from raypipe.training.model.lowrank import LowRank
from raypipe.training.model.trainee import Trainee
from raypipe.training.model.worker import start_from_, trainee_of


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
