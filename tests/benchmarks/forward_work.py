"""What jobs/benchmark.py computes: its cases, their inputs, our way, and operations."""

import time
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import pairwise

import numpy as np
import torch
from random_bert import Shape, make_random_bert, pieces_of, text_of

from raypipe.models.folder.model_folder import open_tokenizer, resolve_model
from raypipe.models.load import load_encoder, load_scorer
from raypipe.text.inputs import TextSlice
from raypipe.text.tokenize import tokenize_batch

MINILM, BASE, LARGE = Shape(6, 384, 12), Shape(12, 768, 12), Shape(24, 1024, 16)
TINY = Shape(2, 64, 4, words=1000)
TOLERANCE = {"fp32": 1e-3, "tf32": 2e-2, "bf16": 1e-1, "fp16": 2e-2}
"""Between two ways in one precision; random weights of 12 layers are harsher than trained ones."""


@dataclass(frozen=True)
class Case:
    name: str
    kind: str
    shape: Shape
    items: int
    full: bool = False
    """Every input of 512 tokens."""
    part: str = ""
    """The part of the command that measures it."""
    inside: bool = False
    """Whether one pass is looked into: a profile, and torch.compile beside the fused kernels."""


@dataclass(frozen=True)
class Settings:
    cases: tuple[Case, ...]
    matrix: int
    copy_bytes: int
    machine_rounds: int
    rounds: int
    batch_sizes: tuple[int, ...]
    """Of peers; the first is tried even where the time is up."""
    tokens_of_pass: int | None = None
    """Where the ways between products are compared; None means the device's."""
    looks_inside: bool = True
    """Whether they are."""


KINDS = ("encoder", "mono", "duo")
FULL = Settings(
    cases=(  # by priority
        Case("mono, BERT-large", "mono", LARGE, 6_000, part="mono-large", inside=True),
        Case("mono, 6 layers of 384", "mono", MINILM, 20_000, part="mono"),
        Case("encode, BERT-base", "encoder", BASE, 20_000, part="encode", inside=True),
        Case("duo, BERT-large", "duo", LARGE, 3_000, part="duo-large"),
        *(Case(f"train {kind}, BERT-base", kind, BASE, 32, part="train") for kind in KINDS),
        Case("encode, 6 layers of 384", "encoder", MINILM, 20_000, part="encode"),
        Case("mono, BERT-base", "mono", BASE, 12_000, part="mono"),
        Case("duo, BERT-base", "duo", BASE, 6_000, part="duo"),
        Case("mono, BERT-base, 512 tokens", "mono", BASE, 2_000, full=True, part="mono"),
    ),
    matrix=8192,
    copy_bytes=4 << 30,
    machine_rounds=10,
    rounds=5,
    batch_sizes=(512, 128, 32),
)
ON_CPU = replace(
    FULL,
    cases=(
        Case("encode, 6 layers of 384", "encoder", MINILM, 192, part="encode"),
        Case("mono, 6 layers of 384", "mono", MINILM, 160, part="mono"),
        Case("mono, BERT-base, 512 tokens", "mono", BASE, 6, full=True, part="mono-large"),
        Case("duo, 6 layers of 384", "duo", MINILM, 96, part="duo"),
        *(Case(f"train {kind}, 6 layers of 384", kind, MINILM, 4, part="train") for kind in KINDS),
    ),
    matrix=1024,
    copy_bytes=1 << 28,
    batch_sizes=(64, 32, 16, 8),
    looks_inside=False,
)
QUICK = Settings(
    cases=(
        Case("encode, tiny", "encoder", TINY, 64, part="encode", inside=True),
        Case("mono, tiny", "mono", TINY, 48, part="mono"),
        Case("mono, tiny, 512 tokens", "mono", TINY, 4, full=True, part="mono"),
        Case("duo, tiny", "duo", TINY, 32, part="duo"),
        *(Case(f"train {kind}, tiny", kind, TINY, 3, part="train") for kind in KINDS),
    ),
    matrix=256,
    copy_bytes=1 << 20,
    machine_rounds=3,
    rounds=2,
    batch_sizes=(32, 8),
    tokens_of_pass=1024,
)


class Work:
    """One case's model and inputs, ready to run."""

    def __init__(self, case, settings, device, folder, precision="fp32"):
        self.case, self.device, self.items = case, device, case.items
        self.precision = precision
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
        assert self.lengths.max() <= 512

    @cached_property
    def engine(self):
        """Our model, loaded once."""
        return self._load()

    def ours(self):
        """Vectors or scores from word pieces."""
        return self._compute(self.engine, self.parts)

    def with_settings(self, fixed, tokens):
        """The same by another engine, in passes of fixed shape with these settings."""
        return partial(self._compute, self._load(fixed=fixed, budget_tokens=tokens), self.parts)

    def _load(self, **settings):
        load = load_encoder if self.case.kind == "encoder" else load_scorer
        return load(self.model.in_precision(self.precision), device=self.device, **settings)

    def _compute(self, engine, parts):
        if self.case.kind == "encoder":
            return engine.encode(*parts[0], side="passage")
        query, *rest = (TextSlice(f, o[:-1], np.diff(o)) for f, o in parts)
        return engine.score(query, rest)

    def pieces(self):
        """Each input's word pieces, one array a text."""
        columns = [[flat[a:b] for a, b in pairwise(offsets)] for flat, offsets in self.parts]
        return list(zip(*columns, strict=True))

    def texts(self):
        """Each input's texts; a word is a word piece."""
        return [tuple(text_of(part) for part in row) for row in self.pieces()]

    def from_text(self):
        """Ours with the tokenizer in front, where each input's texts are of their own."""
        tokenized = self.tokenized()
        return lambda: self._compute(self.engine, tokenized())

    def tokenized(self):
        """A function that makes the word pieces of all texts."""
        tokenizer = open_tokenizer(self.model)
        columns = [list(column) for column in zip(*self.texts(), strict=True)]
        return lambda: [tokenize_batch(tokenizer, texts, max_pieces=512) for texts in columns]

    def agreeing(self, ways, until):
        """The ways that fit in memory, each run once, and the largest difference to ours.

        After `until` (time.monotonic), of each scope's other ways only the first is run. Vectors
        have length 1, scores are units or probabilities; those are compared as shares of the
        largest.

        Raises:
            SystemExit: one differs by more than TOLERANCE of the precision.
        """
        own, agree, largest = self.ours(), {}, 0.0
        scale, most = max(1.0, float(np.abs(own).max())), TOLERANCE[self.precision]
        if not np.isfinite(own).all() or np.std(own) < 1e-2:
            raise SystemExit(f"{self.case.name}: numbers that cannot be told apart; not timed")
        for way, run in ways.items():
            if time.monotonic() > until and any(each[:2] == way[:2] for each in agree):
                continue
            try:
                difference = float(np.abs(np.asarray(run()) - own).max()) / scale
            except torch.OutOfMemoryError:
                torch.cuda.empty_cache()
                continue
            if not difference <= most:
                raise SystemExit(f"{self.case.name}: {way} differs by {difference}; not timed")
            agree[way], largest = run, max(largest, difference)
        return agree, largest


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


def padding_of(lengths, size):
    """Tokens of padded batches of `size` inputs, sorted by length, for each real one."""
    ordered = np.sort(lengths)
    batches = [ordered[start : start + size] for start in range(0, len(ordered), size)]
    return sum(int(batch[-1]) * len(batch) for batch in batches) / int(lengths.sum())
