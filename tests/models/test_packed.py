import math

import pytest
import torch

from raypipe.models.packed import attend_by_length, attend_freely, first_tokens, linear

GROUPS = [(2, 1), (1, 3), (2, 2)]


def test_sequences_begin_where_the_ones_before_end():
    assert first_tokens(GROUPS, "cpu").tolist() == [0, 1, 2, 5, 7]


@pytest.mark.parametrize("rows", [1, 15, 16, 17])
def test_a_product_adds_its_low_rank_update(rows):
    generator = torch.Generator().manual_seed(rows)
    x, w, b, down, up = (
        torch.randint(-3, 4, shape, generator=generator).float()
        for shape in ((rows, 5), (4, 5), (4,), (2, 5), (4, 2))
    )
    assert torch.equal(linear(x, (w, b)), x @ w.T + b)
    assert torch.equal(linear(x, (w, b, down, up)), x @ w.T + b + x @ down.T @ up.T)


@pytest.mark.parametrize("attend", [attend_by_length, attend_freely])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("window", [None, 1, 3, 4])
def test_attention_is_within_each_sequence_head_and_window(attend, dtype, window):
    """Lengths are below, at and above a window, and end beside each other."""
    groups = [*GROUPS, (1, 9), (2, 4), (2, 5), (1, 6)]
    total = sum(count * length for count, length in groups)
    qkv = torch.randn(total, 12, generator=torch.Generator().manual_seed(1)).to(dtype)
    grown = qkv.clone().requires_grad_(dtype == torch.bfloat16)
    found = attend(grown, 2, groups, window).float()
    place, expected = 0, []
    for count, length in groups:
        for _ in range(count):
            own = qkv[place : place + length].float()
            place += length
            heads = []
            for head in range(2):
                q, k, v = (
                    own[:, 4 * part + 2 * head : 4 * part + 2 * head + 2] for part in range(3)
                )
                rows = []
                for at in range(length):
                    near = [n for n in range(length) if window is None or abs(n - at) <= window]
                    rows.append(torch.softmax(q[at] @ k[near].T / math.sqrt(2), dim=0) @ v[near])
                heads.append(torch.stack(rows))
            expected.append(torch.cat(heads, dim=1))
    tolerance = 1e-5 if dtype == torch.float32 else 3e-2
    torch.testing.assert_close(found, torch.cat(expected), atol=tolerance, rtol=tolerance)
    threads = torch.get_num_threads()
    attend(qkv, 2, groups, window)
    assert torch.get_num_threads() == threads
