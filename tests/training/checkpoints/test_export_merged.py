import torch

from raypipe.training.checkpoints import export
from raypipe.training.model.lowrank import LowRank


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
