from raypipe.training.model.lowrank import LowRank


def test_an_update_of_low_rank_is_scaled_by_alpha_over_rank():
    assert LowRank(rank=8, alpha=16).scale == 2.0 and LowRank(rank=16, alpha=4).scale == 0.25
