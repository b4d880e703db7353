from hashlib import sha256

import pytest
import torch
from json_files import write
from safetensors.torch import save_file

from raypipe.errors import InputError
from raypipe.models.convert.describe import describe
from raypipe.models.folder.adapters import is_adapter
from raypipe.models.folder.model_folder import load_weights, resolve_model


def test_an_adapters_file_is_counted_by_hand_and_needs_a_classifier(tmp_path, encoder):
    adapter = tmp_path / "a"
    write(adapter / "adapter_config.json", {"r": 3})
    body = {"kind": "mono", "query_limit": 12, "passage_limit": None, "total_limit": 64}
    body |= {"relevant_label": 1, "score": "raw", "base": str(encoder)}
    write(adapter / "raypipe.json", body)
    tensors = {"up": torch.ones(2, 3), "down": torch.ones(4, dtype=torch.float16)}
    file = adapter / "adapter_model.safetensors"
    save_file(tensors, file)
    assert describe(str(adapter), None).weights == {
        "file": "adapter_model.safetensors", "sha256": sha256(file.read_bytes()).hexdigest(),
        "bytes": file.stat().st_size, "dtypes": ["F16", "F32"], "tensors": 2, "parameters": 10,
        "rank": 3,
    }  # fmt: skip
    with pytest.raises(
        InputError,
        match=f"{adapter} over {encoder}: the checkpoint lacks the tensor classifier.bias",
    ):
        load_weights(resolve_model(str(adapter)))
    assert is_adapter(adapter) and not is_adapter(encoder)
    (adapter / "model.safetensors").touch()  # a whole model beside it
    assert not is_adapter(adapter) and not is_adapter(tmp_path)


def test_an_adapter_has_no_cut_and_no_table():
    own = {"truncate_dim": 3, "query_table": "t"}
    with pytest.raises(InputError, match="truncate_dim, query_table: an adapter has none; remove"):
        resolve_model("general-mono", "splade", settings=own)
