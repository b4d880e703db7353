import numpy as np
import pytest
from safetensors.numpy import save_file

from raypipe.storage.payloads import map_tensors


def test_mapped_tensors_have_their_own_types_and_shapes(tmp_path):
    tensors = {
        "a": np.arange(6, dtype=np.int64).reshape(2, 3),
        "b": np.array([1, 2], np.uint16),
        "c": np.array([[1.5], [2.5]], np.float32),
        "d": np.empty((0, 4), np.int32),
        "e": np.array([255], np.uint8),
        "f": np.array([7], np.uint32),
    }
    save_file(tensors, tmp_path / "x", metadata={"note": "not a tensor"})
    found = map_tensors(tmp_path / "x")
    assert found.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert found[name].dtype == tensor.dtype and found[name].tolist() == tensor.tolist()
        assert found[name].shape == tensor.shape
    with pytest.raises(ValueError):
        found["a"][0, 0] = 1
