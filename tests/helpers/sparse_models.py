"""A seeded splade model of random weights, most of whose word pieces have no weight in a text."""

import json
import shutil

import tiny
import torch
from safetensors.torch import save_file
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


def make_routed(folder, seed=0, place="", limit=9):
    """The same as a SparseEncoder whose queries have the weights of a table, from 0 to 5.

    The files are those of sentence-transformers' Router; its model lies in `place`.
    """
    make_splade(folder / place, seed)
    (folder / place / "raypipe.json").unlink()
    names = ("query_0_SparseStaticEmbedding", place, "document_1_SpladePooling")
    query, pooling = folder / names[0], folder / names[2]
    query.mkdir()
    pooling.mkdir()
    shutil.copy(folder / place / "tokenizer.json", query)
    (query / "config.json").write_text('{"frozen": true}')
    own = {"model_max_length": limit, "tokenizer_class": "BertTokenizer"}
    (query / "tokenizer_config.json").write_text(json.dumps(own))
    (pooling / "config.json").write_text('{"pooling_strategy": "max"}')
    save_table(folder, seed)
    types = ("SparseStaticEmbedding", "MLMTransformer", "SpladePooling")
    body = {"types": {n: f"sentence_transformers.{t}" for n, t in zip(names, types, strict=True)}}
    body |= {"structure": {"query": [names[0]], "document": [*names[1:]]}, "parameters": {}}
    (folder / "router_config.json").write_text(json.dumps(body))
    (folder / "config_sentence_transformers.json").write_text('{"model_type": "SparseEncoder"}')
    (folder / "modules.json").write_text('[{"type": "sentence_transformers.Router", "path": ""}]')
    return folder


def save_table(folder, seed, **weights):
    """The table of a folder of `make_routed`, drawn by the seed, but for these weights by id."""
    table = torch.rand(66, generator=torch.Generator().manual_seed(seed)) * 5
    table[::7] = 0
    for name, weight in weights.items():
        table[int(name.removeprefix("id"))] = weight
    file = folder / "query_0_SparseStaticEmbedding" / "model.safetensors"
    save_file({"weight": table}, file)
    return table.numpy()
