"""What tests/benchmarks/gpu.py computes: its cases, their inputs, our way, and operations."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from random_bert import Shape, make_random_bert, pieces_of, text_of

from raypipe.models.encoder import load_encoder
from raypipe.models.folder.loading import resolve_model
from raypipe.models.folder.opening import open_tokenizer
from raypipe.models.scorer import load_scorer
from raypipe.text.pairs import TextSlice
from raypipe.text.tokenize import tokenize_batch

MINILM, BASE, LARGE = Shape(6, 384, 12), Shape(12, 768, 12), Shape(24, 1024, 16)
TINY = Shape(2, 64, 4, words=1000)


@dataclass(frozen=True)
class Case:
    name: str
    kind: str
    shape: Shape
    items: int
    full: bool = False
    """Every input of 512 tokens."""


@dataclass(frozen=True)
class Settings:
    cases: tuple[Case, ...]
    matrix: int
    copy_bytes: int
    machine_rounds: int
    rounds: int
    batch_sizes: tuple[int, ...]


FULL = Settings(
    cases=(
        Case("encode, 6 layers of 384", "encoder", MINILM, 12_000),
        Case("encode, BERT-base", "encoder", BASE, 4_000),
        Case("mono, BERT-base", "mono", BASE, 3_000),
        Case("mono, BERT-base, 512 tokens", "mono", BASE, 400, full=True),
        Case("mono, BERT-large", "mono", LARGE, 1_000),
        Case("duo, BERT-base", "duo", BASE, 1_500),
    ),
    matrix=8192,
    copy_bytes=4 << 30,
    machine_rounds=10,
    rounds=5,
    batch_sizes=(64, 256, 1024),
)
QUICK = Settings(
    cases=(
        Case("encode, tiny", "encoder", TINY, 64),
        Case("mono, tiny", "mono", TINY, 48),
        Case("mono, tiny, 512 tokens", "mono", TINY, 4, full=True),
        Case("duo, tiny", "duo", TINY, 32),
    ),
    matrix=256,
    copy_bytes=1 << 20,
    machine_rounds=3,
    rounds=2,
    batch_sizes=(8, 32),
)


class Work:
    """One case's model and inputs, ready to run."""

    def __init__(self, case, settings, device, folder):
        self.case, self.device, self.items = case, device, case.items
        units = {} if case.kind == "encoder" else {"units": 1, "score": "raw"}
        if case.kind == "duo":
            units = {"units": 2}
        self.model = resolve_model(
            str(make_random_bert(folder, case.shape, kind=case.kind, **units))
        )
        rng = np.random.default_rng(0)

        def passages():
            return rng.normal(71, 28, case.items).round().clip(5, 254).astype(int)

        queries = rng.integers(3, 17, case.items)
        counts = [passages()] if case.kind == "encoder" else [queries, passages()]
        if case.kind == "duo":
            counts.append(passages())
        if case.full:
            counts[-1] = 512 - 3 - queries
        self.parts = []
        for seed, sizes in enumerate(counts):
            flat, offsets = pieces_of(sizes, case.shape, seed=seed)
            self.parts.append((flat, offsets))
        self.lengths = sum(np.asarray(c) + 1 for c in counts) + 1
        load = load_encoder if case.kind == "encoder" else load_scorer
        self._engine = load(self.model, device=device)
        assert self.lengths.max() <= 512

    def ours(self):
        """Vectors or scores from word pieces."""
        return self._compute(self.parts)

    def _compute(self, parts):
        if self.case.kind == "encoder":
            return self._engine.encode(*parts[0], side="passage")
        query, *rest = (TextSlice(f, o[:-1], np.diff(o)) for f, o in parts)
        return self._engine.score(query, rest)

    def pieces(self):
        """Each input's word pieces, one array a text."""
        columns = [[flat[a:b] for a, b in pairwise(offsets)] for flat, offsets in self.parts]
        return list(zip(*columns, strict=True))

    def texts(self):
        """Each input's texts; a word is a word piece."""
        return [tuple(text_of(part) for part in row) for row in self.pieces()]

    def from_text(self):
        """Ours with the tokenizer in front, where each input's texts are of their own."""
        tokenizer = open_tokenizer(self.model)
        columns = [list(column) for column in zip(*self.texts(), strict=True)]

        def run():
            found = [tokenize_batch(tokenizer, texts, max_pieces=512) for texts in columns]
            return self._compute(found)

        return run

    def agreeing(self, ways):
        """The ways that fit in memory, each run once, and the largest difference to ours.

        Vectors have length 1, scores are units or probabilities.

        Raises:
            SystemExit: one differs by more than 1e-3.
        """
        own, kept, largest = self.ours(), {}, 0.0
        if not np.isfinite(own).all() or np.std(own) < 1e-2:
            raise SystemExit(f"{self.case.name}: numbers that cannot be told apart; not timed")
        for way, run in ways.items():
            try:
                difference = float(np.abs(np.asarray(run()) - own).max())
            except torch.OutOfMemoryError:
                torch.cuda.empty_cache()
                continue
            if not difference <= 1e-3:
                raise SystemExit(f"{self.case.name}: {way} differs by {difference}; not timed")
            kept[way], largest = run, max(largest, difference)
        return kept, largest


def operations(case, lengths):
    """Floating-point operations of the forward, multiplications and additions counted."""
    shape, reranks = case.shape, case.kind != "encoder"
    hidden, inner = shape.hidden, shape.inner
    tokens, inputs = int(lengths.sum()), len(lengths)
    before = 2 * 3 * hidden * hidden  # query, key, value
    after = 2 * hidden * hidden + 2 * 2 * hidden * inner
    attention = 4 * hidden * int((lengths.astype(np.int64) ** 2).sum())
    last = inputs if reranks else tokens
    whole = shape.layers * (before * tokens + attention) + after * (
        (shape.layers - 1) * tokens + last
    )
    return whole + (2 * hidden * (hidden + 2) * inputs if reranks else 0)
