"""The gradient of a splade model is autograd's over transformers' BertForMaskedLM."""

import gradients
import pytest
import torch
from sparse_models import make_splade
from torch.nn import functional as F
from transformers import BertForMaskedLM

from raypipe.models import pooling
from raypipe.training.comm import Comm


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return make_splade(tmp_path_factory.mktemp("models") / "splade")


def plain_weights(model, part, layout, limit):
    """Of each text and word the largest log(1 + relu(logit)) over its tokens, one by one."""
    out = []
    for start, count in zip(part.starts, part.counts, strict=True):
        pieces = part.flat[start : start + min(count, limit)].tolist()
        ids = torch.tensor([[layout.first, *pieces, layout.last]])
        out.append(torch.log(1 + F.relu(model(input_ids=ids).logits[0])).amax(dim=0))
    return torch.stack(out)


def plain(folder, layouts, batch):
    """transformers' model, and its weights of the batch's queries and passages."""
    model = BertForMaskedLM.from_pretrained(folder).eval()
    queries = plain_weights(model, batch.query, layouts["query"], 12)
    return model, queries, plain_weights(model, batch.passage, layouts["passage"], 40)


def gradients_of(model):
    """By name, those of the tied decoder with the word embeddings."""
    return {n: p.grad for n, p in model.named_parameters() if p.grad is not None}


def assert_equal(found, expected):
    largest = max(gradient.abs().max().item() for gradient in expected.values())
    assert largest > 0 and found.keys() == expected.keys()
    for name, gradient in expected.items():
        assert (found[name] - gradient).abs().max() <= 1e-5 * largest, name


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
    assert_equal(run(), whole)
    assert_equal(run(recompute=True), whole)


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
