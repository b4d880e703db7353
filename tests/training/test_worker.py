from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import save_file

from raypipe.errors import InputError
from raypipe.models.folder.model_folder import layouts_of, resolve_model
from raypipe.models.folder.settings import PRESETS
from raypipe.text.inputs import Layout
from raypipe.training.adapter_start import start_from_
from raypipe.training.start import layouts_for, trainee_of
from raypipe.training.trainee import LowRank, Trainee


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


@pytest.fixture
def adapter(tmp_path):
    """A function that writes an adapter's folder and gives it with its hash."""
    import hashlib
    import json

    def write(tensors, rank=1, alpha=2.0):
        folder = tmp_path / "adapter"
        folder.mkdir(exist_ok=True)
        named = {f"base_model.model.{name}": tensor for name, tensor in tensors.items()}
        save_file(named, folder / "adapter_model.safetensors")
        (folder / "adapter_config.json").write_text(json.dumps({"r": rank, "lora_alpha": alpha}))
        data = (folder / "adapter_model.safetensors").read_bytes()
        return folder, hashlib.sha256(data).hexdigest()

    return write


def test_an_adapter_to_start_from_gives_what_it_has(adapter):
    folder, sha256 = adapter({"a.lora_A.weight": torch.ones(1, 2), "e.embeddings.x": torch.ones(3)})
    own = {"a.lora_A.weight": torch.zeros(1, 2), "e.embeddings.x": torch.zeros(2),
           "head.weight": torch.zeros(1)}  # fmt: skip
    given = SimpleNamespace(weights=own, low_rank=LowRank(1, 2.0), config={})
    start_from_(given, folder, sha256=sha256)
    assert own["a.lora_A.weight"].tolist() == [[1.0, 1.0]]
    assert own["e.embeddings.x"].tolist() == [0.0, 0.0] and own["head.weight"].tolist() == [0.0]


def test_an_adapter_of_another_kind_is_refused(adapter):
    weights = {"a.lora_A.weight": torch.zeros(1, 2)}
    given = SimpleNamespace(weights=weights, low_rank=LowRank(1, 2.0), config={})
    for changed, why in (({"rank": 2}, "found rank 2 and alpha 2"), ({"alpha": 1.0}, "alpha 1.0")):
        folder, sha256 = adapter({"a.lora_A.weight": torch.ones(1, 2)}, **changed)
        with pytest.raises(InputError, match=why):
            start_from_(given, folder, sha256=sha256)
    folder, sha256 = adapter({"a.lora_A.weight": torch.ones(2, 2)})
    with pytest.raises(InputError, match=r"expected \[1, 2\], found \[2, 2\]"):
        start_from_(given, folder, sha256=sha256)
    folder, sha256 = adapter({"other": torch.ones(1)})
    with pytest.raises(InputError, match=r"found others, other, whose effect .* merge it"):
        start_from_(given, folder, sha256=sha256)
    folder, sha256 = adapter({"classifier.weight": torch.ones(1)})
    with pytest.raises(InputError, match=r"expected \[1, 2\], found none"):
        start_from_(given, folder, sha256=sha256)
    with pytest.raises(InputError, match="expected an adapter with SHA-256 00"):
        start_from_(given, folder, sha256="00")
    assert weights["a.lora_A.weight"].tolist() == [[0.0, 0.0]]


def test_inputs_are_of_the_kind_in_training_whatever_it_starts_from():
    start = resolve_model("minilm")
    for preset, segments in (("monobert", (0, 1)), ("duobert", (0, 1, 2))):
        found = layouts_for(SimpleNamespace(start=start, conventions=PRESETS[preset]))
        assert found == {"pair": Layout(101, (102,), 102, segments)}
    repbert = layouts_for(SimpleNamespace(start=start, conventions=PRESETS["repbert"]))
    assert {side: layout.segments for side, layout in repbert.items()} == {
        "query": (0,),
        "passage": (1,),
    }
    assert layouts_of(replace(start, conventions=PRESETS["repbert"])) == repbert
