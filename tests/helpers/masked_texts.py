"""Stretches over made-up passages, and a tiny model with the heads of pre-training."""

import numpy as np
from transformers import BertForPreTraining

from raypipe.models.folder.model_folder import layouts_of, load_weights, resolve_model
from raypipe.text.inputs import TextSlice
from raypipe.training.pretrain import Maker, Rule, TextSource
from raypipe.training.start import pretraining_tensors
from raypipe.training.stretches import cut
from raypipe.training.trainee import Trainee

CLS, SEP, MASK, WORDS = 2, 3, 4, 66
RULE = Rule(0.15, MASK, WORDS, (CLS, SEP))


class Passages:
    """Passage r has the pieces 5 + 10 r, 6 + 10 r, ...; as many as `counts` says."""

    def __init__(self, counts, words=60_000):
        self.counts, self.words = np.array(counts, np.int64), words

    def part(self, rows):
        texts = [(5 + 10 * r + np.arange(self.counts[r])) for r in rows]
        flat = np.concatenate([np.empty(0, np.int64), *texts]) % self.words
        counts = self.counts[rows]
        return TextSlice(np.maximum(flat, 5).astype(np.uint16), np.cumsum(counts) - counts, counts)


def text_source(counts, *, limit=12, joined=True, held_out=0, before=0, seed=1, words=60_000):
    table = cut(np.array(counts, np.int64), limit=limit, joined=joined, least=2)
    return TextSource(table, Passages(counts, words), held_out, seed, before)


def make_pretrained(tiny, folder):
    """A folder of transformers' BertForPreTraining, and that model."""
    import torch

    model = BertForPreTraining(tiny.tiny_config(folder, 0, 2)).eval()
    with torch.no_grad():  # so that heads and biases matter
        for name, weight in model.named_parameters():
            if name.startswith("cls") or weight.dim() == 1:
                weight += torch.randn_like(weight) * 0.1
    model.save_pretrained(folder)
    (folder / "raypipe.json").write_text('{"kind": "pretrained", "total_limit": 32}')
    return model


def trainee_and_maker(folder, counts, *, next_sentence, joined=True, dropout=0.0):
    """A model in pre-training, and what makes its inputs."""
    model = resolve_model(str(folder))
    tensors = pretraining_tensors(
        load_weights(model), model.config(), next_sentence=next_sentence,
        draw_missing=False, seed=0,
    )  # fmt: skip
    trainee = Trainee(tensors.trained, model.config(), model.conventions, dropout=dropout)
    limit = 32 - (3 if next_sentence else 2)
    source = text_source(counts, limit=limit, joined=joined, words=WORDS)
    return trainee, Maker([source], layouts_of(model), RULE, next_sentence, 32, 7)
