import json

import pytest

from raypipe.errors import InputError
from raypipe.models.convert.checkpoint import find_checkpoint


def touch(folder, *names):
    folder.mkdir(exist_ok=True)
    for name in names:
        (folder / name).write_bytes(b"x")
    return folder


def test_the_safe_files_come_first_and_any_other_must_be_alone(tmp_path):
    folder = touch(tmp_path / "m", "model.safetensors", "pytorch_model.bin", "other.pt")
    assert find_checkpoint(folder) == [folder / "model.safetensors"]
    (folder / "model.safetensors").unlink()
    assert find_checkpoint(folder) == [folder / "pytorch_model.bin"]
    (folder / "pytorch_model.bin").unlink()
    (folder / "a.bin").mkdir()  # a folder is no checkpoint
    touch(folder, "notes.txt")
    assert find_checkpoint(folder) == [folder / "other.pt"]
    assert find_checkpoint(folder / "notes.txt") == [folder / "notes.txt"]
    (folder / "other.pt").rename(folder / "weights.npz")
    assert find_checkpoint(folder) == [folder / "weights.npz"]
    touch(folder, "b.safetensors")
    with pytest.raises(InputError, match=r"found b.safetensors, weights.npz; .*b\.safetensors$"):
        find_checkpoint(folder)
    with pytest.raises(InputError, match=r"file, found none"):
        find_checkpoint(touch(tmp_path / "empty", "notes.txt"))
    with pytest.raises(InputError, match="no such file or folder"):
        find_checkpoint(tmp_path / "nowhere")


@pytest.mark.parametrize("end", ["", ".index", ".data-00000-of-00001"])
def test_any_file_of_a_tensorflow_checkpoint_names_it(tmp_path, end):
    folder = touch(tmp_path / "m", "c.ckpt-4.index", "c.ckpt-4.data-00000-of-00001")
    with pytest.raises(InputError, match=r"/m/c\.ckpt-4: a TensorFlow checkpoint") as told:
        find_checkpoint(folder / f"c.ckpt-4{end}")
    assert told.value.__notes__[-1].startswith(f"raypipe model convert {folder}/model.npz")
    touch(folder, "d.ckpt-5.index")
    with pytest.raises(InputError, match=r"/m/c\.ckpt-4: a TensorFlow checkpoint"):
        find_checkpoint(folder)


@pytest.mark.fault(39, "an index of tensors that names a file above it is refused")
def test_an_index_names_files_beside_it_once_each(tmp_path):
    folder = touch(tmp_path / "m", "b.bin", "a.bin")
    index = folder / "pytorch_model.bin.index.json"

    def listed(places):
        index.write_text(json.dumps({"weight_map": places}))
        return find_checkpoint(index)

    assert listed({"x": "b.bin", "y": "a.bin", "z": "b.bin"}) == [
        folder / "a.bin",
        folder / "b.bin",
    ]
    assert find_checkpoint(folder) == find_checkpoint(index)
    with pytest.raises(InputError) as told:
        listed({"x": "../a.bin", "y": "gone.bin", "z": "a.bin"})
    assert told.value.problems == [
        f"{index}: expected the name of a file beside it, found '../a.bin'",
        f"{index}: gone.bin is missing",
    ]
    with pytest.raises(InputError, match="gone.bin is missing"):
        listed({"y": "gone.bin"})
    with pytest.raises(InputError, match=r"beside it, found 7"):
        listed({"y": 7})
    for broken in ("{", "[]", "{}", '{"weight_map": []}'):
        index.write_text(broken)
        with pytest.raises(InputError, match="expected a weight_map"):
            find_checkpoint(index)
