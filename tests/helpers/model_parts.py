"""Conventions, a config and tensors to break one by one."""

from dataclasses import replace

import torch

from raypipe.models.bert.family import FAMILY
from raypipe.models.folder.settings import Conventions, PairConventions

ENCODER = Conventions(
    pooling="mean", normalise=False, query_segment=0, passage_segment=1, query_limit=3,
    passage_limit=6,
)  # fmt: skip


MONO = PairConventions(
    kind="mono", query_limit=3, passage_limit=None, total_limit=16, relevant_label=1,
    score="log-probability",
)  # fmt: skip


DUO = replace(MONO, kind="duo", score="probability", passage_limit=4)


CONFIG = {
    "model_type": "bert", "hidden_act": "gelu", "hidden_size": 4, "intermediate_size": 6,
    "max_position_embeddings": 16, "num_attention_heads": 2, "num_hidden_layers": 2,
    "type_vocab_size": 2, "vocab_size": 9, "layer_norm_eps": 1e-12,
}  # fmt: skip


def tensors(prefix, units):
    generator = torch.Generator().manual_seed(3)
    shapes = FAMILY.files.expected_shapes(CONFIG, num_labels=units)
    return {
        (name if "classifier" in name else prefix + name): torch.randn(shape, generator=generator)
        for name, shape in shapes.items()
    }
