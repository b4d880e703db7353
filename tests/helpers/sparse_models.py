"""A seeded splade model of random weights, most of whose word pieces have no weight in a text."""

import json

import tiny
import torch
from transformers import BertForMaskedLM


def make_splade(folder, seed=0, **settings):
    """2 layers, hidden 32; raypipe.json beside it."""
    model = BertForMaskedLM(tiny.tiny_config(folder, seed, 2)).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if name.startswith("cls") or weight.dim() == 1:
                weight += torch.randn_like(weight) * 0.5
    model.save_pretrained(folder)
    body = {"kind": "encoder", "pooling": "splade", "normalise": False, "query_limit": 20}
    body |= {"query_segment": 0, "passage_segment": 0, "passage_limit": 62, **settings}
    (folder / "raypipe.json").write_text(json.dumps(body))
    return folder
