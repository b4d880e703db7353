import pytest
import tiny
from safetensors.torch import load_file, save_file

from raypipe.errors import InputError
from raypipe.models.encoder import load_encoder
from raypipe.models.folder.loading import resolve_model


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return resolve_model(str(tiny.make_tiny_bert(tmp_path_factory.mktemp("m") / "tiny")))


def test_pickles_are_refused_and_never_opened(tmp_path):
    folder = tiny.make_tiny_bert(tmp_path / "m")
    (folder / "model.safetensors").unlink()
    canary = tmp_path / "canary"
    (folder / "pytorch_model.bin").write_bytes(
        b"cos\nsystem\n(S'touch %s'\ntR." % str(canary).encode()
    )
    with pytest.raises(InputError, match=r"pytorch_model.bin.*raypipe model convert"):
        resolve_model(str(folder))
    assert not canary.exists()


def test_conventions_are_never_guessed(tmp_path):
    folder = tiny.make_tiny_bert(tmp_path / "m")
    (folder / "raypipe.json").unlink()
    with pytest.raises(InputError, match="nothing says"):
        resolve_model(str(folder))
    with pytest.raises(InputError, match="did you mean repbert"):
        resolve_model(str(folder), "reqbert")
    assert resolve_model(str(folder), "repbert").conventions.passage_segment == 1


def test_changed_weights_are_found_when_they_are_loaded(tmp_path):
    folder = tiny.make_tiny_bert(tmp_path / "m")
    model = resolve_model(str(folder))
    weights = load_file(folder / "model.safetensors")
    weights["embeddings.LayerNorm.bias"] += 1
    save_file(weights, folder / "model.safetensors")
    with pytest.raises(InputError, match="SHA-256"):
        load_encoder(model)
