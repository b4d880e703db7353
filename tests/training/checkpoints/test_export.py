import pytest
import torch

from raypipe.errors import InputError
from raypipe.training import export
from raypipe.training.export import _copy_tokenizer
from raypipe.training.trainee import LowRank


def test_an_update_is_merged_as_its_product_times_the_scale():
    base = {"l.weight": torch.ones(2, 2), "x": torch.zeros(1), "y": torch.ones(1)}
    trained = {
        "l.lora_A.weight": torch.tensor([[1.0, 2.0]]),
        "l.lora_B.weight": torch.tensor([[3.0], [0.5]]),
        "x": torch.tensor([7.0]),
    }
    found = export.merged(base, trained, LowRank(rank=1, alpha=2))
    assert found["l.weight"].tolist() == [[7.0, 13.0], [2.0, 3.0]]
    assert sorted(found) == ["l.weight", "x", "y"] and found["x"].tolist() == [7.0]
    assert base["l.weight"].tolist() == [[1.0, 1.0], [1.0, 1.0]]


@pytest.mark.slow
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
