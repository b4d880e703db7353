"""Beside raypipe in tests/benchmarks/gpu.py: transformers' forward and sentence-transformers."""

from functools import partial
from importlib.util import find_spec

import numpy as np
import torch
from transformers import BertForSequenceClassification, BertModel


def peers_of(work, settings):
    """(what it begins with, our way, other ways by name) for each scope.

    A duo's three segments are no input of sentence-transformers.
    """
    yield "pieces", work.ours, _transformers(work, settings)
    if find_spec("sentence_transformers") and work.case.kind != "duo":
        yield "text", work.from_text(), _sentence_transformers(work, settings)


def _sentence_transformers(work, settings):
    from sentence_transformers import CrossEncoder, SentenceTransformer
    from sentence_transformers.models import Pooling, Transformer

    path = str(work.model.folder)
    if work.case.kind == "encoder":
        texts = [text for (text,) in work.texts()]
        body = Transformer(path, max_seq_length=512)
        pooling = Pooling(work.case.shape.hidden, pooling_mode="mean")
        peer = SentenceTransformer(modules=[body, pooling], device=work.device)

        def run(size):
            return peer.encode(
                texts, batch_size=size, normalize_embeddings=True, show_progress_bar=False
            )
    else:
        texts = work.texts()
        peer = CrossEncoder(path, device=work.device, max_length=512)

        def run(size):
            return peer.predict(
                texts,
                batch_size=size,
                activation_fn=torch.nn.Identity(),
                show_progress_bar=False,
            )

    return {f"sentence-transformers, batch {n}": partial(run, n) for n in settings.batch_sizes}


def _transformers(work, settings):
    maker = BertModel if work.case.kind == "encoder" else BertForSequenceClassification
    model = maker.from_pretrained(work.model.folder).to(work.device).eval()
    rows = work.pieces()
    order = np.argsort(work.lengths, kind="stable")

    @torch.inference_mode()
    def run(size):
        found = [None] * len(rows)
        for start in range(0, len(order), size):
            chosen = order[start : start + size]
            inputs = _padded([rows[row] for row in chosen], work.lengths[chosen], work.device)
            output = model(**inputs)
            if work.case.kind == "encoder":
                mask = inputs["attention_mask"][:, :, None]
                summed = (output.last_hidden_state * mask).sum(dim=1)
                values = torch.nn.functional.normalize(summed / mask.sum(dim=1), dim=1)
            elif work.case.kind == "duo":
                values = torch.softmax(output.logits, dim=1)[:, 1]
            else:
                values = output.logits[:, 0]
            for row, value in zip(chosen, values.cpu().numpy(), strict=True):
                found[row] = value
        return np.stack(found)

    return {f"transformers, padded, batch {n}": partial(run, n) for n in settings.batch_sizes}


def _padded(rows, lengths, device):
    ids = torch.zeros(len(rows), int(lengths.max()), dtype=torch.long)
    segments, mask = torch.zeros_like(ids), torch.zeros_like(ids)
    for number, texts in enumerate(rows):
        at = 1
        ids[number, 0] = 2
        for segment, pieces in enumerate(texts):
            stop = at + len(pieces)
            ids[number, at:stop] = torch.from_numpy(pieces.astype(np.int64))
            ids[number, stop] = 3
            segments[number, at : stop + 1] = segment
            at = stop + 1
        mask[number, :at] = 1
    found = {"input_ids": ids, "token_type_ids": segments, "attention_mask": mask}
    return {name: tensor.to(device) for name, tensor in found.items()}
