"""Beside raypipe in jobs/benchmark.py: what a user would pick instead, at several batch sizes.

transformers' own forward over inputs sorted by length and padded, which begins with word pieces as
we do; and where they are installed, from text: sentence-transformers' encode or predict, with its
backends of ONNX and OpenVINO on a CPU, and pyserini's encoder.
"""

import os
from functools import partial
from importlib.util import find_spec

import numpy as np
import torch
from transformers import BertForSequenceClassification, BertModel

from raypipe.models.machine.precision import DTYPES


def peers_of(work, settings):
    """(what it begins with, our way, other ways) for each scope; ways by name.

    A duo's three segments are no input of sentence-transformers, and pyserini's encoders have one
    segment.
    """
    yield "pieces", {"raypipe": work.ours}, _transformers(work, settings)
    if work.case.kind == "duo":
        return
    others = {}
    if find_spec("sentence_transformers"):
        for backend in _backends(work):
            others |= _sentence_transformers(work, settings, backend)
    if find_spec("pyserini") and work.case.kind == "encoder" and work.precision == "fp32":
        others |= _pyserini(work, settings)
    if others:
        yield "text", {"raypipe": work.from_text()}, others


def _backends(work):
    """ONNX and OpenVINO export fp32; on a GPU they are left out."""
    found = ["torch"]
    if work.device == "cpu" and work.precision == "fp32" and find_spec("optimum"):
        found += [
            name
            for name in ("onnx", "openvino")
            if find_spec(f"{name}runtime" if name == "onnx" else name)
        ]
    return found


def _sentence_transformers(work, settings, backend):
    from sentence_transformers import CrossEncoder, SentenceTransformer
    from sentence_transformers.models import Pooling, Transformer

    path = str(work.model.folder)
    dtype = {"dtype": DTYPES[work.precision]} if backend == "torch" else {}
    if work.case.kind == "encoder":
        texts = [text for (text,) in work.texts()]
        body = Transformer(path, max_seq_length=512, model_kwargs=dtype, backend=backend)
        pooling = Pooling(work.case.shape.hidden, pooling_mode="mean")
        peer = SentenceTransformer(modules=[body, pooling], device=work.device)

        def run(size):
            return peer.encode(
                texts, batch_size=size, normalize_embeddings=True, show_progress_bar=False
            )
    else:
        texts = work.texts()
        peer = CrossEncoder(
            path, device=work.device, max_length=512, model_kwargs=dtype, backend=backend
        )

        def run(size):
            return peer.predict(
                texts,
                batch_size=size,
                activation_fn=torch.nn.Identity(),
                show_progress_bar=False,
            )

    name = "sentence-transformers" + ("" if backend == "torch" else f" ({backend})")
    return {f"{name}, batch {n}": partial(run, n) for n in settings.batch_sizes}


def _pyserini(work, settings):
    os.environ.setdefault("OPENAI_API_KEY", "none")  # it imports a client that asks for one
    from raypipe.engines.lucene.java import start_jvm

    start_jvm()
    from pyserini.encode import AutoDocumentEncoder

    peer = AutoDocumentEncoder(
        str(work.model.folder), device=work.device, pooling="mean", l2_norm=True
    )
    texts = [text for (text,) in work.texts()]

    def run(size):
        parts = [texts[start : start + size] for start in range(0, len(texts), size)]
        return np.concatenate([peer.encode(part, max_length=512) for part in parts])

    return {f"pyserini, batch {n}": partial(run, n) for n in settings.batch_sizes}


def _transformers(work, settings):
    maker = BertModel if work.case.kind == "encoder" else BertForSequenceClassification
    model = maker.from_pretrained(work.model.folder, dtype=DTYPES[work.precision])
    model = model.to(work.device).eval()
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
                summed = (output.last_hidden_state.float() * mask).sum(dim=1)
                values = torch.nn.functional.normalize(summed / mask.sum(dim=1), dim=1)
            elif work.case.kind == "duo":
                values = torch.softmax(output.logits.float(), dim=1)[:, 1]
            else:
                values = output.logits[:, 0].float()
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
