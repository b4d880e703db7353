import torch

from raypipe.training.trainee import LowRank, drawn


def test_how_an_update_is_drawn():
    base = {"bert.encoder.a.weight": torch.zeros(3, 4)}
    found = drawn(["bert.encoder.a"], base, 2, 7)
    uniform = torch.rand(2, 4, generator=torch.Generator().manual_seed(7))
    expected = (2 * uniform - 1) * 0.5  # sqrt(1 / 4)
    assert torch.equal(found["bert.encoder.a.lora_A.weight"], expected)
    assert found["bert.encoder.a.lora_B.weight"].tolist() == [[0.0, 0.0]] * 3


def test_an_update_of_low_rank_is_scaled_by_alpha_over_rank():
    assert LowRank(rank=8, alpha=16).scale == 2.0 and LowRank(rank=16, alpha=4).scale == 0.25
