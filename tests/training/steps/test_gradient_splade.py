"""The gradient of a splade model is autograd's over transformers' BertForMaskedLM."""

import gradients
import pytest
import torch
from sparse_gradients import assert_equal, gradients_of, plain
from sparse_models import make_splade
from torch.nn import functional as F

from raypipe.models import pooling
from raypipe.training.comm import Comm


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return make_splade(tmp_path_factory.mktemp("models") / "splade")


@pytest.mark.parametrize("kind", ["splade", "splade-nce"])
def test_the_gradient_reaches_the_head_and_both_uses_of_the_word_embeddings(folder, kind):
    trainee, layouts = gradients.make_trainee(folder, kind)
    batch = gradients.make_batch(num_examples=5, num_passages=3)
    loss, found = gradients.gradients(trainee, layouts, kind, Comm(), batch=batch)
    model, queries, passages = plain(folder, layouts, batch)
    if kind == "splade":
        scores = (queries[:, None] * passages.view(5, 3, -1)).sum(dim=2)
        taught = torch.from_numpy(batch.teacher).softmax(dim=1)
        expected = (taught * (taught / scores.softmax(dim=1)).log()).sum(dim=1).mean()
    else:
        own = torch.arange(5) * 3
        others = torch.from_numpy(batch.positive).clone()
        others[torch.arange(5), own] = False
        expected = F.cross_entropy((queries @ passages.T).masked_fill(others, -torch.inf), own)
    expected.backward()
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)
    theirs = gradients_of(model)
    assert_equal(found, theirs)
    head = [name for name in theirs if name.startswith("cls.")]
    assert len(head) == 5 and all(theirs[name].abs().max() > 0 for name in head)


def test_parts_of_the_vocabulary_that_are_computed_again_change_no_gradient(folder, monkeypatch):
    def run(**settings):
        trainee, layouts = gradients.make_trainee(folder, "splade-nce", **settings)
        return gradients.gradients(trainee, layouts, "splade-nce", Comm())[1]

    whole = run()
    assert len(whole["cls.predictions.bias"]) == 66
    monkeypatch.setattr(pooling, "WORDS_AT_ONCE", 20)  # the last part has 6
    parts = []

    def keep(tensor):
        parts.extend([tensor.shape] * (tensor.dim() == 3 and tensor.shape[-1] in (20, 6)))
        return tensor

    for again in (False, True):
        parts.clear()
        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            assert_equal(run(recompute=again), whole)
        assert (len(parts) > 0) == (not again)  # logits of all tokens of a length


def test_bf16_is_near_fp32(folder):
    def run(**settings):
        given = gradients.make_trainee(folder, "splade", **settings)
        return gradients.gradients(*given, "splade", Comm())[0].item()

    assert run(bf16=True) == pytest.approx(run(), rel=5e-2)


def test_low_rank_updates_of_the_layers_leave_the_head_as_it_is(folder):
    trainee, layouts = gradients.make_trainee(folder, "splade", low_rank=gradients.LowRank(2, 4.0))
    _, found = gradients.gradients(trainee, layouts, "splade", Comm())
    assert found and all("lora_" in name for name in found)
    assert any(gradient.abs().max() > 0 for gradient in found.values())
