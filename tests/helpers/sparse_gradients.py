"""A splade model's weights and gradients by transformers' BertForMaskedLM and autograd."""

import torch
from torch.nn import functional as F
from transformers import BertForMaskedLM


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
